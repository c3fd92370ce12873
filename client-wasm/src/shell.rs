//! The loop: inputs into the session, its actions into the world, one job at a time on the device.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use burn::tensor::Device;
use futures_channel::mpsc;
use futures_util::future::{Either, LocalBoxFuture, select};
use futures_util::{FutureExt as _, StreamExt as _};
use kindling_shared::protocol::{Backend, Capabilities, Trouble, TroubleKind};
use kindling_shared::session::{Action, Input, Job, Outcome, PageMessage, Phase, Session};
use kindling_shared::trainer::{DeviceError, Trainer};
use wasm_bindgen::JsValue;

use crate::pacer::{Breath, now};
use crate::socket::Socket;
use crate::{Config, device, shards};

/// Milliseconds between two reports to the page while nothing but numbers changes.
const REPORT_EVERY: f64 = 200.0;

/// Bytes of a page of WebAssembly's memory.
const WASM_PAGE: u64 = 65_536;

/// A job's end, and the trainer for the next one.
struct Done {
    /// The device's number when the job began: a trainer of an earlier device is of no use.
    device: u32,
    trainer: Option<Trainer>,
    outcome: Result<Outcome, DeviceError>,
}

pub struct Shell {
    config: Config,
    session: Session,
    inputs: mpsc::Sender<Input>,
    report: js_sys::Function,
    device: Option<Device>,
    /// Counts devices.
    devices: u32,
    trainer: Option<Trainer>,
    socket_thread: web_sys::Worker,
    socket: Option<Socket>,
    waiting: VecDeque<Job>,
    abandon: Rc<Cell<bool>>,
    reported_at: f64,
    reported_phase: Option<Phase>,
    over: bool,
}

impl Shell {
    pub fn new(
        config: Config,
        contributor: [u8; 32],
        capabilities: Capabilities,
        inputs: mpsc::Sender<Input>,
        report: js_sys::Function,
        socket_thread: web_sys::Worker,
    ) -> Self {
        let session = Session::new(config.run.clone(), contributor, config.identity.clone(), capabilities);
        Self {
            config,
            session,
            inputs,
            report,
            device: None,
            devices: 0,
            trainer: None,
            socket_thread,
            socket: None,
            waiting: VecDeque::new(),
            abandon: Rc::default(),
            reported_at: 0.0,
            reported_phase: None,
            over: false,
        }
    }

