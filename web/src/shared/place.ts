/** Where this page stands: the server's root, and the run that its address names. */

export const root = new URL(".", document.baseURI);

/** The run's id, or an empty string on the server's own page. */
export function runOfAddress(path: string, rootPath: string): string {
  const rest = path.startsWith(rootPath) ? path.slice(rootPath.length) : path;
  const match = /^r\/([^/]+)/.exec(rest);
  return match?.[1] ? decodeURIComponent(match[1]) : "";
}

export const apiUrl = new URL("api/v1", root).href;

export function socketUrl(): string {
  const url = new URL("ws/worker", root);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

/** What the address asks for behind its `#`. Nothing in it starts anything. */
export function choices(hash: string): { backend: "auto" | "webgpu" | "cpu" } {
  const backend = new URLSearchParams(hash.replace(/^#/, "")).get("backend");
  return { backend: backend === "webgpu" || backend === "cpu" ? backend : "auto" };
}
