//! Leases: handed out by the run's rule and the worker's speed, taken back when their time is over.

use std::collections::VecDeque;
use std::time::Duration;

use kindling_shared::protocol::{
    Lease, LeaseId, Refusal, RejectCode, SampleRange, ToWorker, Verdict, WindowLimit, WorkerId, limits,
};

use super::ledger::Span;
use super::{Action, ConnectionId, Coordinator, Millis, Note, NoteKind};

pub(super) struct LeaseState {
    pub(super) worker: WorkerId,
    /// Spans whose commits have not come, in order.
    pub(super) spans: VecDeque<Span>,
    /// One verdict for each commit that came.
    pub(super) verdicts: Vec<Verdict>,
    pub(super) deadline: Millis,
    /// The deadline that a broken connection shortened; back in force when the worker resumes.
    pub(super) whole_deadline: Millis,
    /// When it was given, or its last commit came: what the worker's speed is measured from.
    pub(super) active_since: Millis,
}

impl LeaseState {
    pub(super) fn remaining(&self) -> u32 {
        self.spans.iter().map(Span::len).sum()
    }

    /// Takes `count` samples from the front; the lease must have that many.
    pub(super) fn take_front(&mut self, count: u32) -> Vec<Span> {
        let (mut taken, mut left) = (Vec::new(), count);
        while left > 0
            && let Some(span) = self.spans.pop_front()
        {
            let cut = span.end.min(span.start + left);
            left -= cut - span.start;
            taken.push(Span { end: cut, ..span });
            if cut < span.end {
                self.spans.push_front(Span { start: cut, ..span });
            }
        }
        taken
    }
}

/// What is left of an epoch, and how it is shared.
struct Share {
    /// Samples of an epoch, and those of them that nobody holds yet.
    epoch: u32,
    remaining: u32,
    workers: u32,
    batch: u32,
}

impl Share {
    /// The least that is worth an exchange, in samples: else an epoch would end in ever shorter leases.
    fn least(&self) -> u32 {
        const PARTS: u32 = 64;
        (self.epoch / (PARTS * self.workers)).max(self.batch)
    }

    /// The most of an `"auto"` window: a quarter of a worker's share of what is left, but not less than the least.
    fn window_samples(&self) -> u32 {
        (self.remaining / (4 * self.workers)).max(self.least())
    }

    /// Half of a worker's share of what is left, so that a slow worker does not hold up an epoch's end, in whole
    /// batches, and not less than the least. In whole windows where they are short beside an epoch: a lease's last window
    /// is cut off with it.
    fn lease_samples(&self, window: WindowLimit) -> u32 {
        let half = |samples: u32| samples.div_ceil(2 * self.workers).max(self.least());
        let unit = match window {
            WindowLimit::Steps(steps) if steps.saturating_mul(self.batch) <= half(self.epoch) => {
                (steps * self.batch).min(self.remaining.div_ceil(self.workers))
            }
            _ => self.batch,
        };
        half(self.remaining).next_multiple_of(unit.max(1)).div_ceil(self.batch).max(1) * self.batch
    }
}

impl Coordinator {
    pub(super) fn lease_requested(&mut self, worker: WorkerId, now: Millis, actions: &mut Vec<Action>) {
        let Some(member) = self.members.get(&worker) else {
            return;
        };
        if !member.admitted {
            let refusal = Refusal::new(RejectCode::NotAdmitted, "pass the self-test before asking for work");
            return self.expel(worker, refusal, actions);
        }
        if let Some(lease) = member.lease {
            // It asks although it has one: it has lost it.
            self.end_lease(lease, "its worker asked for another", actions);
        }
        if !self.grant(worker, now, actions) {
            self.waiting.insert(worker);
            let reason = "all samples of this epoch are out with other workers".to_owned();
            self.send(worker, ToWorker::NoWork(reason), actions);
        }
    }

    /// Gives work to those who wait for it, as far as there is some.
    pub(super) fn grant_waiting(&mut self, now: Millis, actions: &mut Vec<Action>) {
        let waiting: Vec<WorkerId> = self.waiting.iter().copied().collect();
        for worker in waiting {
            if !self.grant(worker, now, actions) {
                break;
            }
            self.waiting.remove(&worker);
        }
    }

