import { signal, type Signal } from "./signal";
import type { Event as LogEvent } from "../generated/Event";
import type { LiveState } from "../generated/LiveState";
import { apiUrl } from "./place";

/** Events that a page keeps. */
const MOST_EVENTS = 300;
/** Milliseconds until a stream that the browser gave up is opened again. */
const OPEN_AGAIN = 5_000;

/** A run as it is seen from here: its state, its log, and whether the server answers. */
export interface Live {
  state: Signal<LiveState | null>;
  /** Newest first. */
  log: Signal<LogEvent[]>;
  online: Signal<boolean>;
  /** True when the server answers that it hosts no such run. */
  unknown: Signal<boolean>;
  /** When the last commit was accepted, by the server's clock. */
  lastCommitAt: Signal<number | null>;
  /** Tells of every accepted commit; returns what ends it. */
  onCommit: (listener: (event: LogEvent) => void) => () => void;
  /** The server's clock, in unix milliseconds: the viewer's may be wrong. */
  now: () => number;
}

/** Follows a run's server-sent events; the browser connects again by itself and says which event it saw last. */
export function follow(run: string): Live {
  const state = signal<LiveState | null>(null);
  const log = signal<LogEvent[]>([]);
  const online = signal(true);
  const unknown = signal(false);
  const commitListeners = new Set<(event: LogEvent) => void>();
  let clockAhead = 0;
  const lastCommitAt = signal<number | null>(null);
  let arrived: LogEvent[] = [];
  let scheduled = false;
  const open = () => {
    // A new stream begins with everything that is kept.
    log.set([]);
    arrived = [];
    const source = new EventSource(`${apiUrl}/runs/${encodeURIComponent(run)}/events`);
    source.addEventListener("open", () => online.set(true));
    source.addEventListener("error", () => {
      online.set(false);
      // The browser connects again by itself, but not behind an answer that is an error, as a proxy gives.
      if (source.readyState === EventSource.CLOSED && !unknown.get()) setTimeout(open, OPEN_AGAIN);
      if (state.get() !== null) return;
      // An event stream that is refused does not say why.
      fetch(`${apiUrl}/runs/${encodeURIComponent(run)}`).then(
        (answer) => unknown.set(answer.status === 404),
        () => {},
      );
    });
    source.addEventListener("state", (message) => {
      const arrivedState = JSON.parse(message.data) as LiveState;
      clockAhead = arrivedState.server_time - Date.now();
      state.set(arrivedState);
    });
    source.addEventListener("log", (message) => {
      const event = JSON.parse(message.data) as LogEvent;
      arrived.push(event);
      if (event.kind === "commit_accepted") {
        lastCommitAt.set(event.at);
        for (const listener of commitListeners) listener(event);
      }
      // A whole backlog arrives at once: the list is drawn once for all of it.
      if (!scheduled) {
        scheduled = true;
        setTimeout(() => {
          scheduled = false;
          log.set([...arrived.reverse(), ...log.get()].slice(0, MOST_EVENTS));
          arrived = [];
        }, 100);
      }
    });
  };
  open();
  return {
    state,
    log,
    online,
    unknown,
    lastCommitAt,
    onCommit: (listener) => {
      commitListeners.add(listener);
      return () => commitListeners.delete(listener);
    },
    now: () => Date.now() + clockAhead,
  };
}
