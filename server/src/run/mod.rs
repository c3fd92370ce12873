//! The shell around one run: its coordinator, its centre, its history, and the sockets of its workers.
//!
//! Everything that changes a run happens in one critical section, [`Run::handle`]: the coordinator decides, the centre
//! changes, the answers are queued. What is slow (decoding, checking, evaluating, writing to sockets) stays outside.

mod evaluator;
mod history;
mod outbox;
mod status;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kindling_shared::model::initial_parameters;
use kindling_shared::params::{Encoded, Layout};
use kindling_shared::protocol::{CommitHeader, LeaseId, SelfTestAnswer, ToWorker, Version};
use kindling_shared::run::RunPlan;
use kindling_shared::strategy::Commit;
use kindling_shared::trainer::Trainer;
use safetensors::tensor::{Dtype, TensorView};
use tokio::sync::{broadcast, watch};

pub use history::{Event, Series};
pub use outbox::{Outbox, OutboxReceiver, Outgoing, outbox};
pub use status::{ExchangeView, LossView, MetricsView, RunState, RunStatus, TrafficView};

use crate::coordinator::{Action, ConnectionId, Coordinator, EpochView, Note, NoteKind, Settings, WorkerView};
use crate::coordinator::{Event as CoordinatorEvent, Millis};
use crate::dataset::Dataset;
use crate::parameters::{Centre, Snapshot};
use crate::runfile::LoadedRun;
use history::History;

/// Events that a slow watcher may fall behind before it has to read them from the history.
const EVENTS_IN_FLIGHT: usize = 256;

/// One run.
pub struct Run {
    plan: Arc<RunPlan>,
    layout: Arc<Layout>,
    dataset: Dataset,
    epochs: u32,
    self_test_seed: u64,
    self_test: SelfTestAnswer,
    started: Instant,
    started_at: u64,
    core: Mutex<Core>,
    connections: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    events: broadcast::Sender<Event>,
    /// True once the run has ended and its last evaluation is done.
    ended: watch::Sender<bool>,
    evaluator: evaluator::Wake,
    /// The text of its run file.
    source: String,
}

/// What the critical section guards.
struct Core {
    coordinator: Coordinator,
    centre: Centre,
    outboxes: BTreeMap<ConnectionId, Outbox>,
    history: History,
    finished_at: Option<u64>,
}

impl Run {
    /// Prepares a run: its first centre, and the server's own answer to the self-test.
    pub fn new(loaded: LoadedRun, generation: u32) -> anyhow::Result<Arc<Self>> {
        let LoadedRun { plan, layout, dataset, rule, epochs, run_file } = loaded;
        let self_test_seed = plan.seed ^ 0x5e1f_7e57;
        let self_test =
            evaluator::block_on(Trainer::new(&plan, &layout, &burn::tensor::Device::flex()).self_test(self_test_seed))?;
        let settings = Settings {
            rule,
            strategy: plan.strategy.clone(),
            seed: plan.seed,
            batch_size: plan.worker.batch_size,
            epochs,
            shards: dataset.shards.iter().map(|shard| (shard.hash, shard.samples)).collect(),
            elements: layout.elements() as u64,
            plan: serde_json::to_string(&plan)?,
            schema: layout.schema_hash(),
            self_test_seed,
            generation,
        };
        let values = initial_parameters(&layout, plan.seed);
        let core = Core {
            coordinator: Coordinator::new(settings),
            centre: Centre::new(&values, Arc::clone(&layout), (rule.server)(), plan.strategy.download_codec),
            outboxes: BTreeMap::new(),
            history: History::default(),
            finished_at: None,
        };
        let run = Arc::new(Self {
            plan: Arc::new(plan),
            layout,
            dataset,
            epochs,
            self_test_seed,
            self_test,
            started: Instant::now(),
            started_at: unix_millis(),
            core: Mutex::new(core),
            connections: AtomicU64::new(1),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            events: broadcast::channel(EVENTS_IN_FLIGHT).0,
            ended: watch::channel(false).0,
            evaluator: evaluator::Wake::default(),
            source: run_file,
        });
        let reason = format!(
            "{} samples in {} shards, {} parameters, rule {}, {} epochs",
            run.dataset.train_samples(),
            run.dataset.shards.len(),
            run.layout.elements(),
            rule.name,
            epochs
        );
        run.note(&mut run.lock(), Note::run(NoteKind::RunStarted, reason));
        evaluator::spawn(&run)?;
        Ok(run)
    }

    /// What workers are told of the run.
    pub fn plan(&self) -> &RunPlan {
        &self.plan
    }

    /// The text of the run file that it was loaded from.
    pub fn run_file(&self) -> &str {
        &self.source
    }

    /// The centre's version.
    pub fn version(&self) -> Version {
        self.lock().coordinator.version()
    }

    /// The parameters' layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The data.
    pub const fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Compares a device's answer to the self-test with the server's.
    pub fn compare_self_test(&self, answer: &SelfTestAnswer) -> Result<(), String> {
        kindling_shared::trainer::compare(answer, &self.self_test, &self.layout, self.self_test_seed)
            .map_err(|error| error.to_string())
    }

