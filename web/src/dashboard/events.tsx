import type { Event } from "../generated/Event";
import type { NoteKind } from "../generated/NoteKind";
import { clock } from "../shared/format";
import { text } from "../text/en";

const BAD: ReadonlySet<NoteKind> = new Set<NoteKind>([
  "worker_refused",
  "worker_trapped",
  "device_lost",
  "shard_unavailable",
  "commit_rejected",
]);

export function EventLog({ events }: { events: Event[] }) {
  if (events.length === 0) return <p class="quiet">{text.events.empty}</p>;
  return (
    <ol class="log" id="events">
      {events.map((event) => (
        <li key={event.id} class={BAD.has(event.kind) ? "bad" : ""} data-kind={event.kind}>
          <time class="quiet" dateTime={new Date(event.at).toISOString()}>
            {clock(event.at)}
          </time>
          <span>
            {event.worker === null ? text.events.run : text.figures.workerName(event.worker)}{" "}
            {text.events.kind[event.kind]}
          </span>
          <span class="quiet">{event.reason}</span>
        </li>
      ))}
    </ol>
  );
}
