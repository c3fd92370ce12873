//! The coordinator: a pure function of state, event and time.
//!
//! It decides who may work, who works on what, what counts, and when a run is over. It does no IO, reads no clock,
//! draws nothing and never sees a tensor: its shell ([`crate::run`]) hands events in and carries the actions out, in
//! order. Every action that a person could wonder about comes with a [`Note`] that says why.

mod commits;
mod leases;
mod ledger;
mod members;
mod note;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use kindling_shared::protocol::{
    Capabilities, CommitHeader, LeaseId, Refusal, RejectCode, Resume, ShardHash, ToWorker, Trouble, TroubleKind,
    Version, WorkerId,
};
use kindling_shared::run::StrategySettings;
use kindling_shared::strategy::Rule;

pub use ledger::{EpochView, Ledger, ShardState};
pub use note::{Note, NoteKind};
pub use view::{CommitCounts, StalenessView, WorkerView};

/// Milliseconds on the shell's monotonic clock.
pub type Millis = u64;

/// One open socket, as the gateway numbered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// SHA-256 of a contributor's secret: the only form in which the server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContributorId(pub [u8; 32]);

/// What a coordinator must know of its run.
#[derive(Clone)]
pub struct Settings {
    /// The training rule.
    pub rule: &'static Rule,
    /// Its settings.
    pub strategy: StrategySettings,
    /// Seed of the order of samples.
    pub seed: u64,
    /// Samples in a mini-batch.
    pub batch_size: u32,
    /// Passes over the training part.
    pub epochs: u32,
    /// Address and number of samples of each shard.
    pub shards: Vec<(ShardHash, u32)>,
    /// Length of the parameter vector.
    pub elements: u64,
    /// The run's plan as JSON, and the hash of its layout: the body of every welcome.
    pub plan: String,
    /// See `plan`.
    pub schema: [u8; 32],
    /// Seed of the self-test.
    pub self_test_seed: u64,
    /// The generation of this start.
    pub generation: u32,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A worker said hello.
    Hello {
        /// Whose secret it holds.
        contributor: ContributorId,
        /// Who it claims to have been.
        resume: Option<Resume>,
        /// What its device can do.
        capabilities: Capabilities,
        /// A fresh secret, in case it is new.
        fresh_secret: [u8; 16],
    },
    /// The device's gradient was compared with the server's.
    SelfTest(Result<(), String>),
    /// It asks for work.
    LeaseRequest,
    /// It asks for the centre.
    Pull,
    /// All of a commit arrived; `checked` is what the look at its delta gave.
    Commit {
        /// What it announced.
        header: CommitHeader,
        /// The refusal that the delta itself earns.
        checked: Result<(), Refusal>,
    },
    /// It gives a lease back.
    Release(LeaseId),
    /// Something went wrong there.
    Trouble(Trouble),
    /// It stops.
    Leave,
    /// Its socket closed.
    Closed(String),
    /// It sent what cannot be read, or at a time when it means nothing.
    Malformed(String),
}

/// What the shell must do.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Send a message.
    Send(ConnectionId, ToWorker),
    /// Send the newest centre.
    SendSnapshot(ConnectionId),
    /// Close a socket, with a close code and its reason.
    Close(ConnectionId, u16, String),
    /// Change the centre by the commit at hand.
    Apply {
        /// Versions since its base.
        staleness: u64,
    },
    /// An epoch's ledger is full.
    EpochClosed(u32),
    /// Every epoch is closed.
    Finished,
    /// Something that people may want to know.
    Note(Note),
}

struct Member {
    contributor: ContributorId,
    secret: [u8; 16],
    connection: Option<ConnectionId>,
    capabilities: Capabilities,
    admitted: bool,
    /// Since when it has owed an answer to the self-test, while it is not admitted.
    unproven_since: Millis,
    lease: Option<LeaseId>,
    /// Verdicts of the lease before, for resends.
    previous: Option<(LeaseId, Vec<kindling_shared::protocol::Verdict>)>,
    joined_at: Millis,
    heard_at: Millis,
    /// Samples a second, as the server sees them arrive.
    speed: Option<f64>,
    credit: u64,
    accepted: u64,
    rejected: u64,
    /// Commits refused for what they held since the last accepted one.
    refused_in_a_row: u32,
    staleness: Option<u64>,
    loss: Option<f32>,
    /// Why it was last refused something.
    last_refusal: Option<Refusal>,
}

