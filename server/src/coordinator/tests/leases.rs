//! Who gets which samples, for how long.

use super::*;

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
fn a_lease_holds_whole_windows_where_they_are_short_beside_an_epoch() {
    // Of 200 samples in batches of 10: the first lease, and the next once the first is committed whole.
    let leased = |steps: u32, workers: u8| {
        let mut bench = Bench::new("dynsgd", 1);
        bench.coordinator.settings.strategy.communication_window =
            Some(Window::Steps(steps.try_into().expect("not 0")));
        let all: Vec<_> = (1..=workers).map(|worker| bench.join(worker)).collect();
        [(); 2].map(|()| {
            let lease = bench.lease(&all[0]);
            let samples = lease.ranges.iter().map(SampleRange::len).sum::<u32>();
            bench.commit(&all[0], lease.id, 0, samples);
            samples
        })
    };
    assert_eq!(leased(2, 2), [60, 40], "whole windows of 20 that hold half a share");
    assert_eq!(leased(10, 1), [100, 100], "the last window is not cut in two");
    assert_eq!(leased(7, 2), [50, 40], "a window of 70 is no part of half a share of an epoch");
    assert_eq!(leased(u32::MAX, 1), [100, 50]);
}

#[test]
fn no_lease_and_no_auto_window_is_shorter_than_a_sixty_fourth_of_a_workers_share_but_the_last() {
    let mut bench = Bench::new("dynsgd", 1);
    bench.coordinator.ledger = Ledger::new(1, vec![64_000], 1);
    bench.coordinator.settings.shards = vec![(ShardHash([1; 32]), 64_000)];
    let one = bench.join(1);
    let mut leases = Vec::new();
    while bench.coordinator.ledger().samples_trained() < 64_000 {
        let lease = bench.lease(&one);
        let samples = lease.ranges.iter().map(SampleRange::len).sum::<u32>();
        bench.commit(&one, lease.id, 0, samples);
        leases.push((samples, lease.window));
    }
    let auto = |samples| WindowLimit::Auto { milliseconds: 2_000, samples };
    assert_eq!(leases[..2], [(32_000, auto(16_000)), (16_000, auto(8_000))]);
    assert_eq!(leases[5..], [(1_000, auto(1_000)), (1_000, auto(1_000))]);
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
