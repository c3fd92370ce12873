import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Series } from "../generated/Series";
import { percent } from "../shared/format";
import type { Live } from "../shared/live";
import { apiUrl } from "../shared/place";
import { text } from "../text/en";
import { smooth } from "./smooth";

const REFRESH = 2_000;
const POINTS = 600;

/** Minutes since the start, and the value. */
type Curve = { name: string; unit: string; points: [number, number][] };

/** Loss and accuracy over time. */
export function Curves({ run, live, startedAt }: { run: string; live: Live; startedAt: number | null }) {
  const [series, setSeries] = useState<Series[]>([]);
  useEffect(() => {
    let shown = -1;
    let busy = false;
    const load = async () => {
      const version = live.state.get()?.status.version ?? 0;
      const state = live.state.get()?.status.state;
      const mark = version + (state === "finished" ? 0.5 : 0);
      if (busy || document.hidden || mark === shown) return;
      busy = true;
      try {
        const answer = await fetch(`${apiUrl}/runs/${encodeURIComponent(run)}/metrics?points=${POINTS}`);
        if (answer.ok) {
          setSeries(((await answer.json()) as { series: Series[] }).series);
          shown = mark;
        }
      } catch {
        // Offline: the dashboard says so already, and the next round tries again.
      }
      busy = false;
    };
    void load();
    const timer = setInterval(() => void load(), REFRESH);
    return () => clearInterval(timer);
  }, [run, live]);

  const start = startedAt ?? 0;
  const curve = (name: string, label: string, unit: string): Curve => {
    const found = series.find((one) => one.name === name);
    return { name: label, unit, points: found?.points.map(([at, , , value]) => [(at - start) / 60_000, value]) ?? [] };
  };
  const train = curve("train_loss", text.charts.trainLoss, text.charts.nats);
  const validation = curve("validation_loss", text.charts.validationLoss, text.charts.nats);
  const accuracy = curve("validation_accuracy", text.charts.accuracy, text.charts.share);
  if (train.points.length === 0) return <p class="quiet">{text.charts.empty}</p>;
  const first = validation.points[0]?.[1];
  const last = validation.points.at(-1)?.[1];
  const right = accuracy.points.at(-1)?.[1];
  return (
    <>
      <Chart
        curves={[train, validation]}
        colours={["--flame-text", "--slate"]}
        height={260}
        summary={
          first === undefined || last === undefined ? "" : text.charts.lossSummary(first.toFixed(3), last.toFixed(3))
        }
        format={(value) => value.toFixed(3)}
      />
      <Chart
        curves={[accuracy]}
        colours={["--slate"]}
        height={180}
        summary={right === undefined ? "" : text.charts.accuracySummary(percent(right))}
        format={(value) => percent(value)}
      />
      <p class="quiet small">{text.charts.clock}</p>
      <ValuesTable curves={[train, validation, accuracy]} />
    </>
  );
}

interface ChartProps {
  curves: Curve[];
  colours: string[];
  height: number;
  summary: string;
  format: (value: number) => string;
}

function Chart({ curves, colours, height, summary, format }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shown = useRef(curves);
  shown.current = curves;
  const [readout, setReadout] = useState("");

  useEffect(() => {
    const node = place.current;
    if (!node) return undefined;
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(
        options(node, shown.current, colours, height, format, setReadout),
        table(shown.current),
        node,
      );
    };
    make();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: node.clientWidth, height }));
    resized.observe(node);
    const theme = matchMedia("(prefers-color-scheme: dark)");
    theme.addEventListener("change", make);
    return () => {
      resized.disconnect();
      theme.removeEventListener("change", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.setData(table(curves)), [curves]);

  return (
    <figure>
      <div class="chart" style={{ minHeight: `${height}px` }} ref={place} aria-hidden="true" />
      <figcaption class="readout">{readout || summary}</figcaption>
    </figure>
  );
}

