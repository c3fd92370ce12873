/** Trusted Types, where the browser has them: TypeScript does not know them yet. */
interface PolicyFactory {
  createPolicy: (
    name: string,
    rules: { createScriptURL: (url: string) => string },
  ) => {
    createScriptURL: (url: string) => unknown;
  };
}

/** The only addresses that may become a script here: those of the build's own Web Workers. */
const policy = (globalThis as { trustedTypes?: PolicyFactory }).trustedTypes?.createPolicy("kindling", {
  createScriptURL: (url: string) => url,
});

/** Opens a Web Worker of this build; `address` is what `?worker&url` gives. */
export function openWorker(address: string): Worker {
  const url = new URL(address, globalThis.document?.baseURI ?? location.href).href;
  return new Worker((policy?.createScriptURL(url) ?? url) as string, { type: "module" });
}
