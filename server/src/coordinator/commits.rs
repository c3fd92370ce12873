//! Commits: the gates that a stranger's commit must pass, cheapest first, and what follows when it does.

use kindling_shared::protocol::{CommitHeader, Refusal, RejectCode, ToWorker, Verdict, WorkerId, close, limits};
use kindling_shared::strategy::staleness_bound;

use super::ledger::Span;
use super::note::counted;
use super::{Action, ContributorId, Coordinator, Millis, Note, NoteKind};

/// Weight of the newest measurement in a worker's speed.
const SPEED_WEIGHT: f64 = 0.3;

impl Coordinator {
    pub(super) fn commit(
        &mut self,
        worker: WorkerId,
        header: &CommitHeader,
        checked: Result<(), Refusal>,
        now: Millis,
        actions: &mut Vec<Action>,
    ) {
        if let Some(first) = self.first_verdict(worker, header) {
            return self.send(worker, ToWorker::Verdict(first), actions);
        }
        match self.admit(worker, header, checked) {
            Ok(staleness) => self.accept(worker, header, staleness, now, actions),
            Err(refusal) => self.reject(worker, header, refusal, actions),
        }
        self.close_lease_when_covered(worker, actions);
    }

    /// A resend gets the first verdict again.
    fn first_verdict(&self, worker: WorkerId, header: &CommitHeader) -> Option<Verdict> {
        let member = self.members.get(&worker)?;
        let verdicts = match (&member.previous, self.leases.get(&header.id.lease)) {
            (_, Some(lease)) if lease.worker == worker => &lease.verdicts,
            (Some((id, verdicts)), _) if *id == header.id.lease => verdicts,
            _ => return None,
        };
        verdicts.get(header.id.sequence as usize).cloned()
    }

    /// The gates. Returns the commit's staleness.
    fn admit(&self, worker: WorkerId, header: &CommitHeader, checked: Result<(), Refusal>) -> Result<u64, Refusal> {
        if !self.members.get(&worker).is_some_and(|member| member.admitted) {
            return Err(Refusal::new(RejectCode::NotAdmitted, "pass the self-test before committing"));
        }
        let previous = self.members.get(&worker).and_then(|member| member.previous.as_ref());
        let lease = self.leases.get(&header.id.lease).filter(|lease| lease.worker == worker).ok_or_else(|| {
            if previous.is_some_and(|(id, _)| *id == header.id.lease) {
                Refusal::new(RejectCode::LeaseExpired, "the lease has ended, and its samples went to others")
            } else {
                Refusal::new(RejectCode::UnknownLease, "this worker holds no such lease")
            }
        })?;
        let expected = lease.verdicts.len() as u32;
        if header.id.sequence != expected {
            let reason = format!("the lease's next commit is number {expected}, not {}", header.id.sequence);
            return Err(Refusal::new(RejectCode::OutOfOrder, reason));
        }
        if header.samples == 0 || header.samples > lease.remaining() || header.steps == 0 {
            let reason = format!(
                "{} steps over {} samples, but the lease has {} left",
                header.steps,
                header.samples,
                lease.remaining()
            );
            return Err(Refusal::new(RejectCode::WrongSamples, reason));
        }
        if header.elements != self.settings.elements {
            let reason = format!("{} elements for a model of {}", header.elements, self.settings.elements);
            return Err(Refusal::new(RejectCode::WrongLength, reason));
        }
        checked?;
        if !(0.0..=limits::LARGEST_VALUE).contains(&header.loss) {
            let reason = format!("a loss of {} is none", header.loss);
            return Err(Refusal::new(RejectCode::NotFinite, reason));
        }
        if header.base.generation != self.version.generation {
            let reason =
                format!("the base is of generation {}, this is {}", header.base.generation, self.version.generation);
            return Err(Refusal::new(RejectCode::StaleGeneration, reason));
        }
        let staleness = self.version.number.checked_sub(header.base.number).ok_or_else(|| {
            let reason = format!("the base is version {}, the newest is {}", header.base, self.version);
            Refusal::new(RejectCode::UnknownBase, reason)
        })?;
        let bound = staleness_bound(self.active_workers());
        if staleness > bound {
            let reason =
                format!("the base is {staleness} versions behind, the bound is {bound}: take the newest centre");
            return Err(Refusal::new(RejectCode::Stale, reason));
        }
        Ok(staleness)
    }

    fn accept(
        &mut self,
        worker: WorkerId,
        header: &CommitHeader,
        staleness: u64,
        now: Millis,
        actions: &mut Vec<Action>,
    ) {
        self.version.number += 1;
        actions.push(Action::Apply { staleness });
        self.counts.accepted += 1;
        *self.staleness.entry(staleness).or_default() += 1;
        let Some(member) = self.members.get_mut(&worker) else {
            return;
        };
        member.accepted += 1;
        member.refused_in_a_row = 0;
        member.credit += u64::from(header.samples);
        member.staleness = Some(staleness);
        member.loss = Some(header.loss);
        let credit = member.credit;
        let (mut closed, mut first_shard) = (Vec::new(), None);
        if let Some(lease) = self.leases.get_mut(&header.id.lease) {
            let seconds = (now.saturating_sub(lease.active_since)).max(1) as f64 / 1e3;
            let measured = f64::from(header.samples) / seconds;
            let speed = member.speed.map_or(measured, |before| before + SPEED_WEIGHT * (measured - before));
            member.speed = Some(speed);
            for span in lease.take_front(header.samples) {
                first_shard = first_shard.or(self.ledger.shard_spans(span).first().map(|part| part.shard));
                closed.extend(self.ledger.complete(span));
            }
        }
        let verdict = Verdict::Accepted { id: header.id, version: self.version, staleness, credit };
        self.renew(worker, header, now);
        self.answer(worker, verdict, actions);
        let (samples, steps) = (u64::from(header.samples), u64::from(header.steps));
        let reason = format!(
            "{} in {}, {} behind",
            counted(samples, "sample"),
            counted(steps, "step"),
            counted(staleness, "version")
        );
        let note = Note { shard: first_shard, ..Note::of(worker, NoteKind::CommitAccepted, reason) };
        actions.push(Action::Note(note));
        self.epochs_closed(&closed, actions);
    }

