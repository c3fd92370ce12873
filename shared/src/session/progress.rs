//! What a session tells its page: facts and codes. The words are the page's.

use serde::{Deserialize, Serialize};

use super::link::Identity;
use crate::protocol::{Backend, Capabilities, Refusal, Trouble};

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(export))]
pub enum Phase {
    /// Opening the socket, or waiting for the welcome.
    Connecting,
    /// The server cannot be reached; it is tried again.
    Offline,
    /// The device computes the self-test.
    SelfTest,
    /// Shards or the centre are on their way.
    Downloading,
    /// Local steps; a window may begin while its centre is on its way.
    Training,
    /// A commit or a request is on its way.
    Exchanging,
    /// There is no work at the moment.
    Waiting,
    /// The person paused.
    Paused,
    /// The server refused this worker.
    Refused,
    /// The run has ended.
    Ended,
}

/// What the page shows of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(export))]
pub struct Progress {
    /// Where the session stands.
    pub phase: Phase,
    /// The worker's number at the server, once it has one.
    #[cfg_attr(feature = "typescript", ts(type = "number | null"))]
    pub worker: Option<u64>,
    /// Where the training runs.
    pub backend: Backend,
    /// The adapter's name.
    pub adapter: String,
    /// True for an emulated GPU.
    pub software: bool,
    /// Local steps a second over the last windows.
    pub steps_per_second: f64,
    /// Samples in accepted commits of this worker.
    #[cfg_attr(feature = "typescript", ts(type = "number"))]
    pub samples_accepted: u64,
    /// Commits accepted.
    pub commits_accepted: u32,
    /// Commits rejected.
    pub commits_rejected: u32,
    /// Mean training loss of the last window.
    pub loss: Option<f32>,
    /// The centre's version number that the worker has.
    #[cfg_attr(feature = "typescript", ts(type = "number | null"))]
    pub version: Option<u64>,
    /// Parameters on their way to this worker.
    pub receiving: Option<Transfer>,
    /// A commit on its way to the server.
    pub sending: Option<Transfer>,
    /// Bytes received over the socket and as shards.
    #[cfg_attr(feature = "typescript", ts(type = "number"))]
    pub bytes_in: u64,
    /// Bytes sent.
    #[cfg_attr(feature = "typescript", ts(type = "number"))]
    pub bytes_out: u64,
    /// Bytes of the training program's memory, as its shell measures it; 0 where it does not.
    #[cfg_attr(feature = "typescript", ts(type = "number"))]
    pub memory_bytes: u64,
    /// Why there is no work at the moment, in the server's words.
    pub waiting_for: Option<String>,
    /// The last rejection of a commit.
    pub rejection: Option<Refusal>,
    /// Why the server refused this worker.
    pub refused: Option<Refusal>,
    /// What went wrong last with device, data or connection.
    pub trouble: Option<String>,
    /// Why the run ended.
    pub ended: Option<String>,
    /// Milliseconds until the next attempt to connect.
    #[cfg_attr(feature = "typescript", ts(type = "number | null"))]
    pub retry_in_ms: Option<u64>,
    /// What is trained.
    pub run: Option<RunSummary>,
}

/// How far a large message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(export))]
pub struct Transfer {
    /// Bytes that have gone over.
    #[cfg_attr(feature = "typescript", ts(type = "number"))]
    pub done: u64,
    /// Bytes of all of it.
    #[cfg_attr(feature = "typescript", ts(type = "number"))]
    pub total: u64,
}

/// What a Web Worker tells its page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(export))]
pub enum PageMessage {
    /// How the session stands.
    Progress {
        /// The session's own account.
        progress: Box<Progress>,
    },
    /// Who the worker is: to be kept for its next connection, or forgotten.
    Identity {
        /// Absent: forget it.
        identity: Option<Identity>,
    },
    /// The worker cannot go on and wants to be started again.
    Restart {
        /// What happened.
        trouble: Trouble,
    },
    /// The worker cannot train here at all.
    Failed {
        /// Why not.
        reason: String,
    },
}

/// What is trained, in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(export))]
pub struct RunSummary {
    /// The run's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Parameters of the model.
    #[cfg_attr(feature = "typescript", ts(type = "number"))]
    pub parameters: u64,
    /// Samples of the training part.
    #[cfg_attr(feature = "typescript", ts(type = "number"))]
    pub train_samples: u64,
}

impl Progress {
    pub(super) fn new(capabilities: &Capabilities) -> Self {
        Self {
            phase: Phase::Connecting,
            worker: None,
            backend: capabilities.backend,
            adapter: capabilities.adapter.clone(),
            software: capabilities.software,
            steps_per_second: 0.0,
            samples_accepted: 0,
            commits_accepted: 0,
            commits_rejected: 0,
            loss: None,
            version: None,
            receiving: None,
            sending: None,
            bytes_in: 0,
            bytes_out: 0,
            memory_bytes: 0,
            waiting_for: None,
            rejection: None,
            refused: None,
            trouble: None,
            ended: None,
            retry_in_ms: None,
            run: None,
        }
    }

    pub(super) fn device(&mut self, capabilities: &Capabilities) {
        self.backend = capabilities.backend;
        self.adapter.clone_from(&capabilities.adapter);
        self.software = capabilities.software;
    }
}
