import { useEffect, useRef } from "preact/hooks";
import { text } from "../text/en";
import { COOLING, type Embers, FLIGHT, gridOf, paintCells, paintSparks, resize, type Spark } from "./hearth-paint";
import type { Live } from "./live";
import { useSignal } from "./signal";

const FRAME = 50; // at most 20 frames a second
const FRAME_BESIDE_TRAINING = 100; // drawing takes from the machine that trains
const COOLING_STEP = 1_000;

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
  const cells = document.createElement("canvas");
  const layer = cells.getContext("2d");
  if (!context || !layer) return () => {};
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const embers: Embers = { epoch: null, freshened: new Map(), ringed: new Set() };
  let sparks: Spark[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  let due = Number.POSITIVE_INFINITY;
  let stale = true;
  let paintedAt = 0;

  const frame = () => {
    due = Number.POSITIVE_INFINITY;
    if (document.hidden) return;
    const now = performance.now();
    sparks = sparks.filter((spark) => now - spark.began < FLIGHT);
    const cooling = !still.matches && [...embers.freshened.values()].some((at) => paintedAt - at < COOLING);
    const grid = gridOf(canvas, embers.epoch?.shards.length || 30);
    if (grid.width === 0) return;
    const sizeChanged = resize(canvas, grid);
    // The cells change a few times a second, the sparks at every frame.
    if (stale || sizeChanged || (cooling && now - paintedAt >= COOLING_STEP)) {
      cells.width = canvas.width;
      cells.height = canvas.height;
      layer.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
      paintCells(layer, grid, embers, getComputedStyle(canvas), now);
      stale = false;
      paintedAt = now;
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(cells, 0, 0);
    if (sparks.length > 0) {
      context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
      paintSparks(context, grid, sparks, getComputedStyle(canvas), now);
      schedule(mine() === null ? FRAME : FRAME_BESIDE_TRAINING);
    } else if (cooling) schedule(COOLING_STEP);
  };
  const schedule = (wait: number) => {
    const at = performance.now() + wait;
    if (at >= due) return;
    clearTimeout(timer);
    due = at;
    timer = setTimeout(() => requestAnimationFrame(frame), wait);
  };
  const repaint = () => {
    stale = true;
    schedule(0);
  };

  const stopListening = live.state.listen(() => {
    const epoch = live.state.get()?.epoch ?? null;
    if (!epoch) return;
    if (embers.epoch && embers.epoch.epoch !== epoch.epoch) {
      embers.freshened.clear();
      embers.ringed.clear();
    }
    epoch.shards.forEach((shard, index) => {
      if (embers.epoch && shard.done > (embers.epoch.shards[index]?.done ?? 0))
        embers.freshened.set(index, performance.now());
    });
    embers.epoch = epoch;
    repaint();
  });
  const stopSparks = live.onCommit((event) => {
    // What comes before the first state is the log of earlier commits.
    if (document.hidden || event.shard === null || !embers.epoch) return;
    const own = event.worker !== null && event.worker === mine();
    if (own && !embers.ringed.has(event.shard)) {
      embers.ringed.add(event.shard);
      stale = true;
    }
    if (!still.matches) sparks.push({ shard: event.shard, mine: own, began: performance.now() });
    schedule(0);
  });
  const resized = new ResizeObserver(repaint);
  resized.observe(canvas);
  const themed = matchMedia("(prefers-color-scheme: dark)");
  themed.addEventListener("change", repaint);
  document.addEventListener("visibilitychange", repaint);
  embers.epoch = live.state.get()?.epoch ?? null;
  repaint();
  return () => {
    clearTimeout(timer);
    stopListening();
    stopSparks();
    resized.disconnect();
    themed.removeEventListener("change", repaint);
    document.removeEventListener("visibilitychange", repaint);
  };
}
