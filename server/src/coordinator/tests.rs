//! What the coordinator promises, in virtual time.

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
fn a_lease_is_half_a_workers_share_in_whole_batches_and_its_auto_window_a_quarter() {
    let mut bench = Bench::new("dynsgd", 1);
    let (one, _two) = (bench.join(1), bench.join(2));
    let lease = bench.lease(&one);
    assert_eq!(lease.ranges.iter().map(SampleRange::len).sum::<u32>(), 50);
    assert_eq!(lease.window, WindowLimit::Auto { milliseconds: 2_000, samples: 25 });
    assert_eq!(u64::from(lease.deadline_ms), limits::LEASE_UNKNOWN_SPEED.as_millis() as u64);
}

#[test]
fn a_window_in_steps_travels_as_it_is_written() {
    let mut bench = Bench::new("dynsgd", 1);
    bench.coordinator.settings.strategy.communication_window = Some(Window::Steps(7.try_into().expect("not 0")));
    let one = bench.join(1);
    assert_eq!(bench.lease(&one).window, WindowLimit::Steps(7));
}

#[test]
fn a_resent_commit_gets_its_first_verdict_and_changes_nothing() {
    let mut bench = Bench::new("dynsgd", 1);
    let one = bench.join(1);
    let lease = bench.lease(&one);
    let first = verdict_in(&bench.commit(&one, lease.id, 0, 10));
    let (version, trained) = (bench.coordinator.version(), bench.coordinator.ledger().samples_trained());
    let again = bench.commit(&one, lease.id, 0, 10);
    assert_eq!(verdict_in(&again), first);
    assert!(!again.iter().any(|action| matches!(action, Action::Apply { .. })));
    assert_eq!((bench.coordinator.version(), bench.coordinator.ledger().samples_trained()), (version, trained));
    // Also when the lease is over by now.
    let rest = lease.ranges.iter().map(SampleRange::len).sum::<u32>() - 10;
    let last = verdict_in(&bench.commit(&one, lease.id, 1, rest));
    assert_eq!(verdict_in(&bench.commit(&one, lease.id, 1, rest)), last);
}

#[test]
fn a_commit_beyond_the_staleness_bound_is_refused_once_and_the_next_one_is_taken() {
    let mut bench = Bench::new("dynsgd", 100);
    let (slow, fast) = (bench.join(1), bench.join(2));
    let held = bench.lease(&slow);
    let base = bench.coordinator.version();
    let mut commits = 0;
    while commits <= limits::STALENESS_LEAST {
        let lease = bench.lease(&fast);
        for sequence in 0..lease.ranges.iter().map(SampleRange::len).sum::<u32>() / 10 {
            bench.commit(&fast, lease.id, sequence, 10);
            commits += 1;
        }
    }
    let refused = bench.commit_from(&slow, held.id, 0, 10, base);
    assert_eq!(refusal_in(&refused), (RejectCode::Stale, Advice::Pull));
    let taken = bench.commit(&slow, held.id, 1, 10);
    assert!(matches!(verdict_in(&taken), Some(Verdict::Accepted { staleness: 0, .. })), "{taken:?}");
    bench.handle(slow.connection, Event::Release(held.id));
    bench.finish(&[slow, fast]);
    assert_eq!(bench.coordinator.ledger().samples_trained(), 100 * 200);
    assert_eq!(bench.coordinator.commit_counts().rejected, 1);
}

#[test]
fn a_worker_that_vanishes_gives_its_samples_back_after_the_grace() {
    let mut bench = Bench::new("dynsgd", 1);
    let (gone, stays) = (bench.join(1), bench.join(2));
    let lease = bench.lease(&gone);
    bench.commit(&gone, lease.id, 0, 10);
    bench.handle(gone.connection, Event::Closed("killed".into()));
    assert_eq!(bench.coordinator.ledger().samples_in_flight(), 40);
    bench.now += limits::RESUME_GRACE.as_millis() as Millis;
    bench.coordinator.tick(bench.now);
    assert_eq!(bench.coordinator.ledger().samples_in_flight(), 0);
    bench.finish(&[stays]);
    assert_eq!(bench.coordinator.ledger().samples_trained(), 200);
}

