import type { PageMessage } from "../generated/PageMessage";
import type { Progress } from "../generated/Progress";
import type { Trouble } from "../generated/Trouble";
import { openWorker } from "../shared/open-worker";
import { apiUrl, choices, root, socketUrl } from "../shared/place";
import { type Signal, signal } from "../shared/signal";
import type { Command } from "../worker";
import workerAddress from "../worker?worker&url";
import { contributor, recall, remember } from "./identity";

/** What the page shows of its Web Worker. */
export type Engine =
  | { kind: "idle" }
  | { kind: "opening" }
  | { kind: "working"; progress: Progress }
  | { kind: "failed"; reason: string };

/** A worker that traps again and again: waits, then stays on the CPU, then gives up. */
const MOST_RESTARTS = 5;
const RESTARTS_ON_GPU = 2;
const RESTART_WAIT = 1_000;

export class Contribution {
  readonly engine: Signal<Engine> = signal<Engine>({ kind: "idle" });
  /** Why the Web Worker was last started again. */
  readonly restarted: Signal<Trouble | null> = signal<Trouble | null>(null);
  private worker: Worker | null = null;
  private paused = false;
  private restarts = 0;
  private backend = choices(location.hash).backend;

  constructor(private readonly run: string) {}

  /** Begins; only a click may call this. */
  async start(trouble: Trouble | null = null): Promise<void> {
    if (this.worker) return;
    this.engine.set({ kind: "opening" });
    const worker = openWorker(workerAddress);
    this.worker = worker;
    worker.onmessage = (event: MessageEvent<PageMessage>) => this.hear(event.data);
    // A trap in wasm settles no promise: this is the only sign of it.
    worker.onerror = (event) => {
      event.preventDefault();
      this.restart({ kind: "trap", detail: event.message || "the training program could not be loaded" });
    };
    const identity = await recall();
    this.tell({
      kind: "start",
      root: root.href,
      socketUrl: socketUrl(),
      apiUrl,
      run: this.run,
      contributor: contributor(),
      identity,
      backend: this.backend,
      trouble,
    });
  }

  pause(): void {
    this.paused = true;
    this.tell({ kind: "pause" });
  }

  resume(): void {
    this.paused = false;
    if (this.worker) this.tell({ kind: "resume" });
    else void this.start(this.restarted.get());
  }

  private tell(command: Command): void {
    this.worker?.postMessage(command);
  }

  private hear(message: PageMessage): void {
    if (message.kind === "progress") {
      if (message.progress.commits_accepted > 0) {
        this.restarts = 0;
        this.restarted.set(null);
      }
      this.engine.set({ kind: "working", progress: message.progress });
    } else if (message.kind === "identity") remember(message.identity);
    else if (message.kind === "restart") this.restart(message.trouble);
    else this.fail(message.reason);
  }

  private restart(trouble: Trouble): void {
    this.worker?.terminate();
    this.worker = null;
    this.restarts += 1;
    this.restarted.set(trouble);
    // A worker that ended while it was paused is started by the person, not by this.
    if (this.paused) return;
    if (this.restarts > MOST_RESTARTS) {
      this.fail(trouble.detail);
      return;
    }
    if (this.restarts > RESTARTS_ON_GPU && this.backend === "auto") this.backend = "cpu";
    this.engine.set({ kind: "opening" });
    setTimeout(() => void this.start(trouble), RESTART_WAIT * this.restarts);
  }

  private fail(reason: string): void {
    this.worker?.terminate();
    this.worker = null;
    this.engine.set({ kind: "failed", reason });
  }
}
