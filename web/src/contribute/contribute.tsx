import { useEffect, useMemo, useState } from "preact/hooks";
import type { Progress } from "../generated/Progress";
import type { RunStatus } from "../generated/RunStatus";
import { bytes, count, percent } from "../shared/format";
import { Hearth } from "../shared/hearth";
import { follow } from "../shared/live";
import { Bar, Notice } from "../shared/parts";
import { apiUrl, root } from "../shared/place";
import { useSignal } from "../shared/signal";
import { text } from "../text/en";
import { Contribution, type Engine } from "./engine";
import { Notices, type Blocked } from "./notices";
import { support } from "./support";

/** The page's state as one word: shown in its title, and read by headless workers. */
type PagePhase = "loading" | "unknown" | "blocked" | "ready" | "opening" | "failed" | "finished" | Progress["phase"];

export function Contribute({ run }: { run: string }) {
  const live = useMemo(() => follow(run), [run]);
  const contribution = useMemo(() => new Contribution(run), [run]);
  const can = useMemo(support, []);
  const engine = useSignal(contribution.engine);
  const restarted = useSignal(contribution.restarted);
  const state = useSignal(live.state);
  const online = useSignal(live.online);
  const unknown = useSignal(live.unknown);
  const status = state?.status ?? null;
  const blocked: Blocked = can.simd ? null : "noSimd";
  const progress = engine.kind === "working" ? engine.progress : null;
  const phase = unknown ? "unknown" : pagePhase(engine, status, blocked);
  const socketBlocked = useSocketBlocked(run, phase) && progress?.worker === null;

  useEffect(() => {
    const { dataset } = document.documentElement;
    dataset.phase = phase;
    dataset.reason = reasonOf(engine, blocked);
    dataset.retry = String(progress?.retry_in_ms !== null && progress !== null);
    dataset.samples = String(progress?.samples_accepted ?? 0);
    dataset.worker = String(progress?.worker ?? "");
    dataset.backend = progress?.backend ?? "";
    dataset.memory = String(progress?.memory_bytes ?? 0);
    dataset.version = String(progress?.version ?? "");
    const stand = phase in text.phase ? `${words(phase as Progress["phase"])} · ` : "";
    document.title = `${stand}${status?.name ?? run} · ${text.wordmark}`;
  });

  const training = phase === "training" || phase === "exchanging";
  const working = progress !== null && phase !== "ended" && phase !== "finished";
  return (
    <div class="frame">
      <Bar
        lit={training}
        link={{ href: new URL(`r/${encodeURIComponent(run)}/dashboard`, root).href, words: text.toDashboard }}
      />
      <main class="lend">
        <div class="words">
          <h1>{headline(phase, status?.name ?? run, status?.state === "failed")}</h1>
          {phase === "loading" && !online && (
            <Notice bad title={text.notice.offline}>
              {text.notice.offlineHelp}
            </Notice>
          )}
          {phase === "loading" && online && <p>{text.loading}</p>}
          {phase === "unknown" && (
            <Notice bad title={text.notice.unknownRun}>
              {text.notice.unknownRunHelp} <a href={root.href}>{text.list.title}</a>
            </Notice>
          )}
          {status && (phase === "finished" || phase === "ended") && <Finished status={status} progress={progress} />}
          {status && !working && phase !== "finished" && phase !== "ended" && <Invitation status={status} />}
          {(phase === "ready" || phase === "blocked") && (
            <div>
              <button
                id="start"
                class="start"
                type="button"
                disabled={blocked !== null}
                // Consent is a person's click or key: a script's is not trusted.
                onClick={(event) => event.isTrusted && void contribution.start()}
              >
                {text.start}
              </button>
            </div>
          )}
          {phase === "opening" && <p role="status">{text.opening}</p>}
          {working && <Working progress={progress} contribution={contribution} />}
          <Notices
            can={can}
            blocked={blocked}
            engine={engine}
            restarted={restarted}
            socketBlocked={socketBlocked}
            show={phase !== "finished" && phase !== "ended" && phase !== "loading" && phase !== "unknown"}
          />
          {status && phase !== "finished" && <WhatIsSent />}
        </div>
        <section aria-label={text.hearthTitle}>
          <Hearth live={live} worker={progress?.worker ?? null} />
        </section>
      </main>
    </div>
  );
}

function pagePhase(engine: Engine, status: RunStatus | null, blocked: Blocked): PagePhase {
  if (engine.kind === "working") return engine.progress.phase;
  if (engine.kind !== "idle") return engine.kind;
  if (!status) return "loading";
  if (status.state === "finished" || status.state === "failed") return "finished";
  return blocked ? "blocked" : "ready";
}

function headline(phase: PagePhase, name: string, failed: boolean): string {
  if (failed) return text.headlineFailed(name);
  if (phase === "finished" || phase === "ended") return text.headlineFinished(name);
  return phase === "training" || phase === "exchanging" ? text.headlineRunning(name) : text.headline(name);
}

function reasonOf(engine: Engine, blocked: Blocked): string {
  if (blocked) return `${text.notice[blocked]} ${text.notice[`${blocked}Help`]}`;
  if (engine.kind === "failed") return engine.reason;
  if (engine.kind !== "working") return "";
  const { refused, trouble, ended } = engine.progress;
  return refused?.reason ?? ended ?? trouble ?? "";
}

