import { useEffect, useRef } from "preact/hooks";
import type { EpochView } from "../generated/EpochView";
import { text } from "../text/en";
import type { Live } from "./live";
import { useSignal } from "./signal";

const FRAME = 50; // at most 20 frames a second
const FLIGHT = 700; // a spark's way to its cell
const COOLING = 30_000; // an ember's way from fresh to old
const GAP = 0.14; // share of a cell that is left free

interface Spark {
  shard: number;
  mine: boolean;
  began: number;
}

/** Cells in a row, so that they fill the width and stay square. */
export function columns(cells: number, width: number): number {
  const side = Math.max(14, Math.min(44, Math.sqrt((width * width * 0.7) / Math.max(1, cells))));
  return Math.max(1, Math.min(cells, Math.floor(width / side)));
}

/** The hearth: a cell a shard. Every spark is one real commit. */
export function Hearth({ live, worker }: { live: Live; worker: number | null }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const mine = useRef(worker);
  mine.current = worker;
  const state = useSignal(live.state);
  useEffect(() => (canvas.current ? draw(canvas.current, live, () => mine.current) : undefined), [live]);
  const shards = state?.epoch.shards ?? [];
  const done = shards.filter((shard) => shard.done + shard.refused === shard.samples).length;
  const refused = shards.filter((shard) => shard.refused > 0).length;
  const leased = shards.filter((shard) => shard.leased > 0).length;
  return (
    <div class="hearth">
      <div aria-hidden="true">
        <canvas ref={canvas} />
      </div>
      {shards.length > 0 && (
        <p>
          {text.hearth(done, shards.length, leased, refused)}. {text.hearthLegend}
        </p>
      )}
    </div>
  );
}

/** Draws while something changes and the tab is visible; returns what ends it. */
function draw(canvas: HTMLCanvasElement, live: Live, mine: () => number | null): () => void {
  const context = canvas.getContext("2d");
  if (!context) return () => {};
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const freshened = new Map<number, number>();
  const ringed = new Set<number>();
  let sparks: Spark[] = [];
  let before: EpochView | null = null;
  let scheduled = false;

  const frame = () => {
    scheduled = false;
    if (document.hidden) return;
    const now = performance.now();
    sparks = sparks.filter((spark) => now - spark.began < FLIGHT);
    paint(canvas, context, before, freshened, ringed, sparks, now);
    const cooling = [...freshened.values()].some((at) => now - at < COOLING);
    if (sparks.length > 0) schedule(FRAME);
    else if (cooling && !still.matches) schedule(1_000);
  };
  const schedule = (wait: number) => {
    if (scheduled) return;
    scheduled = true;
    setTimeout(() => requestAnimationFrame(frame), wait);
  };

  const stopListening = live.state.listen(() => {
    const epoch = live.state.get()?.epoch ?? null;
    if (!epoch) return;
    if (before && before.epoch !== epoch.epoch) {
      freshened.clear();
      ringed.clear();
    }
    epoch.shards.forEach((shard, index) => {
      if (before && shard.done > (before.shards[index]?.done ?? 0)) freshened.set(index, performance.now());
    });
    before = epoch;
    schedule(0);
  });
  const stopSparks = live.onCommit((event) => {
    // What comes before the first state is the log of earlier commits.
    if (document.hidden || event.shard === null || !before) return;
    const own = event.worker !== null && event.worker === mine();
    if (own) ringed.add(event.shard);
    if (!still.matches) sparks.push({ shard: event.shard, mine: own, began: performance.now() });
    schedule(0);
  });
  const resized = new ResizeObserver(() => schedule(0));
  resized.observe(canvas);
  const themed = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => schedule(0);
  themed.addEventListener("change", repaint);
  document.addEventListener("visibilitychange", repaint);
  before = live.state.get()?.epoch ?? null;
  schedule(0);
  return () => {
    stopListening();
    stopSparks();
    resized.disconnect();
    themed.removeEventListener("change", repaint);
    document.removeEventListener("visibilitychange", repaint);
  };
}

function paint(
  canvas: HTMLCanvasElement,
  context: CanvasRenderingContext2D,
  epoch: EpochView | null,
  freshened: Map<number, number>,
  ringed: Set<number>,
  sparks: Spark[],
  now: number,
) {
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const shards = epoch?.shards ?? [];
  const width = canvas.clientWidth;
  const across = columns(shards.length || 30, width);
  const side = width / across;
  const rows = Math.max(1, Math.ceil((shards.length || 30) / across));
  const scale = devicePixelRatio;
  const height = Math.ceil(rows * side);
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  const inset = (side * GAP) / 2;
  const size = side - 2 * inset;
  shards.forEach((shard, index) => {
    const x = (index % across) * side + inset;
    const y = Math.floor(index / across) * side + inset;
    context.strokeStyle = colour("--cell");
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    if (shard.leased > 0) {
      context.globalAlpha = 0.22;
      context.fillStyle = colour("--flame");
      context.fillRect(x, y, size, size);
      context.globalAlpha = 1;
    }
    if (shard.done > 0) {
      const age = Math.min(1, (now - (freshened.get(index) ?? now - COOLING)) / COOLING);
      const filled = (size * shard.done) / shard.samples;
      context.fillStyle = `color-mix(in oklch, ${colour("--ember-old")} ${Math.round(age * 100)}%, ${colour("--ember-new")})`;
      context.fillRect(x, y + size - filled, size, filled);
    }
    if (shard.refused > 0)
      hatch(
        context,
        x,
        y + size - (size * (shard.done + shard.refused)) / shard.samples,
        size,
        (size * shard.refused) / shard.samples,
        colour("--quiet"),
      );
    if (ringed.has(index)) {
      context.strokeStyle = colour("--ink");
      context.lineWidth = 1.5;
      context.strokeRect(x + 0.75, y + 0.75, size - 1.5, size - 1.5);
    }
  });
  for (const spark of sparks) {
    const way = (now - spark.began) / FLIGHT;
    const eased = 1 - (1 - way) ** 3;
    const goalX = (spark.shard % across) * side + side / 2;
    const goalY = Math.floor(spark.shard / across) * side + side / 2;
    const x = width / 2 + (goalX - width / 2) * eased;
    const y = height + (goalY - height) * eased;
    context.globalAlpha = 1 - way * 0.4;
    context.fillStyle = colour("--flame");
    context.beginPath();
    context.arc(x, y, Math.max(2, side * 0.12), 0, 2 * Math.PI);
    context.fill();
    if (spark.mine) {
      context.strokeStyle = colour("--ink");
      context.lineWidth = 1.5;
      context.beginPath();
      context.arc(x, y, Math.max(4, side * 0.2), 0, 2 * Math.PI);
      context.stroke();
    }
    context.globalAlpha = 1;
  }
}

/** Diagonal lines over a part of a cell: samples that were given up. */
function hatch(context: CanvasRenderingContext2D, x: number, y: number, width: number, height: number, colour: string) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.beginPath();
  for (let at = -height; at < width; at += 4) {
    context.moveTo(x + at, y + height);
    context.lineTo(x + at + height, y);
  }
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.stroke();
  context.restore();
}
