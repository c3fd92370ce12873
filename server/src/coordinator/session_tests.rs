//! The two state machines against each other: real sessions and the real coordinator on virtual time, without a
//! network, without a device. What a session sends is decoded as the gateway does, and the other way round.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use kindling_shared::data::{Features, Shard};
use kindling_shared::model::infer_layout;
use kindling_shared::params::{Assembler, Codec, Encoded, Layout, Parts};
use kindling_shared::protocol::{Backend, SelfTestAnswer, SnapshotHeader, ToServer};
use kindling_shared::run::RunPlan;
use kindling_shared::session::{self, Identity, Input, Job, LateCentre, Phase, Session, WindowOrder};
use kindling_shared::strategy::{self, Commit, ServerHalf};
use kindling_shared::trainer::WindowResult;
use sha2::{Digest as _, Sha256};

use super::*;

const PLAN: &str = r#"{ "id": "toy", "name": "toy", "seed": 1,
    "data": { "sample_shape": [2], "classes": 2, "train_samples": 120, "shards": 3, "bytes": 1 },
    "model": { "layers": [{ "kind": "linear", "units": 2 }] },
    "worker": { "batch_size": 1 }, "strategy": { "rule": "downpour", "communication_window": 20 } }"#;
const ELEMENTS: usize = 6;
const SAMPLES: u64 = 120;
/// Milliseconds that one local step takes on the toy device.
const STEP: Millis = 5;
/// What a window adds to each parameter.
const PROGRESS: f32 = 0.5;
const SECRET: [u8; 32] = [3; 32];

/// One tab: a session, its socket, and what its device is busy with.
struct Tab {
    session: Session,
    connection: Option<ConnectionId>,
    inputs: VecDeque<(Millis, Input)>,
    /// The device's parameters.
    local: Vec<f32>,
    /// The window at work, and when it is done.
    window: Option<(Millis, WindowOrder)>,
    /// Windows that began before their centre was there.
    ran_ahead: u32,
    identity: Option<Identity>,
    commit: Option<(CommitHeader, Assembler)>,
    /// The next window is reported with an all-zero change: a device that computes nothing.
    broken: bool,
    /// It neither hears nor does anything.
    frozen: bool,
}

/// A world of tabs and one coordinator.
struct World {
    now: Millis,
    coordinator: Coordinator,
    centre: Parts,
    rule: Box<dyn ServerHalf>,
    shards: BTreeMap<ShardHash, Bytes>,
    tabs: Vec<Tab>,
    connections: u64,
}

impl World {
    fn new(epochs: u32) -> Self {
        let shards: Vec<Bytes> = (0..3_u8)
            .map(|index| {
                let features = Features::U8(vec![index; 80].into());
                Shard { sample_shape: vec![2], features, labels: vec![u32::from(index % 2); 40] }.encode()
            })
            .collect();
        let plan: RunPlan = serde_json::from_str(PLAN).expect("a plan");
        let layout = infer_layout(&plan.model, &plan.data.sample_shape, plan.data.classes).expect("fits");
        let rule = strategy::find("downpour").expect("a rule");
        let settings = Settings {
            rule,
            strategy: plan.strategy,
            seed: 1,
            batch_size: 1,
            epochs,
            shards: shards.iter().map(|bytes| (ShardHash::of(bytes), 40)).collect(),
            elements: ELEMENTS as u64,
            plan: PLAN.into(),
            schema: layout.schema_hash(),
            self_test_seed: 5,
            generation: 0,
        };
        Self {
            now: 0,
            coordinator: Coordinator::new(settings),
            centre: Parts::new(&[0.0; ELEMENTS]),
            rule: (rule.server)(),
            shards: shards.into_iter().map(|bytes| (ShardHash::of(&bytes), bytes)).collect(),
            tabs: Vec::new(),
            connections: 0,
        }
    }

    fn open(&mut self, identity: Option<Identity>) -> usize {
        let capabilities = Capabilities { backend: Backend::Cpu, adapter: "toy".into(), software: false };
        let session = Session::new(String::new(), SECRET, identity, capabilities);
        let inputs = VecDeque::from([(self.now, Input::Tick)]);
        self.tabs.push(Tab {
            session,
            connection: None,
            inputs,
            local: Vec::new(),
            window: None,
            ran_ahead: 0,
            identity: None,
            commit: None,
            broken: false,
            frozen: false,
        });
        self.tabs.len() - 1
    }