/** True when the server answers over HTTP but its WebSocket does not open. */
function useSocketBlocked(run: string, phase: PagePhase): boolean {
  const [blocked, setBlocked] = useState(false);
  useEffect(() => {
    if (phase !== "offline") {
      setBlocked(false);
      return;
    }
    let current = true;
    fetch(`${apiUrl}/runs/${encodeURIComponent(run)}`, { cache: "no-store" }).then(
      (answer) => current && setBlocked(answer.ok),
      () => {},
    );
    return () => {
      current = false;
    };
  }, [run, phase]);
  return blocked;
}

function Invitation({ status }: { status: RunStatus }) {
  return (
    <>
      <p class="lead">{text.lead(count(status.parameters), count(status.train_samples))}</p>
      <dl class="facts">
        <div>
          <dt>{text.facts.work}</dt>
          <dd>{text.facts.workText}</dd>
        </div>
        <div>
          <dt>{text.facts.cost}</dt>
          <dd>
            {text.facts.costText(
              bytes(status.data_bytes),
              bytes(status.exchange.bytes_down),
              bytes(status.exchange.bytes_up),
            )}
          </dd>
        </div>
        <div>
          <dt>{text.facts.sent}</dt>
          <dd>{text.facts.sentText}</dd>
        </div>
      </dl>
    </>
  );
}

function WhatIsSent() {
  return (
    <details>
      <summary>{text.more}</summary>
      <ul>
        {text.sentList.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </details>
  );
}

function Working({ progress, contribution }: { progress: Progress; contribution: Contribution }) {
  const paused = progress.phase === "paused";
  const retry = progress.retry_in_ms === null ? "" : `, ${text.retry(Math.ceil(progress.retry_in_ms / 1000))}`;
  const device = progress.backend === "cpu" ? text.device.cpu : text.device.webgpu;
  return (
    <>
      <div class="slim">
        <span class="now" role="status">
          {words(progress.phase)}
          {retry}
        </span>
        {progress.phase !== "refused" && (
          <button
            id="pause"
            class="button"
            type="button"
            onClick={() => (paused ? contribution.resume() : contribution.pause())}
          >
            {paused ? text.resume : text.pause}
          </button>
        )}
      </div>
      {paused && <p>{text.pausedNote}</p>}
      <Transfers progress={progress} />
      {progress.phase === "waiting" && progress.waiting_for && <p class="quiet">{progress.waiting_for}</p>}
      <dl class="figures">
        <div>
          <dt>{text.figures.given}</dt>
          <dd id="given">{count(progress.samples_accepted)}</dd>
        </div>
        <div>
          <dt>{text.figures.speed}</dt>
          <dd>
            {progress.steps_per_second.toFixed(1)} <small>{text.figures.speedUnit}</small>
          </dd>
        </div>
        <div>
          <dt>{text.figures.loss}</dt>
          <dd title={text.figures.lossUnit}>{progress.loss === null ? "–" : progress.loss.toFixed(4)}</dd>
        </div>
        <div>
          <dt>{text.figures.device}</dt>
          <dd>
            {device}
            <br />
            <small>
              {progress.adapter || text.device.unnamed}
              {progress.software && ` · ${text.device.software}`}
            </small>
          </dd>
        </div>
        <div>
          <dt>{text.figures.worker}</dt>
          <dd>
            {progress.worker === null ? "–" : text.figures.workerName(progress.worker)}
            <br />
            <small>{progress.version !== null && text.figures.versionText(progress.version)}</small>
          </dd>
        </div>
        <div>
          <dt>{text.figures.traffic}</dt>
          <dd>
            {bytes(progress.bytes_in + progress.bytes_out)}
            <br />
            <small>{text.figures.trafficText(bytes(progress.bytes_in), bytes(progress.bytes_out))}</small>
          </dd>
        </div>
      </dl>
    </>
  );
}

/** Smaller messages are over before they could be read of. */
const LARGE = 4_000_000;

function Transfers({ progress }: { progress: Progress }) {
  const parts = [
    { words: text.receiving, transfer: progress.receiving },
    { words: text.sending, transfer: progress.sending },
  ];
  return (
    <>
      {parts.map(
        ({ words, transfer }) =>
          transfer &&
          transfer.total >= LARGE && (
            <p class="quiet" key={words("", "")}>
              {words(bytes(transfer.done), bytes(transfer.total))}
            </p>
          ),
      )}
    </>
  );
}

/** An exchange takes a moment after every window: as a word of its own it would only flicker. */
const words = (phase: Progress["phase"]): string => text.phase[phase === "exchanging" ? "training" : phase];

function Finished({ status, progress }: { status: RunStatus; progress: Progress | null }) {
  const accuracy = status.metrics.accuracy === null ? "–" : percent(status.metrics.accuracy);
  return (
    <>
      <p class="lead">
        {status.state === "failed"
          ? text.finished.failed(status.stop_reason ?? "")
          : text.finished.lead(accuracy, count(status.samples_trained))}
      </p>
      {progress && progress.samples_accepted > 0 && <p>{text.finished.given(count(progress.samples_accepted))}</p>}
      <p>
        {text.finished.next} <code>{text.finished.nextCommand}</code>
      </p>
    </>
  );
}