    /// A new socket, whose messages go to `outbox`.
    pub fn connect(&self, outbox: Outbox) -> ConnectionId {
        let connection = ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed));
        self.lock().outboxes.insert(connection, outbox);
        connection
    }

    /// The socket is gone.
    pub fn disconnect(&self, connection: ConnectionId, reason: &str) {
        self.handle(connection, CoordinatorEvent::Closed(reason.to_owned()), None);
        self.lock().outboxes.remove(&connection);
    }

    /// Bytes that went over a socket.
    pub fn count_traffic(&self, bytes_in: u64, bytes_out: u64) {
        self.bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
    }

    /// Takes what a worker did. `commit` is the update of a commit event.
    pub fn handle(&self, connection: ConnectionId, event: CoordinatorEvent, commit: Option<&(CommitHeader, Encoded)>) {
        let mut core = self.lock();
        let actions = core.coordinator.handle(connection, event, self.now());
        self.carry_out(&mut core, actions, commit);
    }

    /// Whether a connection's worker is admitted and holds this lease.
    pub fn holds_lease(&self, connection: ConnectionId, lease: LeaseId) -> bool {
        self.lock().coordinator.holds_lease(connection, lease)
    }

    /// A lease of this connection's worker lasts at least so much longer: its upload is on its way.
    pub fn keep_lease(&self, connection: ConnectionId, lease: LeaseId, longer: Duration) {
        let now = self.now();
        self.lock().coordinator.keep_lease(connection, lease, now + longer.as_millis() as Millis);
    }

    /// The newest centre in wire form.
    pub fn snapshot(&self) -> Snapshot {
        let mut core = self.lock();
        let version = core.coordinator.version();
        core.centre.snapshot(version)
    }

    /// Time has passed.
    pub fn tick(&self) {
        let mut core = self.lock();
        let actions = core.coordinator.tick(self.now());
        self.carry_out(&mut core, actions, None);
    }

    /// Tells every worker that the server stops and when to come back.
    pub fn restarting(&self, back_in_ms: u32) {
        for outbox in self.lock().outboxes.values() {
            outbox.send(Outgoing::Frame(ToWorker::Restarting(back_in_ms).encode()));
            outbox.send(Outgoing::Close(1012, "the server stops".into()));
        }
    }

    /// Waits until the run has ended and its final centre is evaluated.
    pub async fn ended(&self) {
        // The sender lives as long as `self`: waiting cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Events from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Kept events after `id`; all of them for an id that this start of the server has not given yet.
    pub fn events_after(&self, id: u64) -> Vec<Event> {
        self.lock().history.events_after(id)
    }

    /// Kept points of every series after time `after` (unix milliseconds).
    pub fn series(&self, after: u64, most_points: usize) -> Vec<Series> {
        self.lock().history.series(after, most_points)
    }

    /// Every worker.
    pub fn workers(&self) -> Vec<WorkerView> {
        self.lock().coordinator.workers(self.now())
    }

    /// The open epoch, shard by shard.
    pub fn epoch(&self) -> EpochView {
        self.lock().coordinator.ledger().view()
    }

    /// The newest centre as a safetensors file: tensors by their name in the layout, version and run as metadata.
    pub fn model(&self) -> Result<Vec<u8>, safetensors::SafeTensorError> {
        let (values, version) = {
            let core = self.lock();
            (core.centre.values(), core.coordinator.version())
        };
        let bytes: Vec<u8> = values.to_vec().iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensors = self.layout.tensors().iter().map(|tensor| {
            let range = tensor.indices();
            let view = TensorView::new(Dtype::F32, tensor.shape.clone(), &bytes[range.start * 4..range.end * 4]);
            view.map(|view| (tensor.name.clone(), view))
        });
        let metadata =
            HashMap::from([("run".to_owned(), self.plan.id.clone()), ("version".to_owned(), version.to_string())]);
        safetensors::serialize(tensors.collect::<Result<Vec<_>, _>>()?, Some(metadata))
    }

    fn carry_out(&self, core: &mut Core, actions: Vec<Action>, commit: Option<&(CommitHeader, Encoded)>) {
        for action in actions {
            match action {
                Action::Send(connection, message) => core.send(connection, Outgoing::Frame(message.encode())),
                Action::SendSnapshot(connection) => core.send(connection, Outgoing::Snapshot),
                Action::Close(connection, code, reason) => core.send(connection, Outgoing::Close(code, reason)),
                Action::Apply { staleness } => {
                    if let Some((header, update)) = commit {
                        let (steps, samples) = (header.steps, header.samples);
                        core.centre.apply(&Commit { update, staleness, steps, samples });
                        let trained = core.coordinator.ledger().samples_trained();
                        let version = core.coordinator.version().number;
                        core.history.train_loss(unix_millis(), trained, version, header.loss, samples);
                    }
                }
                Action::EpochClosed(_) | Action::Finished => self.evaluator.now(),
                Action::Note(note) => self.note(core, note),
            }
        }
    }

    fn note(&self, core: &mut Core, note: Note) {
        tracing::debug!(run = %self.plan.id, worker = ?note.worker.map(|worker| worker.0), kind = ?note.kind, "{}", note.reason);
        let event = core.history.event(unix_millis(), note);
        // Without a watcher there is nobody to tell.
        let _ = self.events.send(event);
    }

    fn now(&self) -> Millis {
        self.started.elapsed().as_millis() as Millis
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Queues a message. A worker that does not take its messages away loses its socket.
    fn send(&mut self, connection: ConnectionId, message: Outgoing) {
        if let Some(outbox) = self.outboxes.get(&connection)
            && !outbox.send(message)
        {
            self.outboxes.remove(&connection);
        }
    }
}

/// Milliseconds since 1970: for people, never for decisions.
pub fn unix_millis() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
}