    /// The network breaks: both ends hear of it.
    fn cut(&mut self, tab: usize) {
        if let Some(connection) = self.tabs[tab].connection.take() {
            self.tabs[tab].inputs.retain(|(_, input)| !matches!(input, Input::Frame(_)));
            self.tabs[tab].inputs.push_back((self.now, Input::Disconnected { code: 1006, reason: String::new() }));
            self.tabs[tab].commit = None;
            self.server(connection, Event::Closed("cut".into()), None);
        }
    }

    /// Something that a person or a device does at a tab, now.
    fn tell(&mut self, tab: usize, input: Input) {
        self.tabs[tab].inputs.push_back((self.now, input));
    }

    /// Time goes on by `milliseconds`, in steps of 10.
    fn run(&mut self, milliseconds: Millis) {
        let end = self.now + milliseconds;
        while self.now < end {
            self.step();
        }
    }

    /// Time goes on until the run is finished; at most ten minutes.
    fn finish(&mut self) {
        let end = self.now + 600 * 1_000;
        while !self.coordinator.is_finished() {
            assert!(self.now < end, "the run does not end: {:?}", self.phases());
            self.step();
        }
        self.run(1_000);
        assert_eq!(self.coordinator.ledger().samples_in_flight(), 0);
    }

    fn phases(&self) -> Vec<Phase> {
        self.tabs.iter().map(|tab| tab.session.progress().phase).collect()
    }

    fn step(&mut self) {
        self.now += 10;
        for tab in 0..self.tabs.len() {
            if self.tabs[tab].frozen {
                continue;
            }
            if self.now.is_multiple_of(500) {
                self.tell(tab, Input::Tick);
            }
            let mut later = VecDeque::new();
            while let Some((at, input)) = self.tabs[tab].inputs.pop_front() {
                if at > self.now {
                    later.push_back((at, input));
                    continue;
                }
                for action in self.tabs[tab].session.handle(input, self.now) {
                    self.tab_does(tab, action, &mut later);
                }
            }
            self.tabs[tab].inputs = later;
            self.compute(tab);
        }
        let actions = self.coordinator.tick(self.now);
        self.server_does(actions, None);
    }

    fn tab_does(&mut self, tab: usize, action: session::Action, later: &mut VecDeque<(Millis, Input)>) {
        match action {
            session::Action::Connect => {
                self.connections += 1;
                self.tabs[tab].connection = Some(ConnectionId(self.connections));
                later.push_back((self.now + 10, Input::Connected));
            }
            session::Action::Disconnect => {
                later.retain(|(_, input)| !matches!(input, Input::Frame(_) | Input::Connected));
                self.tabs[tab].inputs.retain(|(_, input)| !matches!(input, Input::Frame(_) | Input::Connected));
                self.tabs[tab].commit = None;
                if let Some(connection) = self.tabs[tab].connection.take() {
                    self.server(connection, Event::Closed("it hung up".into()), None);
                }
            }
            session::Action::Send(bytes) => self.gateway(tab, &bytes),
            session::Action::FetchShard(hash) => {
                later.push_back((self.now + 20, Input::Shard { hash, bytes: self.shards[&hash].clone() }));
            }
            session::Action::Compute(Job::SelfTest { .. }) => {
                let answer = SelfTestAnswer { norms: vec![], entries: vec![] };
                later.push_back((self.now + 10, Input::SelfTestDone(answer)));
            }
            session::Action::Compute(Job::Window(order)) => {
                let tab = &mut self.tabs[tab];
                if let Some(load) = &order.load {
                    tab.local = load.to_vec();
                }
                tab.ran_ahead += u32::from(order.late_centre.is_some());
                tab.window = Some((self.now + order.source.batches() as Millis * STEP, order));
            }
            session::Action::Abandon => {
                self.tabs[tab].window = None;
                later.retain(|(_, input)| !matches!(input, Input::WindowDone { .. }));
            }
            session::Action::UseCpu => {}
            session::Action::Remember(identity) => self.tabs[tab].identity = identity,
        }
    }

