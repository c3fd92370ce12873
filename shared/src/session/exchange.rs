//! The exchange at a window's end: the commit out, the verdict and the newest centre in.

use std::sync::Arc;

use bytes::Bytes;

use super::ahead::{Awaited, LateCentre, await_centre};
use super::{Action, Millis, Session, Transfer};
use crate::params::{Assembler, Encoded};
use crate::protocol::{
    Advice, Backend, CommitHeader, CommitId, LeaseId, SnapshotHeader, TensorChunk, ToServer, Verdict, Version,
};
use crate::trainer::WindowResult;

/// The centre as a worker has it.
pub(super) struct Centre {
    pub(super) version: Version,
    pub(super) parameters: Arc<Vec<f32>>,
}

struct Pending {
    id: CommitId,
    frames: Vec<Bytes>,
}

#[derive(Default)]
pub(super) struct Exchange {
    centre: Option<Centre>,
    incoming: Option<(SnapshotHeader, Assembler)>,
    /// The commit that waits for its verdict.
    pending: Option<Pending>,
    pull_sent: bool,
    /// The centre must be loaded before the next window.
    load: bool,
    /// Where the device stands after the window whose commit is pending: the next one may go on from there.
    pushed: Option<Vec<f32>>,
    /// The last result could not be used: the next window begins with a fresh optimizer.
    diverged: bool,
    /// The window at work runs ahead of this centre.
    awaited: Option<Awaited>,
}

impl Exchange {
    pub(super) const fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// The lease of the commit that waits for its verdict.
    pub(super) fn pending_lease(&self) -> Option<LeaseId> {
        self.pending.as_ref().map(|pending| pending.id.lease)
    }

    pub(super) const fn has_centre(&self) -> bool {
        self.centre.is_some()
    }

    pub(super) const fn wants_pull(&self) -> bool {
        self.centre.is_none() && !self.pull_sent
    }

    pub(super) const fn pull_sent(&mut self) {
        self.pull_sent = true;
    }

    pub(super) fn drop_commit(&mut self) {
        self.pending = None;
    }

    pub(super) fn drop_centre(&mut self) {
        self.centre = None;
    }

    pub(super) const fn may_run_ahead(&self) -> bool {
        self.pushed.is_some()
    }

    /// For a window of so many steps that begins before its centre is there.
    pub(super) fn run_ahead(&mut self, steps: u32) -> Option<LateCentre> {
        let (awaited, late) = await_centre(self.pushed.take()?, steps);
        self.awaited = Some(awaited);
        Some(late)
    }

    /// The device's own parameters are of no use any more: a window that waits for its centre ends by that.
    pub(super) fn stop_running_ahead(&mut self) {
        self.pushed = None;
        self.awaited = None;
    }

    /// True once after a result that could not be used.
    pub(super) const fn take_diverged(&mut self) -> bool {
        std::mem::replace(&mut self.diverged, false)
    }

    pub(super) const fn requests_lost(&mut self) {
        self.pull_sent = false;
    }

    /// Half a snapshot is of no use after the socket closed.
    pub(super) fn socket_lost(&mut self) {
        self.incoming = None;
        self.pull_sent = false;
    }

    /// The centre's parameters, the first time that they are asked for.
    pub(super) fn take_load(&mut self) -> Option<Arc<Vec<f32>>> {
        let load = std::mem::replace(&mut self.load, false);
        self.centre.as_ref().filter(|_| load).map(|centre| Arc::clone(&centre.parameters))
    }
}

impl Session {
    pub(super) fn window_done(&mut self, number: u64, result: WindowResult, compute_ms: u32) {
        if !self.take_window(number) {
            return;
        }
        self.measured(result.steps, compute_ms);
        self.progress.loss = Some(result.loss);
        let (Some(joined), Some(centre)) = (&mut self.joined, &self.exchange.centre) else {
            return;
        };
        let Some((lease, sequence)) = self.work.next_commit() else {
            return;
        };
        let base = centre.version;
        let delta = joined.worker_half.push(&result.parameters, &centre.parameters, result.steps);
        let pulls = joined.worker_half.pulls();
        let encoded = Encoded::new(&delta, joined.plan.strategy.upload_codec);
        let id = CommitId { lease, sequence };
        let header = CommitHeader {
            id,
            base,
            steps: result.steps,
            samples: result.samples,
            loss: result.loss,
            compute_ms,
            elements: encoded.elements() as u64,
        };
        let chunks = encoded.chunks().iter().map(|chunk| ToServer::Tensor(chunk.clone()).encode());
        let frames: Vec<Bytes> = std::iter::once(ToServer::Commit(header).encode()).chain(chunks).collect();
        self.exchange.pending = Some(Pending { id, frames });
        if pulls {
            self.exchange.drop_centre();
            self.exchange.pushed = Some(result.parameters);
        }
        self.send_commit();
    }

