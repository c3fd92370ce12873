//! Leases and windows: what to train on next.

use std::sync::Arc;

use bytes::Bytes;

use super::ahead::{LateCentre, steps_ahead};
use super::{Action, Job, Millis, Progress, Session};
use crate::data::{BatchSource, Shard};
use crate::params::Layout;
use crate::protocol::{Lease, LeaseId, SampleRange, ShardHash, ToServer, TroubleKind, WindowLimit};
use crate::random::permutation;
use crate::run::RunPlan;

/// Steps of the first `"auto"` window, when the device's speed is unknown.
const FIRST_STEPS: u32 = 2;

/// A window to train.
#[derive(Debug)]
pub struct WindowOrder {
    /// Tells this window from abandoned ones.
    pub number: u64,
    /// The run, for a shell that has no trainer yet.
    pub plan: Arc<RunPlan>,
    /// Its layout.
    pub layout: Arc<Layout>,
    /// Parameters to load first; absent: go on from the device's own.
    pub load: Option<Arc<Vec<f32>>>,
    /// The centre that has not arrived yet: the device's own parameters are moved when it does.
    pub late_centre: Option<LateCentre>,
    /// True when the optimizer must forget its moments first.
    pub fresh_optimizer: bool,
    /// What to train on: every batch once, in order.
    pub source: BatchSource,
}

struct ActiveLease {
    lease: Lease,
    /// When the server gives its samples to others; accepted commits move it on, here as there.
    expires: Millis,
    /// Samples of the lease that windows have begun with.
    taken: u32,
    /// The next commit's sequence.
    sequence: u32,
}

impl ActiveLease {
    fn samples(&self) -> u32 {
        self.lease.ranges.iter().map(SampleRange::len).sum()
    }

    fn remaining(&self) -> u32 {
        self.samples() - self.taken
    }
}

#[derive(Default)]
pub(super) struct Work {
    lease: Option<ActiveLease>,
    asked: bool,
    /// The number of the window at work.
    window: Option<u64>,
    windows_begun: u64,
    steps_per_second: Option<f64>,
}

impl Work {
    pub(super) fn lease_id(&self) -> Option<LeaseId> {
        self.lease.as_ref().map(|active| active.lease.id)
    }

    pub(super) const fn has_lease(&self) -> bool {
        self.lease.is_some()
    }

    pub(super) const fn is_training(&self) -> bool {
        self.window.is_some()
    }

    /// True when the server said that there is no work.
    pub(super) const fn is_told_to_wait(&self, progress: &Progress) -> bool {
        self.asked && progress.waiting_for.is_some()
    }

    /// Ends the lease on this side; returns it when the server must be told.
    pub(super) fn drop_lease(&mut self) -> Option<LeaseId> {
        self.lease.take().map(|active| active.lease.id)
    }

    /// The lease is gone at the server: there is nothing to release.
    pub(super) fn forget_lease(&mut self) {
        self.lease = None;
    }

    /// The same, if it is this one.
    pub(super) fn forget_this_lease(&mut self, id: LeaseId) {
        self.lease.take_if(|active| active.lease.id == id);
    }

    /// Returns true when there was a window at work.
    pub(super) fn drop_window(&mut self) -> bool {
        self.window.take().is_some()
    }

    pub(super) const fn requests_lost(&mut self) {
        self.asked = false;
    }

    /// What a commit needs of the lease: its id and the commit's sequence, which advances. With the commit of its last
    /// window a lease is used up: the next one may be asked for before the verdict is there.
    pub(super) fn next_commit(&mut self) -> Option<(LeaseId, u32)> {
        let active = self.lease.as_mut()?;
        let id = (active.lease.id, active.sequence);
        active.sequence += 1;
        if active.remaining() == 0 {
            self.lease = None;
        }
        Some(id)
    }

    /// An accepted commit moves the deadline on.
    pub(super) fn renew_lease(&mut self, id: LeaseId, now: Millis) {
        if let Some(active) = self.lease.as_mut().filter(|active| active.lease.id == id) {
            active.expires = now + Millis::from(active.lease.deadline_ms);
        }
    }

    /// True when the lease's samples went to others, or will at once.
    pub(super) fn is_late(&self, now: Millis) -> bool {
        self.lease.as_ref().is_some_and(|active| now >= active.expires)
    }
}

