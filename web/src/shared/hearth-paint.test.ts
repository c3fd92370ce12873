import { expect, test } from "vitest";
import { columns } from "./hearth-paint";

test("the cells of a hearth fill its width and stay within it", () => {
  for (const cells of [1, 30, 59, 1000, 5000]) {
    for (const width of [280, 560, 1200]) {
      const across = columns(cells, width);
      expect(across).toBeGreaterThanOrEqual(1);
      expect(across).toBeLessThanOrEqual(cells);
      if (across < cells) expect(width / across).toBeGreaterThanOrEqual(14);
    }
  }
});