    fn send_commit(&mut self) {
        if !self.link.is_welcomed() {
            return;
        }
        let Some(pending) = &self.exchange.pending else {
            return;
        };
        let frames = pending.frames.clone();
        let total = frames.iter().map(|frame| frame.len() as u64).sum();
        self.progress.sending = Some(Transfer { done: 0, total });
        for frame in frames {
            self.send_bytes(frame);
        }
    }

    /// After a broken connection: the commit has a name, so the server gives its first verdict again.
    pub(super) fn resend_commit(&mut self) {
        self.send_commit();
    }

    pub(super) fn verdict(&mut self, verdict: Verdict, now: Millis) {
        let id = match &verdict {
            Verdict::Accepted { id, .. } | Verdict::Rejected { id, .. } => *id,
        };
        if self.exchange.pending.as_ref().is_none_or(|pending| pending.id != id) {
            return;
        }
        self.exchange.drop_commit();
        self.progress.sending = None;
        match verdict {
            Verdict::Accepted { version, credit, .. } => {
                self.work.renew_lease(id.lease, now);
                self.progress.commits_accepted += 1;
                self.progress.samples_accepted = credit;
                self.progress.rejection = None;
                self.progress.trouble = None;
                if let Some(centre) = &mut self.exchange.centre {
                    centre.version = version;
                }
            }
            Verdict::Rejected { refusal, .. } => {
                self.progress.commits_rejected += 1;
                match refusal.advice {
                    Advice::ChangeDevice => {
                        // What the device holds may be no numbers any more: a window that runs ahead of the centre
                        // would go on from there, and so would the optimizer.
                        self.drop_work();
                        self.exchange.diverged = true;
                        if self.capabilities.backend == Backend::Webgpu {
                            self.actions.push(Action::UseCpu);
                        }
                    }
                    Advice::RequestLease => {
                        self.work.forget_this_lease(id.lease);
                        self.drop_work();
                    }
                    _ => self.exchange.drop_centre(),
                }
                self.progress.rejection = Some(refusal);
            }
        }
    }

    pub(super) fn snapshot_announced(&mut self, header: SnapshotHeader, now: Millis) {
        let Some(joined) = &self.joined else {
            return self.protocol_error("a centre before the welcome", now);
        };
        let (expected, codec) = (joined.layout.elements() as u64, joined.plan.strategy.download_codec);
        if header.elements != expected {
            let what = format!("a centre of {} elements for a model of {expected}", header.elements);
            return self.protocol_error(&what, now);
        }
        self.progress.receiving = Some(Transfer { done: 0, total: codec.bytes(expected as usize) as u64 });
        self.exchange.incoming = Some((header, Assembler::new(header.elements, codec)));
    }

    pub(super) fn snapshot_chunk(&mut self, chunk: TensorChunk, now: Millis) {
        let bytes = chunk.payload().len() as u64;
        let Some((_, assembler)) = &mut self.exchange.incoming else {
            return self.protocol_error("a tensor chunk that nothing announced", now);
        };
        if let Err(error) = assembler.push(chunk) {
            return self.protocol_error(&error.to_string(), now);
        }
        if let Some(receiving) = &mut self.progress.receiving {
            receiving.done += bytes;
        }
        if assembler.is_complete()
            && let Some((header, assembler)) = self.exchange.incoming.take()
        {
            let parameters = Arc::new(assembler.finish().to_vec());
            self.progress.receiving = None;
            self.exchange.pull_sent = false;
            self.exchange.pushed = None;
            match self.exchange.awaited.take() {
                Some(awaited) => awaited.arrived(&parameters),
                None => self.exchange.load = true,
            }
            self.exchange.centre = Some(Centre { version: header.version, parameters });
            self.progress.version = Some(header.version.number);
        }
    }
}