/// The state of one run.
pub struct Coordinator {
    settings: Settings,
    version: Version,
    ledger: Ledger,
    members: BTreeMap<WorkerId, Member>,
    connections: BTreeMap<ConnectionId, WorkerId>,
    leases: BTreeMap<LeaseId, leases::LeaseState>,
    /// Workers that asked for work when there was none, in the order of their numbers.
    waiting: BTreeSet<WorkerId>,
    next_worker: u64,
    next_lease: u64,
    counts: CommitCounts,
    staleness: BTreeMap<u64, u64>,
    finished: bool,
}

impl Coordinator {
    /// A run at its beginning.
    pub fn new(settings: Settings) -> Self {
        let ledger = Ledger::new(settings.seed, settings.shards.iter().map(|shard| shard.1).collect(), settings.epochs);
        Self {
            version: Version { generation: settings.generation, number: 0 },
            settings,
            ledger,
            members: BTreeMap::new(),
            connections: BTreeMap::new(),
            leases: BTreeMap::new(),
            waiting: BTreeSet::new(),
            next_worker: 1,
            next_lease: 1,
            counts: CommitCounts::default(),
            staleness: BTreeMap::new(),
            finished: false,
        }
    }

    /// Takes an event of a connection at time `now`; returns what to do, in order.
    pub fn handle(&mut self, connection: ConnectionId, event: Event, now: Millis) -> Vec<Action> {
        let mut actions = Vec::new();
        let known = self.connections.get(&connection).copied();
        if let Some(member) = known.and_then(|worker| self.members.get_mut(&worker)) {
            member.heard_at = now;
        }
        match (event, known) {
            (Event::Hello { contributor, resume, capabilities, fresh_secret }, None) => {
                self.hello(connection, contributor, resume, capabilities, fresh_secret, now, &mut actions);
            }
            (Event::Hello { .. }, Some(worker)) => {
                self.expel(worker, Refusal::new(RejectCode::Malformed, "a second hello on one socket"), &mut actions);
            }
            (Event::Closed(_), None) => {}
            (_, None) => {
                let refusal = Refusal::new(RejectCode::Malformed, "say hello first");
                farewell(connection, refusal, &mut actions);
            }
            (Event::SelfTest(result), Some(worker)) => self.self_tested(worker, result, &mut actions),
            (Event::LeaseRequest, Some(worker)) => self.lease_requested(worker, now, &mut actions),
            (Event::Pull, Some(_)) => actions.push(Action::SendSnapshot(connection)),
            (Event::Commit { header, checked }, Some(worker)) => {
                self.commit(worker, &header, checked, now, &mut actions);
            }
            (Event::Release(lease), Some(worker)) => self.released(worker, lease, &mut actions),
            (Event::Trouble(trouble), Some(worker)) => note_trouble(worker, trouble, &mut actions),
            (Event::Leave, Some(worker)) => self.left(worker, "it stopped", &mut actions),
            (Event::Closed(reason), Some(worker)) => self.closed(worker, &reason, now, &mut actions),
            (Event::Malformed(what), Some(worker)) => {
                self.expel(worker, Refusal::new(RejectCode::Malformed, what), &mut actions);
            }
        }
        self.grant_waiting(now, &mut actions);
        actions
    }

    /// Takes note that time has passed: late leases go to others.
    pub fn tick(&mut self, now: Millis) -> Vec<Action> {
        let mut actions = Vec::new();
        self.expire_leases(now, &mut actions);
        self.expel_unproven(now, &mut actions);
        self.grant_waiting(now, &mut actions);
        actions
    }

    /// The centre's version.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// What was handed out and what came back.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// True when every epoch is closed.
    pub const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Workers that are connected and passed the self-test.
    pub fn active_workers(&self) -> usize {
        self.members.values().filter(|member| member.connection.is_some() && member.admitted).count()
    }

    fn send(&self, worker: WorkerId, message: ToWorker, actions: &mut Vec<Action>) {
        if let Some(connection) = self.members.get(&worker).and_then(|member| member.connection) {
            actions.push(Action::Send(connection, message));
        }
    }
}

/// Refuses a connection for good, and says why.
fn farewell(connection: ConnectionId, refusal: Refusal, actions: &mut Vec<Action>) {
    let reason = refusal.reason.clone();
    actions.push(Action::Send(connection, ToWorker::Farewell(refusal)));
    actions.push(Action::Close(connection, kindling_shared::protocol::close::REFUSED, reason));
}

fn note_trouble(worker: WorkerId, trouble: Trouble, actions: &mut Vec<Action>) {
    let kind = match trouble.kind {
        TroubleKind::DeviceLost => NoteKind::DeviceLost,
        TroubleKind::Trap => NoteKind::WorkerTrapped,
        TroubleKind::Shard => NoteKind::ShardUnavailable,
        TroubleKind::CpuInstead => NoteKind::CpuInstead,
    };
    actions.push(Action::Note(Note::of(worker, kind, trouble.detail)));
}