#[test]
fn a_frozen_worker_loses_its_lease_at_the_deadline_and_is_told_when_it_thaws() {
    let mut bench = Bench::new("dynsgd", 1);
    let (frozen, other) = (bench.join(1), bench.join(2));
    let lease = bench.lease(&frozen);
    bench.now += Millis::from(lease.deadline_ms);
    bench.coordinator.tick(bench.now);
    let late = bench.commit(&frozen, lease.id, 0, 10);
    assert_eq!(refusal_in(&late), (RejectCode::LeaseExpired, Advice::RequestLease));
    bench.finish(&[frozen, other]);
    assert_eq!(bench.coordinator.ledger().samples_trained(), 200);
}

#[test]
fn a_worker_resumes_with_its_lease_after_a_short_break() {
    let mut bench = Bench::new("dynsgd", 1);
    let one = bench.join(1);
    let lease = bench.lease(&one);
    bench.handle(one.connection, Event::Closed("a broken network".into()));
    bench.now += SECOND;
    let connection = bench.connection();
    let actions = bench.hello(connection, 1, Some(Resume { lease: Some(lease.id), ..one.resume.clone() }));
    let welcomed = actions.iter().any(|action| {
        matches!(action, Action::Send(_, ToWorker::Welcome(welcome))
            if welcome.worker == one.resume.worker && welcome.admitted && welcome.lease_kept)
    });
    assert!(welcomed, "{actions:?}");
    let one = Peer { connection, ..one };
    assert!(matches!(verdict_in(&bench.commit(&one, lease.id, 0, 10)), Some(Verdict::Accepted { .. })));
}

#[test]
fn a_reloaded_tab_is_the_same_worker_and_its_old_lease_is_free_at_once() {
    let mut bench = Bench::new("dynsgd", 1);
    let one = bench.join(1);
    bench.lease(&one);
    let connection = bench.connection();
    let actions = bench.hello(connection, 1, Some(one.resume.clone()));
    assert_eq!(farewell_in(&actions, one.connection), Some(RejectCode::Superseded));
    assert_eq!(bench.coordinator.ledger().samples_in_flight(), 0);
    assert_eq!(bench.coordinator.workers(bench.now).len(), 1);
}

#[test]
fn nobody_resumes_another_contributors_worker() {
    let mut bench = Bench::new("dynsgd", 1);
    let one = bench.join(1);
    let thief = bench.connection();
    bench.hello(thief, 2, Some(one.resume.clone()));
    let wrong = bench.connection();
    bench.hello(wrong, 1, Some(Resume { secret: [0; 16], ..one.resume.clone() }));
    assert_eq!(bench.coordinator.workers(bench.now).len(), 3);
    assert!(lease_in(&bench.handle(one.connection, Event::LeaseRequest)).is_some(), "the first one is still here");
    assert_eq!(one.contributor, ContributorId([1; 32]));
}

#[test]
fn coming_back_again_and_again_does_not_hold_a_lease_for_ever() {
    let mut bench = Bench::new("dynsgd", 1);
    let one = bench.join(1);
    let lease = bench.lease(&one);
    let mut connection = one.connection;
    for _ in 0..20 {
        bench.handle(connection, Event::Closed("again".into()));
        bench.now += 5 * SECOND;
        connection = bench.connection();
        bench.hello(connection, 1, Some(Resume { lease: Some(lease.id), ..one.resume.clone() }));
        bench.coordinator.tick(bench.now);
    }
    assert_eq!(bench.coordinator.ledger().samples_in_flight(), 0);
}

