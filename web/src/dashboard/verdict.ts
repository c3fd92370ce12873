import type { RunStatus } from "../generated/RunStatus";
import { duration, percent } from "../shared/format";
import { text } from "../text/en";

/** Without a commit for this long a run with workers is stuck. */
const STUCK_AFTER = 30_000;

export interface Verdict {
  words: string;
  bad: boolean;
}

/** The run in one line: is it learning, who helps, what is stuck. */
export function verdict(status: RunStatus, lastCommitAt: number | null, now: number): Verdict {
  const words = text.verdict;
  const accuracy = status.metrics.accuracy;
  if (status.state === "finished") {
    const took = duration((status.finished_at ?? now) - status.started_at);
    return { words: words.finished(accuracy === null ? "–" : percent(accuracy), took), bad: false };
  }
  if (status.state === "failed") return { words: words.failed(status.stop_reason ?? ""), bad: true };
  if (status.state === "waiting") {
    const workers = status.workers_active;
    return { words: workers === 0 ? words.waiting : words.starting(words.workers(workers)), bad: false };
  }
  if (status.workers_active === 0) return { words: words.alone, bad: true };
  const silent = now - (lastCommitAt ?? status.started_at);
  if (silent > STUCK_AFTER) return { words: words.stuck(Math.round(silent / 1000)), bad: true };
  const all = status.epochs * status.train_samples;
  const share = status.samples_trained / all;
  const left = share > 0.02 ? words.left(duration(((now - status.started_at) * (1 - share)) / share)) : "";
  return {
    words: words.learning(
      accuracy === null ? "" : words.accuracy(percent(accuracy)),
      Math.min(status.epoch + 1, status.epochs),
      status.epochs,
      words.workers(status.workers_active),
      left,
    ),
    bad: false,
  };
}
