/** How the hearth is painted: its cells, which change now and then, and the sparks above them. */
import type { EpochView } from "../generated/EpochView";

export const FLIGHT = 700; // a spark's way to its cell
export const COOLING = 30_000; // an ember's way from fresh to old
const GAP = 0.14; // share of a cell that is left free

export interface Spark {
  shard: number;
  mine: boolean;
  began: number;
}

/** What the cells show. */
export interface Embers {
  epoch: EpochView | null;
  /** When a shard last gained samples, by its index. */
  freshened: Map<number, number>;
  /** Shards with samples of this worker. */
  ringed: Set<number>;
}

/** Where the cells are, in CSS pixels. */
export interface Grid {
  across: number;
  side: number;
  width: number;
  height: number;
}

/** Cells in a row, so that they fill the width and stay square. */
export function columns(cells: number, width: number): number {
  const side = Math.max(14, Math.min(44, Math.sqrt((width * width * 0.7) / Math.max(1, cells))));
  return Math.max(1, Math.min(cells, Math.floor(width / side)));
}

/** The grid of so many cells. */
export function gridOf(canvas: HTMLCanvasElement, cells: number): Grid {
  const width = canvas.clientWidth;
  const across = columns(cells, width);
  const side = width / across;
  return { across, side, width, height: Math.ceil(Math.max(1, Math.ceil(cells / across)) * side) };
}

/** Gives the canvas the grid's size; returns whether it had another one. */
export function resize(canvas: HTMLCanvasElement, { width, height }: Grid): boolean {
  const [across, down] = [Math.round(width * devicePixelRatio), Math.round(height * devicePixelRatio)];
  if (canvas.width === across && canvas.height === down) return false;
  canvas.width = across;
  canvas.height = down;
  canvas.style.height = `${height}px`;
  return true;
}

export function paintCells(
  context: CanvasRenderingContext2D,
  { across, side }: Grid,
  { epoch, freshened, ringed }: Embers,
  style: CSSStyleDeclaration,
  now: number,
) {
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const [border, flame, quiet, ink] = [colour("--cell"), colour("--flame"), colour("--quiet"), colour("--ink")];
  const [old, fresh] = [colour("--ember-old"), colour("--ember-new")];
  const inset = (side * GAP) / 2;
  const size = side - 2 * inset;
  epoch?.shards.forEach((shard, index) => {
    const x = (index % across) * side + inset;
    const y = Math.floor(index / across) * side + inset;
    context.strokeStyle = border;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    if (shard.leased > 0) {
      context.globalAlpha = 0.22;
      context.fillStyle = flame;
      context.fillRect(x, y, size, size);
      context.globalAlpha = 1;
    }
    if (shard.done > 0) {
      const age = Math.min(1, (now - (freshened.get(index) ?? now - COOLING)) / COOLING);
      const filled = (size * shard.done) / shard.samples;
      context.fillStyle = `color-mix(in oklch, ${old} ${Math.round(age * 100)}%, ${fresh})`;
      context.fillRect(x, y + size - filled, size, filled);
    }
    if (shard.refused > 0) {
      const top = y + size - (size * (shard.done + shard.refused)) / shard.samples;
      hatch(context, x, top, size, (size * shard.refused) / shard.samples, quiet);
    }
    if (ringed.has(index)) {
      context.strokeStyle = ink;
      context.lineWidth = 1.5;
      context.strokeRect(x + 0.75, y + 0.75, size - 1.5, size - 1.5);
    }
  });
}

export function paintSparks(
  context: CanvasRenderingContext2D,
  { across, side, width, height }: Grid,
  sparks: Spark[],
  style: CSSStyleDeclaration,
  now: number,
) {
  context.fillStyle = style.getPropertyValue("--flame").trim();
  context.strokeStyle = style.getPropertyValue("--ink").trim();
  context.lineWidth = 1.5;
  for (const spark of sparks) {
    const way = (now - spark.began) / FLIGHT;
    const eased = 1 - (1 - way) ** 3;
    const goalX = (spark.shard % across) * side + side / 2;
    const goalY = Math.floor(spark.shard / across) * side + side / 2;
    const x = width / 2 + (goalX - width / 2) * eased;
    const y = height + (goalY - height) * eased;
    context.globalAlpha = 1 - way * 0.4;
    context.beginPath();
    context.arc(x, y, Math.max(2, side * 0.12), 0, 2 * Math.PI);
    context.fill();
    if (spark.mine) {
      context.beginPath();
      context.arc(x, y, Math.max(4, side * 0.2), 0, 2 * Math.PI);
      context.stroke();
    }
  }
  context.globalAlpha = 1;
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
