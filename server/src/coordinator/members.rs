//! Membership: who is here, who was here, who comes back.

use kindling_shared::protocol::{
    Backend, Capabilities, Refusal, RejectCode, Resume, ToWorker, Welcome, WorkerId, close, limits,
};

use super::{Action, ConnectionId, ContributorId, Coordinator, Member, Millis, Note, NoteKind, farewell};

/// Workers remembered at most; above it, the ones that are gone and gave nothing are forgotten.
const MOST_MEMBERS: usize = 10_000;

impl Coordinator {
    #[expect(clippy::too_many_arguments, reason = "the fields of one event")]
    pub(super) fn hello(
        &mut self,
        connection: ConnectionId,
        contributor: ContributorId,
        resume: Option<Resume>,
        capabilities: Capabilities,
        fresh_secret: [u8; 16],
        now: Millis,
        actions: &mut Vec<Action>,
    ) {
        if self.finished {
            actions.push(Action::Send(connection, ToWorker::RunEnded("every epoch is done".into())));
            actions.push(Action::Close(connection, close::RUN_ENDED, "the run has ended".into()));
            return;
        }
        let known = resume.as_ref().filter(|resume| self.may_resume(contributor, resume)).map(|resume| resume.worker);
        if let Some(refusal) = self.no_room(known) {
            return farewell(connection, refusal, actions);
        }
        let worker = match known {
            Some(worker) => {
                self.supersede(worker, actions);
                let held = resume.and_then(|resume| resume.lease);
                self.resumed(worker, connection, capabilities, held, now, actions);
                worker
            }
            None => self.joined(connection, contributor, capabilities, fresh_secret, now, actions),
        };
        self.connections.insert(connection, worker);
        let Some(member) = self.members.get(&worker) else {
            return;
        };
        let welcome = Welcome {
            plan: self.settings.plan.clone(),
            schema: self.settings.schema,
            worker,
            resume_secret: member.secret,
            admitted: member.admitted,
            lease_kept: member.lease.is_some(),
        };
        let admitted = member.admitted;
        actions.push(Action::Send(connection, ToWorker::Welcome(welcome)));
        if !admitted {
            actions.push(Action::Send(connection, ToWorker::SelfTest(self.settings.self_test_seed)));
        }
    }

    fn may_resume(&self, contributor: ContributorId, resume: &Resume) -> bool {
        let member = self.members.get(&resume.worker);
        member.is_some_and(|member| member.contributor == contributor && member.secret == resume.secret)
    }

    fn no_room(&mut self, known: Option<WorkerId>) -> Option<Refusal> {
        let others =
            self.members.iter().filter(|(id, member)| member.connection.is_some() && Some(**id) != known).count();
        if self.settings.rule.most_workers.is_some_and(|most| others >= most) {
            let reason = format!("rule {:?} takes one worker at a time", self.settings.rule.name);
            return Some(Refusal::new(RejectCode::RunFull, reason));
        }
        if self.members.len() >= MOST_MEMBERS {
            let leases = &self.leases;
            self.members.retain(|id, member| {
                member.connection.is_some() || member.credit > 0 || leases.values().any(|lease| lease.worker == *id)
            });
        }
        (known.is_none() && self.members.len() >= MOST_MEMBERS)
            .then(|| Refusal::new(RejectCode::RunFull, format!("this run has {MOST_MEMBERS} workers")))
    }

    /// A newer connection of the same worker takes over; the older one is told why.
    fn supersede(&mut self, worker: WorkerId, actions: &mut Vec<Action>) {
        if let Some(old) = self.members.get_mut(&worker).and_then(|member| member.connection.take()) {
            self.connections.remove(&old);
            farewell(old, Refusal::new(RejectCode::Superseded, "a newer connection of this worker took over"), actions);
        }
    }

    fn resumed(
        &mut self,
        worker: WorkerId,
        connection: ConnectionId,
        capabilities: Capabilities,
        held: Option<kindling_shared::protocol::LeaseId>,
        now: Millis,
        actions: &mut Vec<Action>,
    ) {
        self.waiting.remove(&worker);
        let lease = self.members.get(&worker).and_then(|member| member.lease);
        if let Some(id) = lease.filter(|_| lease != held) {
            self.end_lease(id, "its worker came back without it", actions);
        }
        if let Some(lease) = lease.filter(|_| lease == held).and_then(|id| self.leases.get_mut(&id)) {
            // Never later than it was: coming back again and again must not hold samples for ever.
            lease.deadline = lease.whole_deadline;
        }
        let Some(member) = self.members.get_mut(&worker) else {
            return;
        };
        member.connection = Some(connection);
        member.heard_at = now;
        if member.capabilities != capabilities {
            member.admitted = false;
            member.unproven_since = now;
        }
        member.capabilities = capabilities;
        let reason = format!("it came back on {}", device(&member.capabilities));
        actions.push(Action::Note(Note::of(worker, NoteKind::WorkerResumed, reason)));
    }