    /// The device takes a late centre when it comes, and is done with its window when its time is over and no centre
    /// is missing any more.
    fn compute(&mut self, tab: usize) {
        let tab = &mut self.tabs[tab];
        let Some((end, mut order)) = tab.window.take() else { return };
        if let Some(shift) = order.late_centre.as_mut().and_then(LateCentre::shift) {
            tab.local.iter_mut().zip(&shift).for_each(|(value, shift)| *value += shift);
            order.late_centre = None;
        }
        if self.now < end || order.late_centre.is_some() {
            tab.window = Some((end, order));
            return;
        }
        let change = if std::mem::take(&mut tab.broken) { f32::NAN } else { PROGRESS };
        tab.local.iter_mut().for_each(|value| *value += change);
        let steps = order.source.batches() as u32;
        let result =
            WindowResult { steps, samples: order.source.samples() as u32, loss: 1.0, parameters: tab.local.clone() };
        let compute_ms = steps * STEP as u32;
        tab.inputs.push_back((self.now, Input::WindowDone { number: order.number, result, compute_ms }));
    }

    /// A frame of a tab, as the gateway takes it.
    fn gateway(&mut self, tab: usize, bytes: &Bytes) {
        let Some(connection) = self.tabs[tab].connection else { return };
        let event = match ToServer::decode(bytes).expect("a session sends frames") {
            ToServer::Hello(hello) => Event::Hello {
                contributor: ContributorId(Sha256::digest(hello.contributor).into()),
                resume: hello.resume,
                capabilities: hello.capabilities,
                fresh_secret: [self.connections as u8; 16],
            },
            ToServer::SelfTestAnswer(_) => Event::SelfTest(Ok(())),
            ToServer::LeaseRequest(()) => Event::LeaseRequest,
            ToServer::Pull(()) => Event::Pull,
            ToServer::Release(lease) => Event::Release(lease),
            ToServer::Trouble(trouble) => Event::Trouble(trouble),
            ToServer::Leave(()) => Event::Leave,
            ToServer::Pong(_) => return,
            ToServer::Commit(header) => {
                self.tabs[tab].commit = Some((header, Assembler::new(header.elements, Codec::F32)));
                return;
            }
            ToServer::Tensor(chunk) => {
                let (header, mut assembler) = self.tabs[tab].commit.take().expect("announced");
                assembler.push(chunk).expect("in order");
                let update = assembler.finish();
                let refused = || Refusal::new(RejectCode::NotFinite, "no numbers");
                let checked = if update.largest().is_finite() { Ok(()) } else { Err(refused()) };
                return self.server(connection, Event::Commit { header, checked }, Some(&(header, update)));
            }
        };
        self.server(connection, event, None);
    }

    fn server(&mut self, connection: ConnectionId, event: Event, commit: Option<&(CommitHeader, Encoded)>) {
        let actions = self.coordinator.handle(connection, event, self.now);
        self.server_does(actions, commit);
    }

    fn server_does(&mut self, actions: Vec<Action>, commit: Option<&(CommitHeader, Encoded)>) {
        for action in actions {
            match action {
                Action::Send(to, message) => self.deliver(to, message.encode()),
                Action::SendSnapshot(to) => {
                    let header = SnapshotHeader { version: self.coordinator.version(), elements: ELEMENTS as u64 };
                    self.deliver(to, ToWorker::Snapshot(header).encode());
                    for chunk in self.centre.chunks(Codec::F32) {
                        self.deliver(to, ToWorker::Tensor(chunk).encode());
                    }
                }
                Action::Apply { staleness } => {
                    let (header, update) = commit.expect("a commit is at hand");
                    let (steps, samples) = (header.steps, header.samples);
                    let commit = Commit { update, staleness, steps, samples };
                    self.rule.apply(&mut self.centre, &Layout::default(), &commit);
                }
                Action::Close(to, code, reason) => {
                    if let Some(tab) = self.tabs.iter_mut().find(|tab| tab.connection == Some(to)) {
                        tab.connection = None;
                        tab.inputs.push_back((self.now + 10, Input::Disconnected { code, reason }));
                    }
                }
                Action::EpochClosed(_) | Action::Finished | Action::Note(_) => {}
            }
        }
    }

    fn deliver(&mut self, to: ConnectionId, bytes: Bytes) {
        if let Some(tab) = self.tabs.iter_mut().find(|tab| tab.connection == Some(to)) {
            tab.inputs.push_back((self.now + 10, Input::Frame(bytes)));
        }
    }

