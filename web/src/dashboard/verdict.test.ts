import { expect, test } from "vitest";
import type { RunStatus } from "../generated/RunStatus";
import { verdict } from "./verdict";

const status: RunStatus = {
  id: "digits",
  name: "digits",
  state: "running",
  rule: "dynsgd",
  version: 40,
  epoch: 2,
  epochs: 5,
  parameters: 10,
  train_samples: 100,
  samples_trained: 250,
  samples_refused: 0,
  samples_in_flight: 20,
  workers_active: 12,
  commits: { accepted: 40, rejected: 0, by_code: {} },
  staleness: { p50: 1, p99: 3, max: 4 },
  loss: { train: 0.5, validation: 0.6 },
  metrics: { accuracy: 0.842 },
  traffic: { bytes_in: 1, bytes_out: 1 },
  data_bytes: 1,
  exchange: { bytes_up: 1, bytes_down: 1 },
  started_at: 0,
  finished_at: null,
  stop_reason: null,
};

test("the first line says whether it learns, who helps, and what is stuck", () => {
  const now = 240_000;
  const at = (change: Partial<RunStatus>, lastCommit: number | null = now - 1_000) =>
    verdict({ ...status, ...change }, lastCommit, now);
  expect(at({}).words).toBe("Learning: 84.2 % right, epoch 3 of 5, 12 workers, about 4 min left");
  expect(at({ workers_active: 1 }).words).toContain("1 worker,");
  expect(at({}, now - 40_000)).toEqual({ words: "Stuck: no commit for 40 s", bad: true });
  expect(at({ workers_active: 0 }).bad).toBe(true);
  expect(at({ state: "waiting", workers_active: 0 }).words).toBe("Waiting for the first contributor");
  expect(at({ state: "waiting", workers_active: 2 }).words).toBe("Starting: 2 workers, first windows under way");
  expect(at({ state: "failed", stop_reason: "why" })).toEqual({ words: "Failed: why", bad: true });
  expect(at({ state: "finished", finished_at: 120_000 }).words).toBe("Done: 84.2 % right after 2 min");
});
