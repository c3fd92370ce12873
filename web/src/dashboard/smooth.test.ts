import { expect, test } from "vitest";
import { smooth } from "./smooth";

test("a smoothed curve keeps its ends, its length and its mean height", () => {
  const noisy = Array.from({ length: 200 }, (_, index) => 1 + (index % 2 === 0 ? 0.5 : -0.5));
  const smoothed = smooth(noisy);
  expect(smoothed).toHaveLength(200);
  expect(smoothed[0]).toBe(noisy[0]);
  expect(smoothed.at(-1)).toBe(noisy.at(-1));
  for (const value of smoothed.slice(20, 180)) expect(Math.abs(value - 1)).toBeLessThan(0.03);
  expect(smooth([])).toEqual([]);
  expect(smooth([2])).toEqual([2]);
});
