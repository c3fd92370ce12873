//! What the API says of a run.

use std::sync::atomic::Ordering;

use serde::Serialize;

use super::Run;
use crate::coordinator::{CommitCounts, Ledger, StalenessView};

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub enum RunState {
    /// Nobody has contributed yet.
    Waiting,
    /// It trains.
    Running,
    /// Every epoch is done, and the final centre is evaluated.
    Finished,
    /// Every epoch is closed, but not one result could be used.
    Failed,
}

/// Losses, in nats a sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct LossView {
    /// Mean over the latest commits.
    pub train: Option<f32>,
    /// Of the centre on the validation part.
    pub validation: Option<f32>,
}

/// Metrics of the centre on the validation part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct MetricsView {
    /// Share of samples that are classified rightly, 0 to 1.
    pub accuracy: Option<f32>,
}

/// Bytes over the workers' sockets and as shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct TrafficView {
    /// From workers.
    #[cfg_attr(test, ts(type = "number"))]
    pub bytes_in: u64,
    /// To workers.
    #[cfg_attr(test, ts(type = "number"))]
    pub bytes_out: u64,
}

/// Bytes of one exchange: a commit up, the centre down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct ExchangeView {
    /// Of a commit.
    #[cfg_attr(test, ts(type = "number"))]
    pub bytes_up: u64,
    /// Of the centre.
    #[cfg_attr(test, ts(type = "number"))]
    pub bytes_down: u64,
}

/// `GET runs/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct RunStatus {
    /// The run's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: RunState,
    /// The training rule.
    pub rule: String,
    /// The centre's version: changes of the centre.
    #[cfg_attr(test, ts(type = "number"))]
    pub version: u64,
    /// The oldest open epoch, from 0; `epochs` when all are closed.
    pub epoch: u32,
    /// Passes over the training part.
    pub epochs: u32,
    /// Length of the parameter vector.
    #[cfg_attr(test, ts(type = "number"))]
    pub parameters: u64,
    /// Samples of the training part.
    #[cfg_attr(test, ts(type = "number"))]
    pub train_samples: u64,
    /// Samples that accepted commits covered, over all epochs.
    #[cfg_attr(test, ts(type = "number"))]
    pub samples_trained: u64,
    /// Samples that were given up because nobody's commit over them was accepted.
    #[cfg_attr(test, ts(type = "number"))]
    pub samples_refused: u64,
    /// Samples out with workers.
    #[cfg_attr(test, ts(type = "number"))]
    pub samples_in_flight: u64,
    /// Workers that are connected and passed the self-test.
    #[cfg_attr(test, ts(type = "number"))]
    pub workers_active: u64,
    /// Commits so far.
    pub commits: CommitCounts,
    /// Staleness of accepted commits, in versions.
    pub staleness: StalenessView,
    /// Losses.
    pub loss: LossView,
    /// Metrics on the validation part.
    pub metrics: MetricsView,
    /// Bytes so far.
    pub traffic: TrafficView,
    /// Bytes of one exchange.
    pub exchange: ExchangeView,
    /// Bytes of all shards together.
    #[cfg_attr(test, ts(type = "number"))]
    pub data_bytes: u64,
    /// Unix time of the start, in milliseconds.
    #[cfg_attr(test, ts(type = "number"))]
    pub started_at: u64,
    /// Unix time of the end, in milliseconds.
    #[cfg_attr(test, ts(type = "number | null"))]
    pub finished_at: Option<u64>,
    /// Why it ended.
    pub stop_reason: Option<String>,
}

/// Why a run with this ledger ended.
pub(super) const fn stop_reason(ledger: &Ledger) -> &'static str {
    if ledger.samples_trained() == 0 {
        "no result could be used: the learning rate may be too high"
    } else {
        "every epoch is done"
    }
}

impl Run {
    /// The run's status, as of one moment.
    pub fn status(&self) -> RunStatus {
        let core = self.lock();
        let coordinator = &core.coordinator;
        let ledger = coordinator.ledger();
        let validation = core.history.last_validation();
        let version = coordinator.version().number;
        RunStatus {
            id: self.plan.id.clone(),
            name: self.plan.name.clone(),
            state: match core.finished_at {
                Some(_) if ledger.samples_trained() == 0 => RunState::Failed,
                Some(_) => RunState::Finished,
                None if version == 0 => RunState::Waiting,
                None => RunState::Running,
            },
            rule: self.plan.strategy.rule.clone(),
            version,
            epoch: ledger.current_epoch(),
            epochs: self.epochs,
            parameters: self.layout.elements() as u64,
            train_samples: self.dataset.train_samples(),
            samples_trained: ledger.samples_trained(),
            samples_refused: ledger.samples_refused(),
            samples_in_flight: ledger.samples_in_flight(),
            workers_active: coordinator.active_workers() as u64,
            commits: coordinator.commit_counts().clone(),
            staleness: coordinator.staleness(),
            loss: LossView { train: core.history.recent_loss(), validation: validation.map(|found| found.0) },
            metrics: MetricsView { accuracy: validation.map(|found| found.1) },
            traffic: TrafficView {
                bytes_in: self.bytes_in.load(Ordering::Relaxed),
                bytes_out: self.bytes_out.load(Ordering::Relaxed),
            },
            exchange: ExchangeView {
                bytes_up: self.plan.strategy.upload_codec.bytes(self.layout.elements()) as u64,
                bytes_down: self.plan.strategy.download_codec.bytes(self.layout.elements()) as u64,
            },
            data_bytes: self.plan.data.bytes,
            started_at: self.started_at,
            finished_at: core.finished_at,
            stop_reason: core.finished_at.map(|_| stop_reason(ledger).to_owned()),
        }
    }
}
