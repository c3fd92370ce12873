//! The worker's side of a run, as a state machine: frames, shards, results and time go in, actions come out.
//!
//! A session knows nothing of sockets, devices or clocks. Its shell (the browser's Web Worker, or a native program)
//! carries the actions out and reports back with [`Input`]s. It may be wrong about nothing that costs samples: what it
//! holds is the server's to give, and every loss ends in a state from which it asks again.

mod ahead;
mod exchange;
mod job;
mod link;
mod progress;
mod shards;
mod work;

use std::sync::Arc;

use bytes::Bytes;

pub use ahead::LateCentre;
pub use job::{Job, Outcome};
pub use link::Identity;
pub use progress::{PageMessage, Phase, Progress, RunSummary, Transfer};
pub use work::WindowOrder;

use crate::params::Layout;
use crate::protocol::{Backend, Capabilities, ShardHash, ToServer, ToWorker, Trouble, TroubleKind};
use crate::run::RunPlan;
use crate::strategy::WorkerHalf;
use crate::trainer::WindowResult;

/// Milliseconds on the shell's monotonic clock.
pub type Millis = u64;

/// What happened at the shell.
#[derive(Debug)]
pub enum Input {
    /// The socket is open.
    Connected,
    /// The socket is closed, or could not be opened.
    Disconnected {
        /// The WebSocket close code; 0 where there is none.
        code: u16,
        /// The close reason, or what went wrong.
        reason: String,
    },
    /// A message arrived.
    Frame(Bytes),
    /// A shard's bytes arrived.
    Shard {
        /// What was asked for.
        hash: ShardHash,
        /// What came.
        bytes: Bytes,
    },
    /// A shard could not be fetched.
    ShardFailed {
        /// What was asked for.
        hash: ShardHash,
        /// Why not.
        reason: String,
    },
    /// The device computed the self-test.
    SelfTestDone(crate::protocol::SelfTestAnswer),
    /// A window is finished.
    WindowDone {
        /// The number of its order.
        number: u64,
        /// What it gave.
        result: WindowResult,
        /// Milliseconds that it took to compute.
        compute_ms: u32,
    },
    /// The device is lost or failed: the shell starts again, with an [`Input::Trouble`].
    DeviceLost(String),
    /// Something went wrong before this session began: its shell was started again.
    Trouble(Trouble),
    /// The shell has another device now.
    DeviceChanged(Capabilities),
    /// The person paused.
    Pause,
    /// The person goes on.
    Resume,
    /// Time has passed.
    Tick,
}

/// What the shell must do.
#[derive(Debug)]
pub enum Action {
    /// Open the socket.
    Connect,
    /// Close the socket; no [`Input::Disconnected`] follows for it.
    Disconnect,
    /// Send a message, behind all earlier ones.
    Send(Bytes),
    /// Fetch a shard's bytes by its address.
    FetchShard(ShardHash),
    /// Compute something, behind what was ordered before.
    Compute(Job),
    /// Stop the window at work, if any; its result is not wanted.
    Abandon,
    /// Get the CPU instead of the GPU.
    UseCpu,
    /// Remember who this worker is, for the next connection; `None`: forget it.
    Remember(Option<Identity>),
}

/// What the server told of the run, and what follows from it.
struct Joined {
    plan: Arc<RunPlan>,
    layout: Arc<Layout>,
    worker_half: Box<dyn WorkerHalf>,
    admitted: bool,
}

/// The state machine.
pub struct Session {
    run: String,
    contributor: [u8; 32],
    capabilities: Capabilities,
    link: link::Link,
    identity: Option<Identity>,
    joined: Option<Joined>,
    work: work::Work,
    exchange: exchange::Exchange,
    shards: shards::ShardCache,
    paused: bool,
    ended: bool,
    /// What the server has not been told yet.
    troubles: Vec<Trouble>,
    progress: Progress,
    actions: Vec<Action>,
}

/// Troubles kept for the server while it cannot be reached.
const MOST_TROUBLES: usize = 16;

impl Session {
    /// A session that joins `run` (empty: the server names one). `identity` is who this worker was before, if anyone.
    /// It begins to act with the first [`Input`].
    pub fn new(run: String, contributor: [u8; 32], identity: Option<Identity>, capabilities: Capabilities) -> Self {
        let progress = Progress::new(&capabilities);
        Self {
            run,
            contributor,
            capabilities,
            link: link::Link::default(),
            identity,
            joined: None,
            work: work::Work::default(),
            exchange: exchange::Exchange::default(),
            shards: shards::ShardCache::default(),
            paused: false,
            ended: false,
            troubles: Vec::new(),
            progress,
            actions: Vec::new(),
        }
    }

    /// What the page shows.
    pub const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Takes what happened at time `now`, and says what to do. Actions are to be carried out in order.
    pub fn handle(&mut self, input: Input, now: Millis) -> Vec<Action> {
        match input {
            Input::Connected => self.greet(now),
            Input::Disconnected { code, reason } => self.disconnected(code, &reason, now),
            Input::Frame(bytes) => self.frame(&bytes, now),
            Input::Shard { hash, bytes } => self.shard_arrived(hash, &bytes, now),
            Input::ShardFailed { hash, reason } => self.shard_failed(hash, &reason, now),
            Input::SelfTestDone(answer) => self.send(&ToServer::SelfTestAnswer(answer)),
            Input::WindowDone { number, result, compute_ms } => self.window_done(number, result, compute_ms),
            Input::DeviceLost(detail) => self.device_lost(&detail),
            Input::Trouble(trouble) => self.trouble(trouble.kind, &trouble.detail),
            Input::DeviceChanged(capabilities) => self.device_changed(capabilities, now),
            Input::Pause => self.pause(),
            Input::Resume => self.resume(now),
            Input::Tick => {
                self.link_tick(now);
                self.give_up_late_work(now);
            }
        }
        self.advance(now);
        self.progress.phase = self.phase();
        std::mem::take(&mut self.actions)
    }