impl Session {
    /// Asks for whatever is missing and not asked for yet: right behind a commit, so that an exchange costs one round
    /// trip.
    pub(super) fn ask(&mut self) {
        if !self.work.has_lease() && !self.work.asked && !self.work.is_training() {
            self.work.asked = true;
            self.send(&ToServer::LeaseRequest(()));
        }
        if self.exchange.wants_pull() {
            self.exchange.pull_sent();
            self.send(&ToServer::Pull(()));
        }
        self.fetch_missing_shards();
    }

    fn fetch_missing_shards(&mut self) {
        let Some(active) = &self.work.lease else {
            return;
        };
        for range in &active.lease.ranges {
            if self.shards.request(range.hash) {
                self.actions.push(Action::FetchShard(range.hash));
            }
        }
    }

    pub(super) fn leased(&mut self, lease: Lease, now: Millis) {
        self.work.asked = false;
        self.progress.waiting_for = None;
        if self.paused || self.ended || self.work.has_lease() {
            return self.send(&ToServer::Release(lease.id));
        }
        let expires = now + Millis::from(lease.deadline_ms);
        self.work.lease = Some(ActiveLease { lease, expires, taken: 0, sequence: 0 });
    }

    pub(super) fn shard_arrived(&mut self, hash: ShardHash, bytes: &Bytes, now: Millis) {
        self.progress.bytes_in += bytes.len() as u64;
        if ShardHash::of(bytes) != hash {
            return self.shard_failed(hash, "its bytes are not those that its hash names", now);
        }
        match Shard::decode(bytes) {
            Ok(shard) => {
                let lease = self.work.lease.as_ref();
                let needed = |hash: &ShardHash| {
                    lease.is_some_and(|active| active.lease.ranges.iter().any(|range| range.hash == *hash))
                };
                self.shards.insert(hash, shard, needed);
            }
            Err(error) => self.shard_failed(hash, &error.to_string(), now),
        }
    }

    /// Without its data a lease is of no use: it goes back, and the worker comes again after a while.
    pub(super) fn shard_failed(&mut self, hash: ShardHash, reason: &str, now: Millis) {
        let detail = format!("shard {hash} cannot be had: {reason}");
        let failures = self.shards.failed(&hash);
        if !self.link.is_open() {
            // One break of the network fails many fetches: the link's own attempts go on, or rest, as they are.
            return;
        }
        self.trouble(TroubleKind::Shard, &detail);
        self.drop_work();
        self.hang_up(Some(now + 1_000 * Millis::from(failures.min(30))));
    }

    /// A lease whose deadline passed here (a fetch that hangs, a device that slept) is given up: it asks for another.
    pub(super) fn give_up_late_work(&mut self, now: Millis) {
        if self.work.is_late(now) && !self.exchange.is_pending() {
            self.shards.forget_requests();
            self.drop_work();
        }
    }

    /// Begins the next window when lease, shards and centre are all there; the centre may be on its way still.
    pub(super) fn begin_window(&mut self) {
        if self.work.is_training() {
            return;
        }
        let (Some(joined), Some(active)) = (&self.joined, &mut self.work.lease) else {
            return;
        };
        let late = self.exchange.is_pending() || !self.exchange.has_centre();
        if late && !self.exchange.may_run_ahead() {
            return;
        }
        let batch_size = joined.plan.worker.batch_size;
        let steps = window_steps(active.lease.window, batch_size, self.work.steps_per_second);
        let samples = active.remaining().min(steps.saturating_mul(batch_size));
        let steps = samples.div_ceil(batch_size);
        if late && steps_ahead(steps) == 0 {
            return;
        }
        let Some(order) = sample_order(&active.lease.ranges, active.taken, samples, &joined.plan, |hash| {
            self.shards.get(hash).cloned()
        }) else {
            return;
        };
        active.taken += samples;
        self.work.windows_begun += 1;
        self.work.window = Some(self.work.windows_begun);
        let (load, late_centre) =
            if late { (None, self.exchange.run_ahead(steps)) } else { (self.exchange.take_load(), None) };
        self.actions.push(Action::Compute(Job::Window(WindowOrder {
            number: self.work.windows_begun,
            plan: Arc::clone(&joined.plan),
            layout: Arc::clone(&joined.layout),
            fresh_optimizer: load.is_some() && (!joined.worker_half.pulls() || self.exchange.take_diverged()),
            load,
            late_centre,
            source: BatchSource::new(order, batch_size, joined.plan.data.transforms.clone().into()),
        })));
    }