/** All curves over one clock: the raw points of the first are faint, its smoothed line is strong. */
function table(curves: Curve[]): uPlot.AlignedData {
  const many = curves.map((curve): uPlot.AlignedData => {
    const times = curve.points.map((point) => point[0]);
    const values = curve.points.map((point) => point[1]);
    return [times, values, smooth(values)];
  });
  return uPlot.join(many);
}

function options(
  node: HTMLElement,
  curves: Curve[],
  colours: string[],
  height: number,
  format: (value: number) => string,
  say: (words: string) => void,
): uPlot.Options {
  const style = getComputedStyle(node);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const quiet = colour("--quiet");
  const font = `13px ${style.getPropertyValue("--text")}`;
  const axis = { stroke: quiet, font, ticks: { show: false } };
  const series: uPlot.Series[] = [{}];
  curves.forEach((_, index) => {
    const stroke = colour(colours[index] ?? "--ink");
    series.push({
      stroke: `color-mix(in oklch, ${stroke} 28%, transparent)`,
      width: 1,
      spanGaps: true,
      points: { show: false },
    });
    series.push({ stroke, width: 2, spanGaps: true, points: { show: false } });
  });
  return {
    width: node.clientWidth,
    height,
    padding: [12, 130, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: false } },
    scales: { x: { time: false } },
    axes: [
      { ...axis, grid: { show: false } },
      { ...axis, size: 56, grid: { stroke: colour("--hairline"), width: 1 }, values: (_, ticks) => ticks.map(format) },
    ],
    series,
    hooks: {
      draw: [(plot) => labels(plot, curves, colours.map(colour), font)],
      setCursor: [
        (plot) => {
          const at = plot.cursor.idx;
          if (at === null || at === undefined) return say("");
          const minutes = plot.data[0][at];
          const words = curves.flatMap((curve, index) => {
            const value = plot.data[2 * index + 1]?.[at];
            if (value === null || value === undefined || minutes === undefined) return [];
            return [text.charts.readout(minutes.toFixed(1), curve.name, format(value), curve.unit)];
          });
          say(words.join("; "));
        },
      ],
    },
  };
}

/** A line's name at its end, instead of a legend. Names that would lie on each other move apart. */
function labels(plot: uPlot, curves: Curve[], colours: string[], font: string) {
  const scale = devicePixelRatio;
  const context = plot.ctx;
  const ends = curves
    .map((curve, index) => {
      const values = plot.data[2 * index + 2];
      const value = Array.from(values ?? []).findLast((one) => one !== null && one !== undefined);
      return {
        name: curve.name,
        colour: colours[index] ?? "",
        y: value === undefined || value === null ? null : plot.valToPos(value, "y", true),
      };
    })
    .filter((end): end is { name: string; colour: string; y: number } => end.y !== null)
    .sort((a, b) => a.y - b.y);
  let lowest = Number.NEGATIVE_INFINITY;
  context.save();
  context.font = font.replace("13px", `${13 * scale}px`);
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const end of ends) {
    const y = Math.max(end.y, lowest + 16 * scale);
    lowest = y;
    context.fillStyle = end.colour;
    context.fillText(end.name, plot.bbox.left + plot.bbox.width + 8 * scale, y);
  }
  context.restore();
}

const ROWS = 30;

function ValuesTable({ curves }: { curves: Curve[] }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>{text.charts.table}</summary>
      {open && (
        <div class="scroll">
          {curves.map((curve) => (
            <table key={curve.name}>
              <thead>
                <tr>
                  <th>{text.charts.time}</th>
                  <th>
                    {curve.name}, {curve.unit}
                  </th>
                </tr>
              </thead>
              <tbody>
                {thin(curve.points, ROWS).map(([minutes, value]) => (
                  <tr key={minutes}>
                    <td>{minutes.toFixed(2)}</td>
                    <td>{value.toFixed(4)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          ))}
        </div>
      )}
    </details>
  );
}

function thin<T>(all: T[], most: number): T[] {
  const step = Math.max(1, Math.ceil(all.length / most));
  return all.filter((_, index) => (all.length - 1 - index) % step === 0);
}
