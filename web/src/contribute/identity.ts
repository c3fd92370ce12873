import type { Identity } from "../generated/Identity";

/**
 * Two identities. The contributor is this browser profile: a random key in localStorage. The worker is one training
 * Web Worker: what the server issued, in sessionStorage, guarded by a lock, because a duplicated tab copies it.
 */
const CONTRIBUTOR = "kindling.contributor";
const WORKER = "kindling.worker";

/** The contributor's key, made at the first contribution. */
export function contributor(): string {
  const kept = read(localStorage, CONTRIBUTOR);
  if (kept && /^[0-9a-f]{64}$/.test(kept)) return kept;
  const key = Array.from(crypto.getRandomValues(new Uint8Array(32)), (byte) => byte.toString(16).padStart(2, "0")).join(
    "",
  );
  write(localStorage, CONTRIBUTOR, key);
  return key;
}

export function remember(identity: Identity | null): void {
  write(sessionStorage, WORKER, identity && JSON.stringify(identity));
  if (identity) void hold(lockName(identity));
}

/** The worker that this tab was before a reload; null for a new tab, and for one whose twin still lives. */
export async function recall(): Promise<Identity | null> {
  const kept = read(sessionStorage, WORKER);
  if (!kept) return null;
  try {
    const identity = JSON.parse(kept) as Identity;
    return (await hold(lockName(identity))) ? identity : null;
  } catch {
    return null;
  }
}

const lockName = (identity: Identity) => `kindling.worker.${identity.run}.${identity.worker}`;
const held = new Set<string>();

/** Takes a lock for as long as the tab lives. Without locks (an address that is not secure) nothing is resumed. */
function hold(name: string): Promise<boolean> {
  if (held.has(name)) return Promise.resolve(true);
  if (!navigator.locks) return Promise.resolve(false);
  return new Promise((settle) => {
    void navigator.locks.request(name, { ifAvailable: true }, (lock) => {
      settle(lock !== null);
      if (!lock) return undefined;
      held.add(name);
      return new Promise(() => {});
    });
  });
}

/** A browser may forbid storage: then every visit is a new contributor. */
function read(storage: Storage, key: string): string | null {
  try {
    return storage.getItem(key);
  } catch {
    return null;
  }
}

function write(storage: Storage, key: string, value: string | null): void {
  try {
    if (value === null) storage.removeItem(key);
    else storage.setItem(key, value);
  } catch {
    // See above.
  }
}
