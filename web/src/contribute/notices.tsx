import type { Trouble } from "../generated/Trouble";
import { Notice } from "../shared/parts";
import { choices } from "../shared/place";
import { text } from "../text/en";
import type { Engine } from "./engine";
import type { Support } from "./support";

/** Why this browser cannot train at all. */
export type Blocked = "noSimd" | null;

interface Facts {
  can: Support;
  blocked: Blocked;
  engine: Engine;
  restarted: Trouble | null;
  socketBlocked: boolean;
  show: boolean;
}

/** Whatever a person should know about this device and its connection, the gravest first. */
export function Notices({ can, blocked, engine, restarted, socketBlocked, show }: Facts) {
  if (!show) return null;
  const progress = engine.kind === "working" ? engine.progress : null;
  const refused = progress?.phase === "refused" ? progress.refused : null;
  const rejection = progress?.rejection ?? null;
  return (
    <>
      {blocked && (
        <Notice bad title={text.notice[blocked]}>
          {text.notice[`${blocked}Help`]}
        </Notice>
      )}
      {engine.kind === "failed" && (
        <Notice bad title={text.notice.failed}>
          {engine.reason}
        </Notice>
      )}
      {refused && (
        <Notice bad title={text.notice.refused}>
          {text.refusal[refused.code]} <span class="quiet">({refused.reason})</span>
        </Notice>
      )}
      {progress?.phase === "offline" && (
        <Notice bad title={socketBlocked ? text.notice.blocked : text.notice.offline}>
          {socketBlocked ? text.notice.blockedHelp : text.notice.offlineHelp}
        </Notice>
      )}
      {progress?.trouble && progress.phase !== "training" && progress.phase !== "exchanging" && !socketBlocked && (
        <Notice title={text.notice.trouble}>{progress.trouble}</Notice>
      )}
      {rejection && (
        <Notice title={text.notice.rejected}>
          {text.refusal[rejection.code]} <span class="quiet">({rejection.reason})</span>
        </Notice>
      )}
      {restarted && engine.kind !== "failed" && (
        <Notice title={`${text.notice.restarting}: ${text.trouble[restarted.kind]}`}>{restarted.detail}</Notice>
      )}
      {progress?.backend === "cpu" && can.webgpu && choices(location.hash).backend !== "cpu" && (
        <Notice title={text.notice.noAdapter}>{text.notice.noAdapterHelp}</Notice>
      )}
      {!blocked && !can.webgpu && (
        <Notice title={can.secure ? text.notice.noWebGpu : text.notice.insecure}>
          {can.secure ? text.notice.noWebGpuHelp : text.notice.insecureHelp}
        </Notice>
      )}
    </>
  );
}
