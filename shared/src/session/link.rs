//! The connection: hello and welcome, silence, back-off, refusals.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Action, Joined, Millis, Session};
use crate::model::infer_layout;
use crate::protocol::{
    Advice, Backend, Hello, Refusal, RejectCode, Resume, ToServer, Welcome, WorkerId, close, limits,
};
use crate::run::RunPlan;
use crate::session::progress::RunSummary;
use crate::strategy;

/// The first wait before another attempt, in milliseconds; each further one doubles, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Millis = 500;
const LONGEST_WAIT: Millis = 30_000;
/// The wait after a refusal that time may lift.
const REFUSED_WAIT: Millis = 5_000;

/// Who a worker is, for its next connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(export))]
pub struct Identity {
    /// The run it belongs to.
    pub run: String,
    /// Its number.
    #[cfg_attr(feature = "typescript", ts(type = "number"))]
    pub worker: u64,
    /// Proves it.
    pub secret: [u8; 16],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down { retry_at: Option<Millis> },
    Opening,
    Greeted,
    Welcomed,
}

pub(super) struct Link {
    state: State,
    attempts: u32,
    heard_at: Millis,
}

impl Default for Link {
    fn default() -> Self {
        Self { state: State::Down { retry_at: Some(0) }, attempts: 0, heard_at: 0 }
    }
}

impl Link {
    pub(super) const fn is_down(&self) -> bool {
        matches!(self.state, State::Down { .. })
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Greeted | State::Welcomed)
    }

    pub(super) const fn is_welcomed(&self) -> bool {
        matches!(self.state, State::Welcomed)
    }

    pub(super) const fn failed_attempts(&self) -> u32 {
        self.attempts
    }

    pub(super) const fn heard(&mut self, now: Millis) {
        self.heard_at = now;
    }

    /// Doubles from attempt to attempt; `spread` (0 to 255) puts many workers apart over the second half of the wait.
    fn back_off(&mut self, now: Millis, spread: u8) -> Millis {
        let wait = (FIRST_WAIT << self.attempts.min(6)).min(LONGEST_WAIT);
        self.attempts += 1;
        now + wait / 2 + wait / 2 * Millis::from(spread) / 255
    }
}

impl Session {
    pub(super) fn greet(&mut self, now: Millis) {
        self.link.state = State::Greeted;
        self.link.heard(now);
        let identity = self.identity.as_ref().filter(|identity| self.run.is_empty() || identity.run == self.run);
        let resume = identity.map(|identity| Resume {
            worker: WorkerId(identity.worker),
            secret: identity.secret,
            lease: self.exchange.pending_lease().or_else(|| self.work.lease_id()),
        });
        let (run, capabilities) = (self.run.clone(), self.capabilities.clone());
        self.send(&ToServer::Hello(Hello { run, contributor: self.contributor, resume, capabilities }));
    }

    pub(super) fn welcomed(&mut self, welcome: &Welcome, now: Millis) {
        let joined = match join(welcome) {
            Ok(joined) => joined,
            Err(what) => return self.protocol_error(&what, now),
        };
        self.link.state = State::Welcomed;
        self.link.attempts = 0;
        self.progress.refused = None;
        self.progress.worker = Some(welcome.worker.0);
        self.progress.run = Some(RunSummary {
            id: joined.plan.id.clone(),
            name: joined.plan.name.clone(),
            parameters: joined.layout.elements() as u64,
            train_samples: joined.plan.data.train_samples,
        });
        let identity =
            Identity { run: joined.plan.id.clone(), worker: welcome.worker.0, secret: welcome.resume_secret };
        self.run.clone_from(&joined.plan.id);
        self.identity = Some(identity.clone());
        self.actions.push(Action::Remember(Some(identity)));
        self.joined = Some(joined);
        self.report_troubles();
        self.work.requests_lost();
        self.exchange.requests_lost();
        if welcome.lease_kept {
            self.resend_commit();
        } else {
            self.work.forget_lease();
            self.drop_work();
        }
    }

