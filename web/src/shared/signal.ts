import { useEffect, useState } from "preact/hooks";

/** A value that tells its listeners when it changes. */
export interface Signal<T> {
  get: () => T;
  set: (value: T) => void;
  listen: (listener: () => void) => () => void;
}

export function signal<T>(initial: T): Signal<T> {
  let current = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => current,
    set: (value) => {
      if (Object.is(value, current)) return;
      current = value;
      for (const listener of listeners) listener();
    },
    listen: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Draws a component anew whenever the signal changes. */
export function useSignal<T>(source: Signal<T>): T {
  const [, show] = useState(source.get);
  useEffect(() => {
    const look = () => show(source.get);
    // Effects run some time after the drawing: what was set in between has told nobody.
    look();
    return source.listen(look);
  }, [source]);
  return source.get();
}

/** Draws a component anew every so many milliseconds, while the tab is visible. */
export function useClock(milliseconds: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setNow(Date.now());
    }, milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds]);
  return now;
}
