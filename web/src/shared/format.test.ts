import { expect, test } from "vitest";
import { bytes, count, duration, percent } from "./format";

test("numbers carry their unit and as many digits as help", () => {
  expect(count(1234567.4)).toBe("1,234,567");
  expect(percent(0.9714)).toBe("97.1 %");
  expect([0, 999, 1000, 9940, 12_345, 80_000_000].map(bytes)).toEqual([
    "0 B",
    "999 B",
    "1.0 kB",
    "9.9 kB",
    "12 kB",
    "80 MB",
  ]);
  expect([400, 89_000, 91_000, 5_300_000, 7_200_000, 200_000_000].map(duration)).toEqual([
    "0 s",
    "89 s",
    "2 min",
    "88 min",
    "2 h",
    "2 days",
  ]);
});