    fn exact(&self, epochs: u64) {
        assert_eq!(self.coordinator.ledger().samples_trained(), epochs * SAMPLES);
        let credit: u64 = self.coordinator.workers(self.now).iter().map(|worker| worker.samples_accepted).sum();
        assert_eq!(credit, epochs * SAMPLES);
        // Every window's progress is added whole, once, whatever its parameters began from.
        let progress = self.coordinator.commit_counts().accepted as f32 * PROGRESS;
        assert_eq!(self.centre.to_vec(), vec![progress; ELEMENTS]);
    }
}

#[test]
fn two_tabs_train_to_the_end_and_are_told_so() {
    let mut world = World::new(5);
    world.open(None);
    world.open(None);
    world.finish();
    world.exact(5);
    assert_eq!(world.phases(), [Phase::Ended, Phase::Ended]);
    let workers = world.coordinator.workers(world.now);
    assert!(workers.iter().all(|worker| worker.samples_accepted > 100), "{workers:?}");
    assert_eq!(world.coordinator.commit_counts().rejected, 0);
    assert!(world.tabs.iter().all(|tab| tab.identity.is_none()), "nobody comes back to a run that has ended");
    assert!(world.tabs.iter().all(|tab| tab.ran_ahead > 0), "every tab ran ahead");
}

#[test]
fn a_network_that_breaks_at_any_moment_costs_no_sample_and_doubles_none() {
    for moment in (0..3_000).step_by(70) {
        let mut world = World::new(4);
        world.open(None);
        world.open(None);
        world.run(moment);
        world.cut(0);
        world.run(130);
        world.cut(1);
        world.finish();
        world.exact(4);
        assert_eq!(world.coordinator.workers(world.now).len(), 2, "cut at {moment} ms: both resume as themselves");
    }
}

#[test]
fn a_pause_at_any_moment_frees_the_lease_at_once_and_the_tab_goes_on_after_it() {
    for moment in (0..2_000).step_by(90) {
        let mut world = World::new(6);
        world.open(None);
        world.open(None);
        world.run(moment);
        world.tell(0, Input::Pause);
        world.run(20);
        assert_eq!(world.phases()[0], Phase::Paused, "at {moment} ms");
        let leased =
            world.coordinator.workers(world.now).iter().map(|worker| worker.samples_leased).collect::<Vec<_>>();
        assert!(leased.first().is_none_or(|samples| *samples == 0) || leased.len() < 2, "{leased:?} at {moment} ms");
        world.run(500);
        assert_eq!(
            world.coordinator.active_workers().min(1),
            world.coordinator.active_workers(),
            "one at most is active"
        );
        world.tell(0, Input::Resume);
        world.finish();
        world.exact(6);
    }
}

#[test]
fn a_frozen_tab_catches_up_after_its_lease_went_to_another() {
    let mut world = World::new(6);
    world.open(None);
    world.run(400);
    world.tabs[0].frozen = true;
    world.open(None);
    world.run(90_000);
    world.tabs[0].frozen = false;
    world.finish();
    world.exact(6);
}

#[test]
fn a_reloaded_tab_is_the_same_worker() {
    let mut world = World::new(6);
    let first = world.open(None);
    world.run(600);
    let identity = world.tabs[first].identity.clone();
    assert!(identity.is_some());
    world.tabs[first].frozen = true;
    world.cut(first);
    world.open(identity);
    world.finish();
    world.exact(6);
    assert_eq!(world.coordinator.workers(world.now).len(), 1);
}

#[test]
fn a_result_that_is_no_number_is_refused_once_and_the_samples_are_trained_all_the_same() {
    for moment in (200..700).step_by(50) {
        let mut world = World::new(6);
        world.open(None);
        world.run(moment);
        world.tabs[0].broken = true;
        world.finish();
        world.exact(6);
        let refused = world.coordinator.commit_counts().by_code.get(&RejectCode::NotFinite).copied();
        assert_eq!(refused, Some(1), "broken at {moment} ms");
    }
}

#[test]
fn a_lost_shard_gives_the_lease_back_and_the_tab_tries_again() {
    let mut world = World::new(2);
    world.open(None);
    world.run(100);
    let hash = *world.shards.keys().next().expect("a shard");
    world.tell(0, Input::ShardFailed { hash, reason: "the server answers 500".into() });
    world.finish();
    world.exact(2);
    let mut world = World::new(2);
    world.open(None);
    world.run(100);
    world.tell(0, Input::Shard { hash, bytes: Bytes::from_static(b"not a shard") });
    world.finish();
    world.exact(2);
}