    /// True when `number` is the window at work, which it then no longer is.
    pub(super) fn take_window(&mut self, number: u64) -> bool {
        let current = self.work.window == Some(number);
        if current {
            self.work.window = None;
        }
        current
    }

    /// Averages over the last windows: a window that compiled shaders must not decide alone.
    pub(super) fn measured(&mut self, steps: u32, compute_ms: u32) {
        let measured = f64::from(steps) * 1e3 / f64::from(compute_ms.max(1));
        let speed = self.work.steps_per_second.map_or(measured, |before| f64::midpoint(before, measured));
        self.work.steps_per_second = Some(speed);
        self.progress.steps_per_second = speed;
    }
}

fn window_steps(limit: WindowLimit, batch_size: u32, steps_per_second: Option<f64>) -> u32 {
    match limit {
        WindowLimit::Steps(steps) => steps.max(1),
        WindowLimit::Lease => u32::MAX,
        WindowLimit::Auto { milliseconds, samples } => {
            let most = (samples / batch_size.max(1)).max(1);
            let aim = steps_per_second.map_or(FIRST_STEPS, |speed| (speed * f64::from(milliseconds) / 1e3) as u32);
            aim.clamp(1, most)
        }
    }
}

/// The lease's samples from `skip` on, `count` of them, in the order that seed, epoch and shard give; `None` while a
/// shard is missing or a range does not fit its shard.
fn sample_order(
    ranges: &[SampleRange],
    skip: u32,
    count: u32,
    plan: &RunPlan,
    shard_of: impl Fn(&ShardHash) -> Option<Arc<Shard>>,
) -> Option<Vec<(Arc<Shard>, u32)>> {
    let mut order = Vec::with_capacity(count as usize);
    let (mut skip, mut left) = (skip, count);
    for range in ranges {
        let (skipped, len) = (skip.min(range.len()), range.len());
        skip -= skipped;
        let taken = left.min(len - skipped);
        left -= taken;
        if taken == 0 {
            continue;
        }
        let shard = shard_of(&range.hash)?;
        let inside =
            permutation(shard.len() as u32, plan.seed, "shard", &[u64::from(range.epoch), u64::from(range.shard)]);
        let first = (range.start + skipped) as usize;
        let places = inside.get(first..first + taken as usize)?;
        order.extend(places.iter().map(|&place| (Arc::clone(&shard), place)));
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_auto_window_follows_the_device_and_stays_within_its_share() {
        let auto = |samples| WindowLimit::Auto { milliseconds: 2_000, samples };
        assert_eq!(window_steps(auto(6_400), 32, None), FIRST_STEPS);
        assert_eq!(window_steps(auto(6_400), 32, Some(20.0)), 40);
        assert_eq!(window_steps(auto(6_400), 32, Some(2_000.0)), 200);
        assert_eq!(window_steps(auto(10), 32, Some(2_000.0)), 1);
        assert_eq!(window_steps(auto(6_400), 32, Some(0.1)), 1);
        assert_eq!(window_steps(WindowLimit::Steps(7), 32, Some(0.1)), 7);
    }

    #[test]
    fn a_lease_is_used_up_with_the_commit_of_its_last_window() {
        let range = SampleRange { epoch: 0, shard: 0, hash: ShardHash([0; 32]), start: 0, end: 64 };
        let lease = Lease { id: LeaseId(5), ranges: vec![range], deadline_ms: 1_000, window: WindowLimit::Steps(1) };
        let active = ActiveLease { lease, expires: 1_000, taken: 32, sequence: 0 };
        let mut work = Work { lease: Some(active), ..Work::default() };
        assert_eq!(work.next_commit(), Some((LeaseId(5), 0)));
        work.forget_this_lease(LeaseId(4));
        assert!(work.has_lease(), "half of it is left");
        work.lease.as_mut().expect("a lease").taken = 64;
        assert_eq!(work.next_commit(), Some((LeaseId(5), 1)));
        assert!(!work.has_lease());
        assert_eq!(work.next_commit(), None);
    }
}
