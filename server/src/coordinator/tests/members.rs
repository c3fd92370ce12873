//! Who comes, comes back, and is let in.

use super::*;

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
