import type { WorkerView } from "../generated/WorkerView";
import { count } from "../shared/format";
import { text } from "../text/en";

const device = (worker: WorkerView): string => {
  const kind = worker.backend === "cpu" ? text.device.cpu : text.device.webgpu;
  const name = worker.adapter || text.device.unnamed;
  return `${kind}: ${name}${worker.software ? `, ${text.device.software}` : ""}`;
};

function state(worker: WorkerView): string {
  if (!worker.connected) return text.workers.gone;
  if (worker.silent_seconds > 0) return text.workers.silent(worker.silent_seconds);
  return worker.admitted ? text.workers.here : text.workers.testing;
}

export function Workers({ workers }: { workers: WorkerView[] }) {
  const columns = text.workers.columns;
  if (workers.length === 0) return <p class="quiet">{text.workers.empty}</p>;
  return (
    <div class="scroll">
      <table id="workers">
        <thead>
          <tr>
            <th>{columns.id}</th>
            <th>{columns.device}</th>
            <th>{columns.state}</th>
            <th class="number">{columns.speed}</th>
            <th class="number">{columns.samples}</th>
            <th class="number">{columns.commits}</th>
            <th class="number">{columns.rejected}</th>
            <th class="number">{columns.staleness}</th>
            <th class="number">{columns.loss}</th>
          </tr>
        </thead>
        <tbody>
          {workers.map((worker) => (
            <tr key={worker.id} class={worker.connected ? "" : "gone"}>
              <td>
                {worker.id} <span class="mono quiet">{worker.contributor}</span>
              </td>
              <td>{device(worker)}</td>
              <td>{state(worker)}</td>
              <td class="number">{worker.samples_per_second?.toFixed(0) ?? "–"}</td>
              <td class="number">{count(worker.samples_accepted)}</td>
              <td class="number">{count(worker.commits_accepted)}</td>
              <td class="number" title={worker.last_refusal?.reason ?? ""}>
                {count(worker.commits_rejected)}
              </td>
              <td class="number">{worker.staleness ?? "–"}</td>
              <td class="number">{worker.loss?.toFixed(4) ?? "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