    fn reject(&mut self, worker: WorkerId, header: &CommitHeader, refusal: Refusal, actions: &mut Vec<Action>) {
        self.counts.rejected += 1;
        *self.counts.by_code.entry(refusal.code).or_default() += 1;
        let Some(member) = self.members.get_mut(&worker) else {
            return;
        };
        member.rejected += 1;
        member.last_refusal = Some(refusal.clone());
        let contributor = member.contributor;
        let (code, reason) = (refusal.code, refusal.reason.clone());
        let next = self
            .leases
            .get_mut(&header.id.lease)
            .filter(|lease| lease.worker == worker && lease.verdicts.len() as u32 == header.id.sequence);
        let verdict = Verdict::Rejected { id: header.id, refusal };
        actions.push(Action::Note(Note::of(worker, NoteKind::CommitRejected, reason)));
        let Some(lease) = next else {
            return self.send(worker, ToWorker::Verdict(verdict), actions);
        };
        // The worker has moved on past these samples: they are free for whoever asks next.
        let dropped = lease.take_front(header.samples.min(lease.remaining()));
        self.answer(worker, verdict, actions);
        if code == RejectCode::WrongSamples {
            self.end_lease(header.id.lease, "a commit counted its samples wrongly", actions);
        }
        if code.is_about_content() {
            self.give_up_hopeless(dropped, contributor, actions);
            self.send_away_hopeless(worker, actions);
        } else {
            for span in dropped {
                self.ledger.put_back(span);
            }
        }
    }

    /// Samples that three different contributors fail over are closed: they would keep the run from its end.
    fn give_up_hopeless(&mut self, dropped: Vec<Span>, contributor: ContributorId, actions: &mut Vec<Action>) {
        let (mut given_up, mut closed) = (0, Vec::new());
        for span in dropped {
            let (samples, epochs) = self.ledger.refuse(span, contributor);
            given_up += samples;
            closed.extend(epochs);
        }
        if given_up > 0 {
            let samples = counted(u64::from(given_up), "sample");
            let reason = format!("{samples} given up: three contributors' results over them could not be used");
            actions.push(Action::Note(Note::run(NoteKind::SamplesGivenUp, reason)));
        }
        self.epochs_closed(&closed, actions);
    }

    /// One refusal is never a ban; many in a row say that this device, or this run, does not get anywhere.
    fn send_away_hopeless(&mut self, worker: WorkerId, actions: &mut Vec<Action>) {
        let Some(member) = self.members.get_mut(&worker) else {
            return;
        };
        member.refused_in_a_row += 1;
        if member.refused_in_a_row >= limits::REFUSED_IN_A_ROW {
            member.refused_in_a_row = 0;
            let reason = format!("{} results in a row could not be used", limits::REFUSED_IN_A_ROW);
            self.expel(worker, Refusal::new(RejectCode::TooManyRefused, reason), actions);
        }
    }

    /// An accepted commit moves its lease's deadline on.
    fn renew(&mut self, worker: WorkerId, header: &CommitHeader, now: Millis) {
        let remaining = self.leases.get(&header.id.lease).map_or(0, super::leases::LeaseState::remaining);
        let deadline = now + self.lease_time(worker, remaining);
        if let Some(lease) = self.leases.get_mut(&header.id.lease) {
            lease.deadline = deadline;
            lease.whole_deadline = deadline;
            lease.active_since = now;
        }
    }

    /// Sends a verdict and remembers it.
    fn answer(&mut self, worker: WorkerId, verdict: Verdict, actions: &mut Vec<Action>) {
        let (Verdict::Accepted { id, .. } | Verdict::Rejected { id, .. }) = &verdict;
        if let Some(lease) = self.leases.get_mut(&id.lease) {
            lease.verdicts.push(verdict.clone());
        }
        self.send(worker, ToWorker::Verdict(verdict), actions);
    }

    fn close_lease_when_covered(&mut self, worker: WorkerId, actions: &mut Vec<Action>) {
        let lease = self.members.get(&worker).and_then(|member| member.lease);
        if let Some(id) = lease.filter(|id| self.leases.get(id).is_some_and(|lease| lease.spans.is_empty())) {
            self.end_lease(id, "", actions);
        }
    }

    fn epochs_closed(&mut self, closed: &[u32], actions: &mut Vec<Action>) {
        for epoch in closed {
            actions.push(Action::EpochClosed(*epoch));
            let reason = format!("epoch {} of {} is done", epoch + 1, self.settings.epochs);
            actions.push(Action::Note(Note::run(NoteKind::EpochClosed, reason)));
        }
        if self.ledger.is_full() && !self.finished {
            self.finished = true;
            actions.push(Action::Finished);
            for connection in self.connections.keys() {
                actions.push(Action::Send(*connection, ToWorker::RunEnded("every epoch is done".into())));
                actions.push(Action::Close(*connection, close::RUN_ENDED, "the run has ended".into()));
            }
        }
    }
}
