// @vitest-environment node
import { beforeAll, expect, test, vi } from "vitest";

beforeAll(() => vi.stubGlobal("document", { baseURI: "http://host/k/" }));

test("the run is found below any path prefix", async () => {
  const { runOfAddress, choices } = await import("./place");
  expect(runOfAddress("/r/digits", "/")).toBe("digits");
  expect(runOfAddress("/k/r/my-run/dashboard", "/k/")).toBe("my-run");
  expect(runOfAddress("/", "/")).toBe("");
  expect(runOfAddress("/dashboard", "/")).toBe("");
  expect(choices("#backend=cpu").backend).toBe("cpu");
  expect(choices("#backend=nonsense&start=1").backend).toBe("auto");
});
