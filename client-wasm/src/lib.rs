//! The browser shell: Kindling's session and trainer inside a Web Worker.
//!
//! It carries out what the session decides: the WebSocket, the device, shards by `fetch`, messages to the page. It
//! decides nothing about training. Time comes from `performance.now()`, ticks and commands from the worker script.
#![cfg(target_arch = "wasm32")]

mod bare;
mod device;
mod pacer;
mod shards;
mod shell;
mod socket;

use futures_channel::mpsc;
use kindling_shared::protocol::{Backend, Capabilities, Trouble, limits};
use kindling_shared::session::{Identity, Input};
use serde::Deserialize;
use wasm_bindgen::prelude::*;

/// What the page gives a new worker.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    /// Address of the WebSocket.
    socket_url: String,
    /// Address of the API, without a slash at its end.
    api_url: String,
    /// The run to join; empty: the server's first.
    run: String,
    /// The contributor's secret, 64 hexadecimal digits.
    contributor: String,
    /// Who this worker was before.
    identity: Option<Identity>,
    /// Where to train.
    backend: Backend,
    /// The adapter's or the CPU's name.
    adapter: String,
    /// True for an emulated GPU.
    software: bool,
    /// False: without a GPU fail, instead of training on the CPU.
    fall_back: bool,
    /// Why this worker was started again.
    trouble: Option<Trouble>,
}

/// A handle for the worker script: what it tells the session.
#[wasm_bindgen]
pub struct Handle {
    inputs: mpsc::Sender<Input>,
}

#[wasm_bindgen]
impl Handle {
    /// Release everything and stop.
    pub fn pause(&mut self) {
        self.tell(Input::Pause);
    }

    /// Go on.
    pub fn resume(&mut self) {
        self.tell(Input::Resume);
    }

    /// Time has passed.
    pub fn tick(&mut self) {
        self.tell(Input::Tick);
    }

    /// The GPU is lost.
    pub fn device_lost(&mut self, detail: String) {
        self.tell(Input::DeviceLost(detail));
    }

    /// A command that finds the queue full is repeated by the person or by the next tick.
    fn tell(&mut self, input: Input) {
        if self.inputs.try_send(input).is_err() {
            web_sys::console::warn_1(&"the worker is busy: a command was dropped".into());
        }
    }
}

/// Starts a worker. `config` is JSON; `report` takes each message to the page as JSON; `socket_thread` is the Web Worker
/// of `web/src/socket.ts`.
#[wasm_bindgen]
pub fn start(config: &str, report: js_sys::Function, socket_thread: web_sys::Worker) -> Result<Handle, JsValue> {
    console_error_panic_hook::set_once();
    let config: Config = serde_json::from_str(config).map_err(|error| JsValue::from_str(&error.to_string()))?;
    let contributor =
        secret(&config.contributor).ok_or_else(|| JsValue::from_str("the contributor's key is damaged"))?;
    let capabilities =
        Capabilities { backend: config.backend, adapter: config.adapter.clone(), software: config.software };
    let (inputs, receiver) = mpsc::channel(limits::WORKER_QUEUE);
    let shell = shell::Shell::new(config, contributor, capabilities, inputs.clone(), report, socket_thread);
    wasm_bindgen_futures::spawn_local(shell.run(receiver));
    Ok(Handle { inputs })
}

fn secret(hex: &str) -> Option<[u8; 32]> {
    kindling_shared::protocol::ShardHash::parse(hex).map(|bytes| bytes.0)
}
