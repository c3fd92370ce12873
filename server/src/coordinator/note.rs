//! Notes: what the event log and the dashboard print of a decision, with its reason.

use kindling_shared::protocol::WorkerId;
use serde::{Deserialize, Serialize};

/// What a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub enum NoteKind {
    /// A new worker came.
    WorkerJoined,
    /// A worker came back as itself.
    WorkerResumed,
    /// A worker stopped, or its socket closed.
    WorkerLeft,
    /// A worker passed the self-test.
    WorkerAdmitted,
    /// A worker was refused.
    WorkerRefused,
    /// A worker's wasm module trapped and was started again.
    WorkerTrapped,
    /// A worker lost its GPU.
    DeviceLost,
    /// A worker trains on the CPU because its GPU cannot be used.
    CpuInstead,
    /// A worker could not get a shard.
    ShardUnavailable,
    /// A lease ended before its samples were covered.
    LeaseReturned,
    /// A commit changed the centre.
    CommitAccepted,
    /// A commit was refused.
    CommitRejected,
    /// Samples were closed that nobody's commit was accepted over.
    SamplesGivenUp,
    /// An epoch's ledger is full.
    EpochClosed,
    /// The centre was evaluated.
    Evaluated,
    /// The run began.
    RunStarted,
    /// The run ended.
    RunEnded,
}

/// One note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub kind: NoteKind,
    /// Whom it is about.
    pub worker: Option<WorkerId>,
    /// The shard of the first sample that it is about.
    pub shard: Option<u32>,
    /// What happened and why, in words.
    pub reason: String,
}

impl Note {
    /// A note about a worker.
    pub fn of(worker: WorkerId, kind: NoteKind, reason: impl Into<String>) -> Self {
        Self { kind, worker: Some(worker), shard: None, reason: reason.into() }
    }

    /// A note about the run.
    pub fn run(kind: NoteKind, reason: impl Into<String>) -> Self {
        Self { kind, worker: None, shard: None, reason: reason.into() }
    }
}

/// `1 step`, `2 steps`.
pub(super) fn counted(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}