#[test]
fn a_lease_over_many_small_shards_fits_into_one_message() {
    let mut bench = Bench::new("dynsgd", 1);
    let shards: Vec<(ShardHash, u32)> = (0..5_000).map(|index: u32| (ShardHash([index as u8; 32]), 2)).collect();
    bench.coordinator.ledger = Ledger::new(1, shards.iter().map(|shard| shard.1).collect(), 1);
    bench.coordinator.settings.shards = shards;
    let one = bench.join(1);
    let lease = bench.lease(&one);
    assert_eq!(lease.ranges.len(), limits::LEASE_RANGES);
    assert!(ToWorker::Lease(lease.clone()).encode().len() <= limits::CONTROL_BYTES);
    let leased: u32 = lease.ranges.iter().map(SampleRange::len).sum();
    assert_eq!(bench.coordinator.ledger().samples_in_flight(), u64::from(leased));
    bench.handle(one.connection, Event::Release(lease.id));
    bench.finish(&[one]);
    assert_eq!(bench.coordinator.ledger().samples_trained(), 10_000);
}

#[test]
fn a_device_that_answers_no_self_test_gives_its_place_up() {
    let mut bench = Bench::new("single", 1);
    let silent = bench.connection();
    bench.hello(silent, 1, None);
    bench.now += limits::SELF_TEST.as_millis() as Millis;
    let actions = bench.coordinator.tick(bench.now);
    assert_eq!(farewell_in(&actions, silent), Some(RejectCode::SelfTestFailed));
    bench.join(2);
}

#[test]
fn who_waits_gets_work_as_soon_as_there_is_some() {
    let mut bench = Bench::new("dynsgd", 1);
    let peers: Vec<Peer> = (1..=3).map(|contributor| bench.join(contributor)).collect();
    let mut leases: Vec<(Peer, Lease)> = Vec::new();
    let waiting = loop {
        let peer = bench.join(9);
        match lease_in(&bench.handle(peer.connection, Event::LeaseRequest)) {
            Some(lease) => leases.push((peer, lease)),
            None => break peer,
        }
    };
    let (holder, lease) = &leases[0];
    let actions = bench.handle(holder.connection, Event::Release(lease.id));
    let given = actions.iter().find_map(|action| match action {
        Action::Send(to, ToWorker::Lease(_)) => Some(*to),
        _ => None,
    });
    assert_eq!(given, Some(waiting.connection));
    assert_eq!(peers.len(), 3);
}

#[test]
fn what_a_stranger_claims_is_checked_before_it_counts() {
    let mut bench = Bench::new("dynsgd", 1);
    let (one, two) = (bench.join(1), bench.join(2));
    let lease = bench.lease(&one);
    let header = CommitHeader {
        id: CommitId { lease: lease.id, sequence: 0 },
        base: bench.coordinator.version(),
        steps: 1,
        samples: 10,
        loss: 1.0,
        compute_ms: 5,
        elements: 3,
    };
    let ahead = Version { number: 99, ..header.base };
    let old = Version { generation: 0, ..header.base };
    let cases: [(CommitHeader, RejectCode); 9] = [
        (CommitHeader { elements: 4, ..header }, RejectCode::WrongLength),
        (CommitHeader { loss: f32::NAN, ..header }, RejectCode::NotFinite),
        (CommitHeader { loss: -1.0, ..header }, RejectCode::NotFinite),
        (CommitHeader { base: ahead, ..header }, RejectCode::UnknownBase),
        (CommitHeader { base: old, ..header }, RejectCode::StaleGeneration),
        (CommitHeader { id: CommitId { lease: LeaseId(99), sequence: 0 }, ..header }, RejectCode::UnknownLease),
        (CommitHeader { samples: 51, ..header }, RejectCode::WrongSamples),
        (CommitHeader { samples: 0, ..header }, RejectCode::WrongSamples),
        (CommitHeader { steps: 0, ..header }, RejectCode::WrongSamples),
    ];
    for (mut bad, code) in cases {
        let lease = bench.lease(&one);
        if bad.id == header.id {
            bad.id.lease = lease.id;
        }
        let actions = bench.handle(one.connection, Event::Commit { header: bad, checked: Ok(()) });
        assert_eq!(refusal_in(&actions).0, code, "{bad:?}");
        assert!(!actions.iter().any(|action| matches!(action, Action::Apply { .. })));
        if code == RejectCode::WrongSamples {
            assert!(!bench.coordinator.leases.contains_key(&lease.id), "its lease is over: {bad:?}");
        }
    }
    let lease = bench.lease(&one);
    let ahead_of_itself = bench.commit(&one, lease.id, 7, 10);
    assert_eq!(refusal_in(&ahead_of_itself).0, RejectCode::OutOfOrder);
    let stolen = bench.commit(&two, lease.id, 0, 10);
    assert_eq!(refusal_in(&stolen).0, RejectCode::UnknownLease);
    assert_eq!(bench.coordinator.version().number, 0);
    bench.finish(&[one, two]);
    assert_eq!(bench.coordinator.ledger().samples_trained(), 200);
}

