import { mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import subsetFont from "subset-font";
import type { Plugin } from "vite";

/** Where the cut fonts are written; styles name them as `@fonts/NAME.woff2`. */
const FOLDER = new URL("./node_modules/.kindling-fonts/", import.meta.url);
/** What the three may weigh together, in bytes. */
const MOST_BYTES = 70_000;

const span = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => String.fromCodePoint(first + index)).join("");
const ASCII = span(0x20, 0x7e);
const LATIN = `${ASCII}${span(0xa0, 0xff)}…–—‘’“”·→×≤≥−•`;

const FONTS = [
  {
    name: "headline",
    file: "@fontsource-variable/bricolage-grotesque/files/bricolage-grotesque-latin-wght-normal.woff2",
    characters: LATIN,
    options: { variationAxes: { wght: { min: 600, max: 700 } } },
  },
  {
    name: "text",
    file: "@fontsource-variable/instrument-sans/files/instrument-sans-latin-wght-normal.woff2",
    characters: LATIN,
    options: {},
  },
  {
    name: "mono",
    file: "@fontsource/commit-mono/files/commit-mono-latin-400-normal.woff2",
    characters: `${ASCII}…·`,
    // Ids and logs need none of its programming ligatures.
    options: { noLayoutClosure: true },
  },
];

/** Cuts the fonts to the characters and weights that the pages show: whole, they would be twice as heavy. */
export function fonts(): Plugin {
  return {
    name: "kindling-fonts",
    config: () => ({ resolve: { alias: { "@fonts": fileURLToPath(FOLDER) } } }),
    async buildStart() {
      await mkdir(FOLDER, { recursive: true });
      let bytes = 0;
      for (const { name, file, characters, options } of FONTS) {
        const whole = await readFile(new URL(`./node_modules/${file}`, import.meta.url));
        const cut = await subsetFont(whole, characters, { targetFormat: "woff2", ...options });
        bytes += cut.length;
        await writeFile(new URL(`${name}.woff2`, FOLDER), cut);
      }
      if (bytes > MOST_BYTES) this.error(`the fonts have ${bytes} bytes together: the limit is ${MOST_BYTES}`);
    },
  };
}
