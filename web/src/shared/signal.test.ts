// @vitest-environment happy-dom
import { h, render } from "preact";
import { expect, test, vi } from "vitest";
import { signal, useSignal } from "./signal";

test("a value set between the drawing and its effects is shown", async () => {
  const state = signal("loading");
  const place = document.createElement("p");
  const Shown = () => h("span", null, useSignal(state));
  render(h(Shown, null), place);
  expect(place.textContent).toBe("loading");
  state.set("ready");
  await vi.waitFor(() => expect(place.textContent).toBe("ready"));
  state.set("finished");
  await vi.waitFor(() => expect(place.textContent).toBe("finished"));
});