    pub(super) fn disconnected(&mut self, code: u16, reason: &str, now: Millis) {
        let planned = matches!(self.link.state, State::Down { .. });
        self.socket_lost();
        if planned {
            return;
        }
        if code == close::VERSION_MISMATCH {
            let refusal =
                Refusal { code: RejectCode::Malformed, reason: reason.to_owned(), advice: Advice::ReloadPage };
            self.progress.refused = Some(refusal);
            self.link.state = State::Down { retry_at: None };
        } else {
            self.progress.trouble =
                Some(if reason.is_empty() { "the connection closed".into() } else { reason.into() });
            let retry_at = self.link.back_off(now, self.contributor[0]);
            self.link.state = State::Down { retry_at: Some(retry_at) };
        }
    }

    fn socket_lost(&mut self) {
        self.exchange.socket_lost();
        self.progress.receiving = None;
        self.progress.sending = None;
    }

    /// Closes the socket, to open it again at `retry_at`, or not by itself.
    pub(super) fn hang_up(&mut self, retry_at: Option<Millis>) {
        if !matches!(self.link.state, State::Down { .. }) {
            self.actions.push(Action::Disconnect);
            self.socket_lost();
        }
        self.link.state = State::Down { retry_at };
    }

    fn hang_up_and_back_off(&mut self, now: Millis) {
        let retry_at = self.link.back_off(now, self.contributor[0]);
        self.hang_up(Some(retry_at));
    }

    /// The server said farewell: wait, stop, or try another device, as its advice says.
    pub(super) fn refused_for_good(&mut self, refusal: Refusal, now: Millis) {
        self.work.forget_lease();
        self.drop_work();
        let retry_at = match refusal.advice {
            Advice::Wait | Advice::Pull | Advice::RequestLease => Some(now + REFUSED_WAIT),
            Advice::ChangeDevice | Advice::ReloadPage | Advice::Stop => None,
        };
        self.hang_up(retry_at);
        if refusal.advice == Advice::ChangeDevice && self.capabilities.backend == Backend::Webgpu {
            self.actions.push(Action::UseCpu);
        }
        self.progress.refused = Some(refusal);
    }

    /// The server sent what this end cannot read: that does not heal by itself, so later attempts are rare.
    pub(super) fn protocol_error(&mut self, what: &str, now: Millis) {
        self.progress.trouble = Some(format!("the server's message cannot be used: {what}"));
        self.drop_work();
        self.link.attempts = self.link.attempts.max(5);
        self.hang_up_and_back_off(now);
    }

    /// Takes a server that says nothing for too long for dead.
    pub(super) fn link_tick(&mut self, now: Millis) {
        if self.link.is_open() && now.saturating_sub(self.link.heard_at) > limits::DEAD_AFTER.as_millis() as Millis {
            self.progress.trouble = Some("the server does not answer".into());
            self.hang_up_and_back_off(now);
        }
    }

    pub(super) fn link_advance(&mut self, now: Millis) {
        self.progress.retry_in_ms = None;
        if let State::Down { retry_at: Some(at) } = self.link.state {
            if at <= now {
                self.link.state = State::Opening;
                self.actions.push(Action::Connect);
            } else {
                self.progress.retry_in_ms = Some(at - now);
            }
        }
    }
}

/// Reads the plan, derives what follows, and checks that both ends derive the same.
fn join(welcome: &Welcome) -> Result<Joined, String> {
    let plan: RunPlan = serde_json::from_str(&welcome.plan).map_err(|error| format!("the run's plan: {error}"))?;
    let layout =
        infer_layout(&plan.model, &plan.data.sample_shape, plan.data.classes).map_err(|error| error.to_string())?;
    if layout.schema_hash() != welcome.schema {
        return Err("this page and the server derive different parameters from the model: reload the page".into());
    }
    let rule = strategy::find(&plan.strategy.rule)
        .ok_or_else(|| format!("this page does not know the rule {:?}: reload the page", plan.strategy.rule))?;
    Ok(Joined {
        plan: Arc::new(plan),
        layout: Arc::new(layout),
        worker_half: (rule.worker)(),
        admitted: welcome.admitted,
    })
}
