//! Native workers: the browser's session and trainer in this process, on the CPU. Each worker is one thread.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use kindling_shared::protocol::{Backend, Capabilities, ShardHash, limits};
use kindling_shared::session::{Action, Input, Job, Outcome, Phase, Session};
use kindling_shared::trainer::{Between, DeviceError, Pacer, Trainer};
use tokio::sync::{mpsc, oneshot, watch};

use super::socket::{Socket, Tagged};
use super::{LOOK_EVERY, WorkerArgs};

/// A shard that takes longer counts as lost; it is asked for again.
const LONGEST_FETCH: Duration = Duration::from_secs(120);
/// Compute between two breaths.
const BREATHE_EVERY: Duration = Duration::from_millis(16);

/// Contributes until the run is done.
pub(super) async fn work(args: &WorkerArgs) -> anyhow::Result<()> {
    let mut contributor = [0; 32];
    getrandom::fill(&mut contributor).map_err(|error| anyhow::anyhow!("this machine has no randomness: {error}"))?;
    let (stop, stopped) = watch::channel(false);
    let mut results = Vec::new();
    for index in 1..=args.count {
        let (root, run) = (args.url.trim_end_matches('/').to_owned(), args.run.clone());
        let (max_wait, stopped) = (Duration::from_secs(args.max_wait), stopped.clone());
        let (done, result) = oneshot::channel();
        let thread = move || {
            // This thread computes; the runtime's own carries the socket meanwhile.
            let outcome = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .context("no runtime")
                .and_then(|runtime| {
                    let outcome = runtime.block_on(Shell::new(root, run, contributor).run(max_wait, stopped));
                    // A fetch that still hangs is not waited for.
                    runtime.shutdown_background();
                    outcome
                });
            // Nobody waits any more when another worker failed.
            let _ = done.send(outcome.with_context(|| format!("worker {index}")));
        };
        std::thread::Builder::new().name(format!("worker {index}")).spawn(thread)?;
        results.push(async { result.await.context("a worker's thread ended without a word")? });
    }
    tracing::info!("{} native workers contribute to {}", args.count, args.url);
    // One that fails does not end the others' work.
    let all = futures_util::future::join_all(results);
    tokio::pin!(all);
    let outcomes = tokio::select! {
        outcomes = &mut all => outcomes,
        _ = tokio::signal::ctrl_c() => {
            stop.send_replace(true);
            all.await
        }
    };
    outcomes.into_iter().collect()
}

/// A job's end, and the trainer for the next one.
type Done = (Trainer, Result<Outcome, DeviceError>);

struct Shell {
    root: String,
    session: Session,
    began: Instant,
    inputs: mpsc::Sender<Tagged>,
    received: mpsc::Receiver<Tagged>,
    socket: Option<Socket>,
    /// The one before, which may still have something to send.
    closing: Option<Socket>,
    /// Counts sockets: what an earlier one still had to say is of no interest.
    sockets: u64,
    trainer: Option<Trainer>,
    waiting: VecDeque<Job>,
    abandon: Rc<Cell<bool>>,
}

