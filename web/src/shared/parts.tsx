import type { ComponentChildren } from "preact";
import { text } from "../text/en";

export function Wordmark({ lit }: { lit: boolean }) {
  return (
    <span class={lit ? "wordmark lit" : "wordmark"}>
      <svg viewBox="0 0 32 32" aria-hidden="true">
        <g class="stroke" stroke-width="3" stroke-linecap="round">
          <path d="M5 27 16 19" />
          <path d="M27 27 16 19" />
          <path d="M16 19V6" />
        </g>
        <circle class="ember" cx="16" cy="19" r="5" />
      </svg>
      {text.wordmark}
    </span>
  );
}

export function Bar({ lit, link }: { lit: boolean; link?: { href: string; words: string } | undefined }) {
  return (
    <header class="bar">
      <Wordmark lit={lit} />
      {link && <a href={link.href}>{link.words}</a>}
    </header>
  );
}

/** Something that a person should know: what it is, and what helps. */
export function Notice({ bad, title, children }: { bad?: boolean; title: string; children?: ComponentChildren }) {
  return (
    <div class={bad ? "notice refusal" : "notice"}>
      <svg viewBox="0 0 24 24" aria-hidden="true">
        {bad ? (
          <path d="M12 3 2.5 20h19ZM12 10v5m0 2.2v.3" />
        ) : (
          <path d="M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Zm0-10v6m0-9v.3" />
        )}
      </svg>
      <div>
        <strong>{title}</strong>
        {children}
      </div>
    </div>
  );
}