    fn grant(&mut self, worker: WorkerId, now: Millis, actions: &mut Vec<Action>) -> bool {
        let workers = self.active_workers().max(1) as u32;
        let epoch = self.settings.shards.iter().map(|(_, samples)| samples).sum();
        let remaining = self.ledger.remaining_of_next();
        let share = Share { epoch, remaining, workers, batch: self.settings.batch_size };
        let window = self.settings.rule.window_limit(&self.settings.strategy, share.window_samples());
        let taken = self.ledger.take(share.lease_samples(window));
        if taken.is_empty() {
            return false;
        }
        let (spans, ranges) = self.within_one_message(taken);
        let samples = spans.iter().map(Span::len).sum();
        let id = LeaseId(self.next_lease);
        self.next_lease += 1;
        let time = self.lease_time(worker, samples);
        let lease = LeaseState {
            worker,
            spans: spans.into(),
            verdicts: Vec::new(),
            deadline: now + time,
            whole_deadline: now + time,
            active_since: now,
        };
        self.leases.insert(id, lease);
        if let Some(member) = self.members.get_mut(&worker) {
            member.lease = Some(id);
        }
        let lease = Lease { id, ranges, deadline_ms: time as u32, window };
        self.send(worker, ToWorker::Lease(lease), actions);
        true
    }

    /// As many of these spans as one message holds, and their ranges; the rest is free again.
    fn within_one_message(&mut self, taken: Vec<Span>) -> (Vec<Span>, Vec<SampleRange>) {
        let (mut spans, mut ranges) = (Vec::new(), Vec::new());
        for span in taken {
            let room = limits::LEASE_RANGES - ranges.len();
            let parts = self.ledger.shard_spans(span);
            let fits: u32 = parts.iter().take(room).map(|part| part.end - part.start).sum();
            ranges.extend(parts.into_iter().take(room).map(|part| SampleRange {
                epoch: span.epoch,
                shard: part.shard,
                hash: self.settings.shards[part.shard as usize].0,
                start: part.start,
                end: part.end,
            }));
            let cut = span.start + fits;
            if fits > 0 {
                spans.push(Span { end: cut, ..span });
            }
            if cut < span.end {
                self.ledger.put_back(Span { start: cut, ..span });
            }
        }
        (spans, ranges)
    }

    /// Milliseconds that a worker gets for so many samples.
    pub(super) fn lease_time(&self, worker: WorkerId, samples: u32) -> Millis {
        let speed = self.members.get(&worker).and_then(|member| member.speed);
        let time = speed.map_or(limits::LEASE_UNKNOWN_SPEED, |speed| {
            let expected = f64::from(samples) / speed * f64::from(limits::LEASE_SLACK);
            Duration::from_secs_f64(expected.min(limits::LEASE_LONGEST.as_secs_f64()))
        });
        time.clamp(limits::LEASE_SHORTEST, limits::LEASE_LONGEST).as_millis() as Millis
    }

    /// Whether a connection's worker is admitted and holds this lease.
    pub fn holds_lease(&self, connection: ConnectionId, lease: LeaseId) -> bool {
        let member = self.connections.get(&connection).and_then(|worker| self.members.get(worker));
        member.is_some_and(|member| member.admitted && member.lease == Some(lease))
    }

    /// Moves a lease's deadline on to `until`, when the connection's worker holds it and it ends earlier.
    pub fn keep_lease(&mut self, connection: ConnectionId, lease: LeaseId, until: Millis) {
        if self.holds_lease(connection, lease)
            && let Some(lease) = self.leases.get_mut(&lease)
        {
            lease.deadline = lease.deadline.max(until);
            lease.whole_deadline = lease.whole_deadline.max(until);
        }
    }

    pub(super) fn released(&mut self, worker: WorkerId, lease: LeaseId, actions: &mut Vec<Action>) {
        if self.leases.get(&lease).is_some_and(|state| state.worker == worker) {
            self.end_lease(lease, "its worker gave it back", actions);
        }
    }

    pub(super) fn expire_leases(&mut self, now: Millis, actions: &mut Vec<Action>) {
        let late: Vec<LeaseId> =
            self.leases.iter().filter(|(_, lease)| lease.deadline <= now).map(|(id, _)| *id).collect();
        for id in late {
            let gone = self.leases.get(&id).and_then(|lease| self.members.get(&lease.worker));
            let reason = if gone.is_some_and(|member| member.connection.is_none()) {
                "its worker did not come back"
            } else {
                "its deadline passed"
            };
            self.end_lease(id, reason, actions);
        }
    }

    /// Ends a lease: what it did not cover is free again. Its verdicts stay with its worker, for resends.
    pub(super) fn end_lease(&mut self, id: LeaseId, reason: &str, actions: &mut Vec<Action>) {
        let Some(lease) = self.leases.remove(&id) else {
            return;
        };
        let remaining = lease.remaining();
        for span in lease.spans {
            self.ledger.put_back(span);
        }
        if let Some(member) = self.members.get_mut(&lease.worker) {
            member.lease = None;
            member.previous = Some((id, lease.verdicts));
        }
        if remaining > 0 {
            let reason = format!("{remaining} samples are free again: {reason}");
            actions.push(Action::Note(Note::of(lease.worker, NoteKind::LeaseReturned, reason)));
        }
    }
}
