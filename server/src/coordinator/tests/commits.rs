//! What becomes of a commit.

use super::*;

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