    fn frame(&mut self, bytes: &Bytes, now: Millis) {
        self.link.heard(now);
        self.progress.bytes_in += bytes.len() as u64;
        match ToWorker::decode(bytes) {
            Ok(frame) => self.message(frame, now),
            Err(error) => self.protocol_error(&error.to_string(), now),
        }
    }

    fn message(&mut self, frame: ToWorker, now: Millis) {
        match frame {
            ToWorker::Welcome(welcome) => self.welcomed(&welcome, now),
            ToWorker::SelfTest(seed) => self.self_test(seed),
            ToWorker::Admitted(()) => {
                if let Some(joined) = &mut self.joined {
                    joined.admitted = true;
                }
            }
            ToWorker::Lease(lease) => self.leased(lease, now),
            ToWorker::NoWork(reason) => self.progress.waiting_for = Some(reason),
            ToWorker::Snapshot(header) => self.snapshot_announced(header, now),
            ToWorker::Tensor(chunk) => self.snapshot_chunk(chunk, now),
            ToWorker::Verdict(verdict) => self.verdict(verdict, now),
            ToWorker::Ping(nonce) => self.send(&ToServer::Pong(nonce)),
            ToWorker::RunEnded(reason) => self.run_ended(reason),
            ToWorker::Restarting(milliseconds) => self.hang_up(Some(now + Millis::from(milliseconds))),
            ToWorker::Farewell(refusal) => self.refused_for_good(refusal, now),
        }
    }

    fn self_test(&mut self, seed: u64) {
        if let Some(joined) = &self.joined {
            let (plan, layout) = (Arc::clone(&joined.plan), Arc::clone(&joined.layout));
            self.actions.push(Action::Compute(Job::SelfTest { plan, layout, seed }));
        }
    }

    fn run_ended(&mut self, reason: String) {
        self.ended = true;
        self.progress.ended = Some(reason);
        self.drop_work();
        self.actions.push(Action::Remember(None));
        self.hang_up(None);
    }

    fn device_lost(&mut self, detail: &str) {
        // The server hears of it from the session that is started next.
        self.progress.trouble = Some(detail.to_owned());
        self.drop_work();
    }

    /// Another device is another self-test: the worker says hello again, as itself.
    fn device_changed(&mut self, capabilities: Capabilities, now: Millis) {
        if self.capabilities.backend == Backend::Webgpu && capabilities.backend == Backend::Cpu {
            self.trouble(TroubleKind::CpuInstead, "the GPU cannot be used: training on the CPU");
        }
        self.capabilities = capabilities;
        self.progress.device(&self.capabilities);
        self.drop_work();
        if !self.paused && !self.ended {
            self.hang_up(Some(now));
        }
    }

    fn pause(&mut self) {
        if !self.paused {
            self.paused = true;
            self.drop_work();
            self.send(&ToServer::Leave(()));
            self.hang_up(None);
        }
    }

    fn resume(&mut self, now: Millis) {
        if self.paused {
            self.paused = false;
            self.hang_up(Some(now));
        }
    }

    /// Gives up whatever is at work or in the air; the server's ledger takes it back.
    fn drop_work(&mut self) {
        if let Some(lease) = self.work.drop_lease() {
            self.send(&ToServer::Release(lease));
        }
        if self.work.drop_window() {
            self.actions.push(Action::Abandon);
        }
        self.exchange.drop_commit();
        self.exchange.drop_centre();
        self.exchange.stop_running_ahead();
        self.progress.sending = None;
    }

    fn trouble(&mut self, kind: TroubleKind, detail: &str) {
        self.progress.trouble = Some(detail.to_owned());
        if self.troubles.len() < MOST_TROUBLES {
            self.troubles.push(Trouble { kind, detail: detail.to_owned() });
        }
        self.report_troubles();
    }

    fn report_troubles(&mut self) {
        if self.link.is_welcomed() {
            for trouble in std::mem::take(&mut self.troubles) {
                self.send(&ToServer::Trouble(trouble));
            }
        }
    }

    fn send(&mut self, frame: &ToServer) {
        if self.link.is_open() {
            self.send_bytes(frame.encode());
        }
    }

    fn send_bytes(&mut self, bytes: Bytes) {
        self.progress.bytes_out += bytes.len() as u64;
        self.actions.push(Action::Send(bytes));
    }

    /// Does whatever can be done next. Called after every input, so that no order of arrivals is special.
    fn advance(&mut self, now: Millis) {
        self.link_advance(now);
        if self.link.is_welcomed() && !self.paused && self.joined.as_ref().is_some_and(|joined| joined.admitted) {
            self.ask();
            self.begin_window();
        }
    }

    fn phase(&self) -> Phase {
        if self.ended {
            Phase::Ended
        } else if self.paused {
            Phase::Paused
        } else if self.progress.refused.is_some() && self.link.is_down() {
            Phase::Refused
        } else if !self.link.is_welcomed() {
            if self.link.failed_attempts() > 1 { Phase::Offline } else { Phase::Connecting }
        } else if !self.joined.as_ref().is_some_and(|joined| joined.admitted) {
            Phase::SelfTest
        } else if self.work.is_training() {
            Phase::Training
        } else if self.exchange.is_pending() || (!self.work.has_lease() && !self.work.is_told_to_wait(&self.progress)) {
            Phase::Exchanging
        } else if self.work.has_lease() {
            Phase::Downloading
        } else {
            Phase::Waiting
        }
    }
}
