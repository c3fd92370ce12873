import { useEffect, useMemo } from "preact/hooks";
import { bytes, count } from "../shared/format";
import { Hearth } from "../shared/hearth";
import { follow } from "../shared/live";
import { Bar, Notice } from "../shared/parts";
import { root } from "../shared/place";
import { useClock, useSignal } from "../shared/signal";
import { text } from "../text/en";
import { Curves } from "./curves";
import { EventLog } from "./events";
import { verdict } from "./verdict";
import { Workers } from "./workers";

export function Dashboard({ run }: { run: string }) {
  const live = useMemo(() => follow(run), [run]);
  const state = useSignal(live.state);
  const online = useSignal(live.online);
  const unknown = useSignal(live.unknown);
  const log = useSignal(live.log);
  useClock(1_000);
  const status = state?.status ?? null;
  const lastCommit = useSignal(live.lastCommitAt);
  const line = status ? verdict(status, lastCommit, live.now()) : null;

  useEffect(() => {
    document.documentElement.dataset.phase = online ? (status?.state ?? "loading") : "offline";
    document.title = `${line?.words ?? run} · ${text.wordmark}`;
  });

  return (
    <div class="frame">
      <Bar
        lit={status?.state === "running" && status.workers_active > 0}
        link={{ href: new URL(`r/${encodeURIComponent(run)}`, root).href, words: text.toContribute }}
      />
      <main>
        <div class="verdict" role="status">
          <p class="quiet">{status?.name ?? run}</p>
          <h1 class={line?.bad ? "stuck" : ""}>{line?.words ?? text.loading}</h1>
          {status && (
            <p class="quiet">
              {text.summary(
                count(status.samples_trained),
                count(status.epochs * status.train_samples),
                count(status.commits.accepted),
                count(status.commits.rejected),
                status.staleness.p50,
                status.staleness.max,
              )}{" "}
              {text.figures.trafficText(bytes(status.traffic.bytes_out), bytes(status.traffic.bytes_in))}.
            </p>
          )}
          {!online && <Notice bad title={unknown ? text.notice.unknownRun : text.verdict.offline} />}
        </div>
        <div class="board">
          <section class="curves">
            <h2>{text.charts.title}</h2>
            <Curves run={run} live={live} startedAt={status?.started_at ?? null} />
          </section>
          <section class="fire">
            <h2>{text.hearthTitle}</h2>
            <Hearth live={live} worker={null} />
          </section>
          <section>
            <h2>{text.workers.title}</h2>
            <Workers workers={state?.workers ?? []} />
          </section>
          <section>
            <h2>{text.events.title}</h2>
            <EventLog events={log} />
          </section>
        </div>
      </main>
    </div>
  );
}
