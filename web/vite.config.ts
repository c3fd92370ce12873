import { defineConfig } from "vite";
import { fonts } from "./fonts";

// `cargo xtask build` names the folder: debug and release builds of the server read different ones.
const outDir = process.env.KINDLING_WEB_OUT ?? "dist/debug";

export default defineConfig({
  // Every address is relative, so that the pages work below any path prefix.
  base: "./",
  plugins: [fonts()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir,
    emptyOutDir: false,
    target: "es2023",
    modulePreload: { polyfill: false },
    rollupOptions: { input: ["index.html", "dashboard.html"] },
  },
  worker: { format: "es" },
});