impl Shell {
    fn new(root: String, run: String, contributor: [u8; 32]) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let adapter = format!("native, {threads} threads");
        let capabilities = Capabilities { backend: Backend::Cpu, adapter, software: false };
        let (inputs, received) = mpsc::channel(limits::WORKER_QUEUE);
        Self {
            root,
            session: Session::new(run, contributor, None, capabilities),
            began: Instant::now(),
            inputs,
            received,
            socket: None,
            closing: None,
            sockets: 0,
            trainer: None,
            waiting: VecDeque::new(),
            abandon: Rc::default(),
        }
    }

    /// Runs until the run is done, or cannot be contributed to.
    async fn run(mut self, max_wait: Duration, mut stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        let mut job: Option<LocalBoxFuture<'static, Done>> = None;
        let mut reached = Instant::now();
        loop {
            if job.is_none() {
                job = self.waiting.pop_front().map(|next| self.begin(next));
            }
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => {
                    self.feed(Input::Pause);
                    self.goodbye().await;
                    bail!("interrupted before the run was done");
                }
                Some(tagged) = self.received.recv() => {
                    if tagged.socket.is_none_or(|socket| socket == self.sockets) {
                        self.feed(tagged.input);
                    }
                }
                _ = tick.tick() => self.feed(Input::Tick),
                done = finished(&mut job) => {
                    job = None;
                    self.done(done)?;
                }
            }
            let progress = self.session.progress();
            let refusal = progress.refused.as_ref().map(|refusal| refusal.reason.as_str());
            match progress.phase {
                Phase::Ended => {
                    self.goodbye().await;
                    return Ok(());
                }
                Phase::Refused if progress.retry_in_ms.is_none() => bail!("{}", refusal.unwrap_or("refused")),
                Phase::Refused | Phase::Offline | Phase::Connecting if reached.elapsed() > max_wait => {
                    let trouble = refusal.or(progress.trouble.as_deref()).unwrap_or("no answer");
                    bail!("{} cannot be reached for {} seconds: {trouble}", self.root, max_wait.as_secs());
                }
                Phase::Refused | Phase::Offline | Phase::Connecting => {}
                _ => reached = Instant::now(),
            }
        }
    }

    fn feed(&mut self, input: Input) {
        let now = self.began.elapsed().as_millis() as u64;
        for action in self.session.handle(input, now) {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Connect => {
                self.sockets += 1;
                self.socket = Some(Socket::open(&self.root, self.sockets, self.inputs.clone()));
            }
            Action::Disconnect => {
                self.closing = self.socket.take();
                self.sockets += 1;
            }
            Action::Send(bytes) => {
                if self.socket.as_ref().is_some_and(|socket| !socket.send(bytes)) {
                    // A frame that is lost breaks the stream: better no stream.
                    self.socket = None;
                    self.sockets += 1;
                    self.tell(Input::Disconnected { code: 0, reason: "the network takes nothing away".into() });
                }
            }
            Action::FetchShard(hash) => self.fetch(hash),
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
            // There is nothing but the CPU here, and nobody to be remembered for: a native worker lives once.
            Action::UseCpu | Action::Remember(_) => {}
        }
    }

    /// An input of the shell itself. A full queue means that the loop is far behind: the next tick tries again.
    fn tell(&self, input: Input) {
        if self.inputs.try_send(Tagged { socket: None, input }).is_err() {
            tracing::warn!("this worker is busy: what happened was lost");
        }
    }

    fn fetch(&self, hash: ShardHash) {
        let run = self.session.progress().run.as_ref().map(|run| run.id.clone()).unwrap_or_default();
        let (url, inputs) = (format!("{}/api/v1/runs/{run}/shards/{hash}", self.root), self.inputs.clone());
        tokio::spawn(async move {
            let input = match tokio::task::spawn_blocking(move || get(&url)).await {
                Ok(Ok(bytes)) => Input::Shard { hash, bytes },
                Ok(Err(error)) => Input::ShardFailed { hash, reason: error.to_string() },
                Err(error) => Input::ShardFailed { hash, reason: error.to_string() },
            };
            // Without a loop that takes from the queue there is nobody to tell.
            let _ = inputs.send(Tagged { socket: None, input }).await;
        });
    }

    fn begin(&mut self, job: Job) -> LocalBoxFuture<'static, Done> {
        let trainer = self.trainer.take();
        let mut breath = Breath { due: Instant::now() + BREATHE_EVERY, abandon: Rc::clone(&self.abandon) };
        let began = self.began;
        let now = move || began.elapsed().as_secs_f64() * 1e3;
        async move { job.run(trainer, &Device::flex(), &mut breath, now).await }.boxed_local()
    }

    fn done(&mut self, (trainer, outcome): Done) -> anyhow::Result<()> {
        self.trainer = Some(trainer);
        if let Some(input) = outcome?.into_input() {
            self.feed(input);
        }
        Ok(())
    }

    /// Lets the last messages leave.
    async fn goodbye(&mut self) {
        if let Some(socket) = self.socket.take().or(self.closing.take()) {
            socket.close().await;
        }
    }
}

/// The end of the job at work; without one, never.
async fn finished(job: &mut Option<LocalBoxFuture<'static, Done>>) -> Done {
    match job {
        Some(job) => job.await,
        None => std::future::pending().await,
    }
}

fn get(url: &str) -> Result<Bytes, ureq::Error> {
    let mut answer = ureq::get(url).config().timeout_global(Some(LONGEST_FETCH)).build().call()?;
    Ok(answer.body_mut().with_config().limit(limits::SHARD_BYTES as u64).read_to_vec()?.into())
}

/// Lets messages through while a window computes.
struct Breath {
    due: Instant,
    abandon: Rc<Cell<bool>>,
}

impl Pacer for Breath {
    async fn between_steps(&mut self) -> Between {
        if Instant::now() >= self.due {
            tokio::task::yield_now().await;
            self.due = Instant::now() + BREATHE_EVERY;
        }
        if self.abandon.get() { Between::Abandon } else { Between::GoOn }
    }

    fn breathe_soon(&mut self) {
        self.due = Instant::now();
    }
}