    /// Runs until the worker has to be started again.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        match device::open(self.config.backend).await {
            Ok(device) => self.device = Some(device),
            Err(error) if self.config.fall_back => {
                web_sys::console::warn_1(&format!("no GPU: {error}").into());
                self.use_cpu();
            }
            Err(error) => {
                return self.post(&PageMessage::Failed { reason: format!("there is no WebGPU adapter: {error}") });
            }
        }
        if let Some(trouble) = self.config.trouble.take() {
            self.feed(Input::Trouble(trouble));
        }
        self.feed(Input::Tick);
        let mut job: Option<LocalBoxFuture<'static, Done>> = None;
        while !self.over {
            if job.is_none() {
                job = self.waiting.pop_front().map(|next| self.begin(next));
            }
            let Some(running) = job.take() else {
                match inputs.next().await {
                    Some(input) => self.feed(input),
                    None => return,
                }
                continue;
            };
            match select(inputs.next(), running).await {
                Either::Left((Some(input), running)) => {
                    job = Some(running);
                    self.feed(input);
                }
                Either::Left((None, _)) => return,
                Either::Right((done, _)) => self.done(done),
            }
        }
    }

    fn feed(&mut self, input: Input) {
        if matches!(input, Input::DeviceLost(_)) && self.session.progress().backend == Backend::Cpu {
            // The GPU that it left behind: nothing trains there any more.
            return;
        }
        let lost = match &input {
            Input::DeviceLost(detail) => Some(detail.clone()),
            _ => None,
        };
        for action in self.session.handle(input, now() as u64) {
            self.carry_out(action);
        }
        if let Some(detail) = lost {
            // A new module gets a new device; this one's GPU state cannot be trusted any more.
            let trouble = Trouble { kind: TroubleKind::DeviceLost, detail };
            self.post(&PageMessage::Restart { trouble });
            self.over = true;
        }
        // Every window ends in an exchange: told one by one, they would keep the page drawing.
        let phase = match self.session.progress().phase {
            Phase::Exchanging => Phase::Training,
            phase => phase,
        };
        if self.reported_phase != Some(phase) || now() - self.reported_at >= REPORT_EVERY {
            self.reported_phase = Some(phase);
            self.reported_at = now();
            let mut progress = Box::new(self.session.progress().clone());
            progress.memory_bytes = core::arch::wasm32::memory_size::<0>() as u64 * WASM_PAGE;
            if let (Some(sending), Some(socket)) = (&mut progress.sending, &self.socket) {
                sending.done = sending.total.saturating_sub(socket.buffered());
            }
            self.post(&PageMessage::Progress { progress });
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Connect => match Socket::open(&self.socket_thread, &self.config.socket_url, &self.inputs) {
                Ok(socket) => self.socket = Some(socket),
                Err(error) => {
                    self.socket = None;
                    let failed = Input::Disconnected { code: 0, reason: format!("{error:?}") };
                    if self.inputs.try_send(failed).is_err() {
                        web_sys::console::error_1(&"the worker is busy: a failed connection was lost".into());
                    }
                }
            },
            Action::Disconnect => self.socket = None,
            Action::Send(bytes) => {
                if let Some(socket) = &self.socket {
                    socket.send(&bytes);
                }
            }
            Action::FetchShard(hash) => {
                let run = self.session.progress().run.as_ref().map(|run| run.id.clone()).unwrap_or_default();
                let url = format!("{}/runs/{run}/shards/{hash}", self.config.api_url);
                let mut inputs = self.inputs.clone();
                wasm_bindgen_futures::spawn_local(async move {
                    let input = match shards::fetch(&url).await {
                        Ok(bytes) => Input::Shard { hash, bytes },
                        Err(reason) => Input::ShardFailed { hash, reason },
                    };
                    // Waits for room in the queue; without a loop that takes from it there is nobody to tell.
                    if std::future::poll_fn(|context| inputs.poll_ready(context)).await.is_ok() {
                        let _ = inputs.start_send(input);
                    }
                });
            }
            Action::Compute(job) => {
                if matches!(job, Job::Window(_)) {
                    self.abandon = Rc::default();
                }
                self.waiting.push_back(job);
            }
            Action::Abandon => {
                self.abandon.set(true);
                self.waiting.retain(|job| !matches!(job, Job::Window(_)));
            }
            Action::UseCpu if self.config.fall_back => self.use_cpu(),
            Action::UseCpu => {
                let refused = self.session.progress().refused.as_ref().or(self.session.progress().rejection.as_ref());
                let reason =
                    refused.map_or_else(|| "the GPU cannot be used".to_owned(), |refusal| refusal.reason.clone());
                self.post(&PageMessage::Failed { reason });
                self.over = true;
            }
            Action::Remember(identity) => self.post(&PageMessage::Identity { identity }),
        }
    }

    fn use_cpu(&mut self) {
        self.device = Some(Device::flex());
        self.devices += 1;
        self.trainer = None;
        self.abandon.set(true);
        self.waiting.clear();
        let capabilities = Capabilities { backend: Backend::Cpu, adapter: "WebAssembly SIMD".into(), software: false };
        if self.inputs.try_send(Input::DeviceChanged(capabilities)).is_err() {
            web_sys::console::error_1(&"the worker is busy: the change to the CPU was lost".into());
        }
    }

    fn begin(&mut self, job: Job) -> LocalBoxFuture<'static, Done> {
        let (trainer, device, number) = (self.trainer.take(), self.device.clone(), self.devices);
        let mut breath = Breath::new(Rc::clone(&self.abandon));
        async move {
            let Some(device) = device else {
                return Done { device: number, trainer: None, outcome: Err(DeviceError("there is no device".into())) };
            };
            let (trainer, outcome) = job.run(trainer, &device, &mut breath, now).await;
            Done { device: number, trainer: Some(trainer), outcome }
        }
        .boxed_local()
    }

    fn done(&mut self, done: Done) {
        if done.device != self.devices {
            return;
        }
        self.trainer = done.trainer;
        match done.outcome {
            Ok(outcome) => {
                if let Some(input) = outcome.into_input() {
                    self.feed(input);
                }
            }
            Err(error) if self.session.progress().backend == Backend::Webgpu => {
                self.feed(Input::DeviceLost(error.to_string()));
            }
            Err(error) => {
                self.post(&PageMessage::Failed { reason: error.to_string() });
                self.over = true;
            }
        }
    }

    fn post(&self, message: &PageMessage) {
        match serde_json::to_string(message) {
            // What the page's handler throws is the page's to see.
            Ok(json) => drop(self.report.call1(&JsValue::NULL, &json.into())),
            Err(error) => web_sys::console::error_1(&format!("a report cannot be written: {error}").into()),
        }
    }
}
