/** The Web Worker: chooses the device, loads the wasm module, and passes messages between it and the page. */
import type { Identity } from "./generated/Identity";
import type { PageMessage } from "./generated/PageMessage";
import type { Trouble } from "./generated/Trouble";
import { openWorker } from "./shared/open-worker";
import socketAddress from "./socket?worker&url";

export interface Start {
  kind: "start";
  root: string;
  socketUrl: string;
  apiUrl: string;
  run: string;
  contributor: string;
  identity: Identity | null;
  backend: "auto" | "webgpu" | "cpu";
  trouble: Trouble | null;
}
export type Command = Start | { kind: "pause" } | { kind: "resume" };

interface Handle {
  pause: () => void;
  resume: () => void;
  tick: () => void;
  device_lost: (detail: string) => void;
}
interface Module {
  default: (options: { module_or_path: string }) => Promise<{ __wasm_call_ctors: () => void }>;
  start: (config: string, report: (message: string) => void, socketThread: Worker) => Handle;
}
interface Device {
  backend: "webgpu" | "cpu";
  adapter: string;
  software: boolean;
}

const TICK = 500;
const CPU: Device = { backend: "cpu", adapter: "WebAssembly SIMD", software: false };
const EMULATED = /swiftshader|llvmpipe|lavapipe|basic render/i;

let handle: Handle | null = null;

const post = (message: PageMessage) => self.postMessage(message);

self.onmessage = (event: MessageEvent<Command>) => {
  const command = event.data;
  if (command.kind === "start") void start(command);
  else if (command.kind === "pause") handle?.pause();
  else handle?.resume();
};

async function start(command: Start) {
  try {
    const device = command.backend === "cpu" ? CPU : await findGpu(command.backend === "webgpu");
    if (!device) return post({ kind: "failed", reason: "there is no WebGPU adapter" });
    const module = (await import(/* @vite-ignore */ new URL("wasm/kindling_client.js", command.root).href)) as Module;
    const wasm = await module.default({ module_or_path: new URL("wasm/kindling_client_bg.wasm", command.root).href });
    wasm.__wasm_call_ctors();
    const { socketUrl, apiUrl, run, contributor, identity, trouble } = command;
    const fallBack = command.backend !== "webgpu";
    const config = { socketUrl, apiUrl, run, contributor, identity, trouble, fallBack, ...device };
    const report = (message: string) => post(JSON.parse(message) as PageMessage);
    const socketThread = openWorker(socketAddress);
    socketThread.onerror = (event) => {
      event.preventDefault();
      const detail = event.message || "the program that holds the WebSocket could not be loaded";
      post({ kind: "restart", trouble: { kind: "trap", detail } });
    };
    handle = module.start(JSON.stringify(config), report, socketThread);
    setInterval(() => handle?.tick(), TICK);
  } catch (error) {
    post({ kind: "failed", reason: error instanceof Error ? error.message : String(error) });
  }
}

/** The GPU; the CPU where there is none. An emulated GPU is slower than the CPU: it is taken only when asked for. */
async function findGpu(wanted: boolean): Promise<Device | null> {
  const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) return wanted ? null : CPU;
  const { vendor, architecture, device, description } = adapter.info;
  const name = description || [vendor, architecture, device].filter(Boolean).join(" ");
  const software = adapter.info.isFallbackAdapter || EMULATED.test(`${name} ${architecture}`);
  if (software && !wanted) return CPU;
  watchForLoss();
  return { backend: "webgpu", adapter: name, software };
}

/** The module opens its device itself: this sees it, and hears when it is lost. */
function watchForLoss() {
  const request = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function (this: GPUAdapter, ...parameters) {
    const device = await request.apply(this, parameters);
    void device.lost.then((info) => {
      if (info.reason !== "destroyed") handle?.device_lost(info.message || "the browser gave no reason");
    });
    return device;
  };
}