/// Commits that are refused for what they hold, until the run or the worker is at its end.
fn fail(bench: &mut Bench, peer: &Peer, most: u32) -> Vec<Action> {
    let mut actions = Vec::new();
    for _ in 0..most {
        let Some(lease) = lease_in(&bench.handle(peer.connection, Event::LeaseRequest)) else { break };
        let samples = lease.ranges.iter().map(SampleRange::len).sum();
        let id = CommitId { lease: lease.id, sequence: 0 };
        let base = bench.coordinator.version();
        let header = CommitHeader { id, base, steps: 1, samples, loss: 1.0, compute_ms: 5, elements: 3 };
        let checked = Err(Refusal::new(RejectCode::NotFinite, "a NaN"));
        actions = bench.handle(peer.connection, Event::Commit { header, checked });
        assert_eq!(refusal_in(&actions).0, RejectCode::NotFinite);
    }
    actions
}

#[test]
fn a_worker_whose_results_are_never_usable_is_sent_away_and_one_good_result_clears_its_name() {
    let mut bench = Bench::new("dynsgd", 1);
    let one = bench.join(1);
    let actions = fail(&mut bench, &one, limits::REFUSED_IN_A_ROW - 1);
    assert_eq!(farewell_in(&actions, one.connection), None);
    let lease = bench.lease(&one);
    bench.commit(&one, lease.id, 0, 10);
    let actions = fail(&mut bench, &one, limits::REFUSED_IN_A_ROW);
    assert_eq!(farewell_in(&actions, one.connection), Some(RejectCode::TooManyRefused));
    assert_eq!(bench.coordinator.ledger().samples_refused(), 0, "one contributor alone closes nothing");
    assert_eq!(bench.coordinator.ledger().samples_in_flight(), 0);
}

#[test]
fn a_run_that_nobody_can_train_ends_with_every_sample_given_up() {
    let mut bench = Bench::new("dynsgd", 1);
    let peers = [bench.join(1), bench.join(2), bench.join(3)];
    for _ in 0..100 {
        for peer in &peers {
            if bench.coordinator.members.get(&peer.resume.worker).is_some_and(|member| member.connection.is_some()) {
                fail(&mut bench, peer, 1);
            }
        }
    }
    let ledger = bench.coordinator.ledger();
    let given_up = ledger.samples_refused();
    assert!(given_up > 0, "three contributors failed over the same samples");
    assert_eq!((ledger.samples_trained(), ledger.samples_in_flight()), (0, 0));
    if !bench.coordinator.is_finished() {
        let fresh = bench.join(4);
        bench.finish(&[fresh]);
    }
    let ledger = bench.coordinator.ledger();
    assert_eq!(ledger.samples_trained() + ledger.samples_refused(), 200);
}

#[test]
fn a_device_that_fails_the_self_test_gets_no_work() {
    let mut bench = Bench::new("dynsgd", 1);
    let connection = bench.connection();
    bench.hello(connection, 1, None);
    let actions = bench.handle(connection, Event::SelfTest(Err("zeros".into())));
    assert_eq!(farewell_in(&actions, connection), Some(RejectCode::SelfTestFailed));
    let early = bench.connection();
    bench.hello(early, 2, None);
    let actions = bench.handle(early, Event::LeaseRequest);
    assert_eq!(farewell_in(&actions, early), Some(RejectCode::NotAdmitted));
    let rude = bench.connection();
    let actions = bench.handle(rude, Event::Pull);
    assert_eq!(farewell_in(&actions, rude), Some(RejectCode::Malformed));
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
