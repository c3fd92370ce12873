//! What the coordinator promises, in virtual time.

mod commits;
mod leases;
mod members;

use kindling_shared::protocol::{
    Advice, Backend, Capabilities, CommitHeader, CommitId, Lease, LeaseId, RejectCode, Resume, SampleRange, ToWorker,
    Verdict, Version, WindowLimit, limits,
};
use kindling_shared::run::{StrategySettings, Window};
use kindling_shared::strategy;

use super::*;

const SECOND: Millis = 1_000;

/// A coordinator with the little that a test needs to talk to it.
struct Bench {
    coordinator: Coordinator,
    now: Millis,
    next_connection: u64,
}

/// A worker as a test sees it.
#[derive(Clone)]
struct Peer {
    connection: ConnectionId,
    contributor: ContributorId,
    resume: Resume,
}

impl Bench {
    fn new(rule: &str, epochs: u32) -> Self {
        let settings = Settings {
            rule: strategy::find(rule).expect("a rule"),
            strategy: StrategySettings { rule: rule.into(), ..StrategySettings::default() },
            seed: 1,
            batch_size: 10,
            epochs,
            shards: (0..4).map(|index| (ShardHash([index; 32]), 50)).collect(),
            elements: 3,
            plan: "{}".into(),
            schema: [0; 32],
            self_test_seed: 5,
            generation: 1,
        };
        Self { coordinator: Coordinator::new(settings), now: 0, next_connection: 1 }
    }

    fn handle(&mut self, connection: ConnectionId, event: Event) -> Vec<Action> {
        self.coordinator.handle(connection, event, self.now)
    }

    fn connection(&mut self) -> ConnectionId {
        self.next_connection += 1;
        ConnectionId(self.next_connection)
    }

    fn hello(&mut self, connection: ConnectionId, contributor: u8, resume: Option<Resume>) -> Vec<Action> {
        let event = Event::Hello {
            contributor: ContributorId([contributor; 32]),
            resume,
            capabilities: Capabilities { backend: Backend::Cpu, adapter: "test".into(), software: false },
            fresh_secret: [contributor; 16],
        };
        self.handle(connection, event)
    }

    /// A new worker that passed its self-test.
    fn join(&mut self, contributor: u8) -> Peer {
        let connection = self.connection();
        let actions = self.hello(connection, contributor, None);
        let welcome = actions.iter().find_map(|action| match action {
            Action::Send(_, ToWorker::Welcome(welcome)) => Some(welcome.clone()),
            _ => None,
        });
        let welcome = welcome.expect("a welcome");
        assert!(!welcome.admitted);
        self.handle(connection, Event::SelfTest(Ok(())));
        let resume = Resume { worker: welcome.worker, secret: welcome.resume_secret, lease: None };
        Peer { connection, contributor: ContributorId([contributor; 32]), resume }
    }

    fn lease(&mut self, peer: &Peer) -> Lease {
        lease_in(&self.handle(peer.connection, Event::LeaseRequest)).expect("a lease")
    }

    fn commit(&mut self, peer: &Peer, lease: LeaseId, sequence: u32, samples: u32) -> Vec<Action> {
        let base = self.coordinator.version();
        self.commit_from(peer, lease, sequence, samples, base)
    }

    fn commit_from(&mut self, peer: &Peer, lease: LeaseId, sequence: u32, samples: u32, base: Version) -> Vec<Action> {
        let id = CommitId { lease, sequence };
        let header = CommitHeader { id, base, steps: 1, samples, loss: 1.0, compute_ms: 5, elements: 3 };
        self.handle(peer.connection, Event::Commit { header, checked: Ok(()) })
    }

    /// Work until the end; every worker commits whole leases.
    fn finish(&mut self, peers: &[Peer]) {
        for _ in 0..10_000 {
            for peer in peers {
                let Some(lease) = lease_in(&self.handle(peer.connection, Event::LeaseRequest)) else {
                    continue;
                };
                let samples = lease.ranges.iter().map(SampleRange::len).sum();
                let actions = self.commit(peer, lease.id, 0, samples);
                assert!(matches!(verdict_in(&actions), Some(Verdict::Accepted { .. })), "{actions:?}");
                if self.coordinator.is_finished() {
                    return;
                }
            }
        }
        panic!("the run does not end");
    }
}

fn lease_in(actions: &[Action]) -> Option<Lease> {
    actions.iter().find_map(|action| match action {
        Action::Send(_, ToWorker::Lease(lease)) => Some(lease.clone()),
        _ => None,
    })
}

fn verdict_in(actions: &[Action]) -> Option<Verdict> {
    actions.iter().find_map(|action| match action {
        Action::Send(_, ToWorker::Verdict(verdict)) => Some(verdict.clone()),
        _ => None,
    })
}

fn refusal_in(actions: &[Action]) -> (RejectCode, Advice) {
    match verdict_in(actions) {
        Some(Verdict::Rejected { refusal, .. }) => (refusal.code, refusal.advice),
        other => panic!("expected a rejection, got {other:?}"),
    }
}

fn farewell_in(actions: &[Action], connection: ConnectionId) -> Option<RejectCode> {
    actions.iter().find_map(|action| match action {
        Action::Send(to, ToWorker::Farewell(refusal)) if *to == connection => Some(refusal.code),
        _ => None,
    })
}

#[test]
fn a_run_of_two_workers_ends_with_every_sample_counted_once_an_epoch() {
    let mut bench = Bench::new("dynsgd", 3);
    let peers = [bench.join(1), bench.join(2)];
    bench.finish(&peers);
    assert_eq!(bench.coordinator.ledger().samples_trained(), 3 * 200);
    assert_eq!(bench.coordinator.ledger().samples_in_flight(), 0);
    let late = bench.connection();
    let actions = bench.hello(late, 3, None);
    assert!(matches!(actions[0], Action::Send(_, ToWorker::RunEnded(_))), "{actions:?}");
}

#[test]
fn single_takes_one_worker_at_a_time_and_goes_through_the_samples_in_order() {
    let mut bench = Bench::new("single", 2);
    let one = bench.join(1);
    let second = bench.connection();
    let actions = bench.hello(second, 2, None);
    assert_eq!(farewell_in(&actions, second), Some(RejectCode::RunFull));
    let mut seen = Vec::new();
    while !bench.coordinator.is_finished() {
        let lease = bench.lease(&one);
        assert_eq!(lease.window, WindowLimit::Lease);
        seen.extend(lease.ranges.iter().map(|range| range.epoch));
        bench.commit(&one, lease.id, 0, lease.ranges.iter().map(SampleRange::len).sum());
    }
    assert!(seen.is_sorted());
    bench.handle(one.connection, Event::Closed("done".into()));
}