    fn joined(
        &mut self,
        connection: ConnectionId,
        contributor: ContributorId,
        capabilities: Capabilities,
        secret: [u8; 16],
        now: Millis,
        actions: &mut Vec<Action>,
    ) -> WorkerId {
        let worker = WorkerId(self.next_worker);
        self.next_worker += 1;
        let reason = format!("it trains on {}", device(&capabilities));
        actions.push(Action::Note(Note::of(worker, NoteKind::WorkerJoined, reason)));
        let member = Member {
            contributor,
            secret,
            connection: Some(connection),
            capabilities,
            admitted: false,
            unproven_since: now,
            lease: None,
            previous: None,
            joined_at: now,
            heard_at: now,
            speed: None,
            credit: 0,
            accepted: 0,
            rejected: 0,
            refused_in_a_row: 0,
            staleness: None,
            loss: None,
            last_refusal: None,
        };
        self.members.insert(worker, member);
        worker
    }

    pub(super) fn self_tested(&mut self, worker: WorkerId, result: Result<(), String>, actions: &mut Vec<Action>) {
        match result {
            Ok(()) => {
                if let Some(member) = self.members.get_mut(&worker) {
                    member.admitted = true;
                }
                self.send(worker, ToWorker::Admitted(()), actions);
                let reason = "its gradient agrees with the server's";
                actions.push(Action::Note(Note::of(worker, NoteKind::WorkerAdmitted, reason)));
            }
            Err(what) => {
                let reason = format!("this device computes wrongly: {what}");
                self.expel(worker, Refusal::new(RejectCode::SelfTestFailed, reason), actions);
            }
        }
    }

    /// A device that answers no self-test must not keep a place from others.
    pub(super) fn expel_unproven(&mut self, now: Millis, actions: &mut Vec<Action>) {
        let limit = limits::SELF_TEST.as_millis() as Millis;
        let late =
            |member: &Member| member.connection.is_some() && !member.admitted && now >= member.unproven_since + limit;
        let workers: Vec<WorkerId> =
            self.members.iter().filter(|(_, member)| late(member)).map(|(id, _)| *id).collect();
        for worker in workers {
            let reason = format!("no answer to the self-test for {} s", limits::SELF_TEST.as_secs());
            self.expel(worker, Refusal::new(RejectCode::SelfTestFailed, reason), actions);
        }
    }

    /// Refuses a worker: it is told why, its socket closes, its lease is free.
    pub(super) fn expel(&mut self, worker: WorkerId, refusal: Refusal, actions: &mut Vec<Action>) {
        actions.push(Action::Note(Note::of(worker, NoteKind::WorkerRefused, refusal.reason.clone())));
        if let Some(member) = self.members.get_mut(&worker) {
            member.last_refusal = Some(refusal.clone());
            if let Some(connection) = member.connection {
                farewell(connection, refusal, actions);
            }
        }
        self.disconnect(worker);
        self.end_lease_of(worker, "its worker was refused", actions);
    }

    pub(super) fn left(&mut self, worker: WorkerId, reason: &str, actions: &mut Vec<Action>) {
        self.disconnect(worker);
        actions.push(Action::Note(Note::of(worker, NoteKind::WorkerLeft, reason)));
        self.end_lease_of(worker, reason, actions);
    }

    /// The socket is gone; the worker may come back, so it keeps its lease for a while.
    pub(super) fn closed(&mut self, worker: WorkerId, reason: &str, now: Millis, actions: &mut Vec<Action>) {
        self.disconnect(worker);
        actions.push(Action::Note(Note::of(worker, NoteKind::WorkerLeft, reason)));
        let lease = self.members.get(&worker).and_then(|member| member.lease);
        if let Some(lease) = lease.and_then(|lease| self.leases.get_mut(&lease)) {
            lease.deadline = lease.deadline.min(now + limits::RESUME_GRACE.as_millis() as Millis);
        }
    }

    fn end_lease_of(&mut self, worker: WorkerId, reason: &str, actions: &mut Vec<Action>) {
        if let Some(lease) = self.members.get(&worker).and_then(|member| member.lease) {
            self.end_lease(lease, reason, actions);
        }
    }

    fn disconnect(&mut self, worker: WorkerId) {
        self.waiting.remove(&worker);
        if let Some(connection) = self.members.get_mut(&worker).and_then(|member| member.connection.take()) {
            self.connections.remove(&connection);
        }
    }
}

/// The device in words.
fn device(capabilities: &Capabilities) -> String {
    let adapter = if capabilities.adapter.is_empty() { "unnamed" } else { &capabilities.adapter };
    match (capabilities.backend, capabilities.software) {
        (Backend::Cpu, _) => format!("the CPU ({adapter})"),
        (Backend::Webgpu, false) => format!("WebGPU ({adapter})"),
        (Backend::Webgpu, true) => format!("WebGPU on a software adapter ({adapter})"),
    }
}
