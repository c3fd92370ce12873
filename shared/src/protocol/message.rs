//! The control messages. Postcard encodes fields in the order of their declaration: a field that is added, removed or
//! moved makes a new protocol version.

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;
use super::version::{CommitId, LeaseId, ShardHash, Version, WorkerId};

/// The first message of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The run to join; empty: the server names one.
    pub run: String,
    /// The contributor's secret. The server keeps only its hash.
    pub contributor: [u8; 32],
    /// Who this worker was before its connection broke.
    pub resume: Option<Resume>,
    /// What the device can do.
    pub capabilities: Capabilities,
}

/// A worker's claim to be one that the server knows already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The worker's number.
    pub worker: WorkerId,
    /// The secret that the server issued with it.
    pub secret: [u8; 16],
    /// The lease whose commit has no verdict yet, else the one that it holds in memory; a reloaded tab has none.
    pub lease: Option<LeaseId>,
}

/// What a worker says of its device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Where the training runs.
    pub backend: Backend,
    /// The adapter's own name, or the CPU's; empty when the browser hides it.
    pub adapter: String,
    /// True for a GPU adapter that is emulated on the CPU.
    pub software: bool,
}

/// Where a worker trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(export))]
pub enum Backend {
    /// burn-wgpu over the browser's WebGPU.
    Webgpu,
    /// burn-flex on the CPU.
    Cpu,
}

/// The server's answer to a `Hello`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The [`crate::run::RunPlan`] as JSON.
    pub plan: String,
    /// Hash of the parameter layout that the server derived from the plan; the worker must derive the same.
    pub schema: [u8; 32],
    /// Who the worker is, for its next connection.
    pub worker: WorkerId,
    /// Proves it.
    pub resume_secret: [u8; 16],
    /// True when the device passed the self-test before: none follows.
    pub admitted: bool,
    /// True when the lease that the worker holds is still its own.
    pub lease_kept: bool,
}

/// The worker's answer to a self-test: what it computed on known weights and a known batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfTestAnswer {
    /// Euclidean norm of the gradient of each tensor, in the order of the layout.
    pub norms: Vec<f32>,
    /// The gradient's entries at the seeded places.
    pub entries: Vec<f32>,
}

/// Work: sample ranges with a deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its name.
    pub id: LeaseId,
    /// The samples, in the order in which they are to be trained on.
    pub ranges: Vec<SampleRange>,
    /// Milliseconds until the samples go to others; every accepted commit moves it on.
    pub deadline_ms: u32,
    /// How much to compute between two exchanges.
    pub window: WindowLimit,
}

/// A range of one shard's samples, in the shard's order of that epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleRange {
    /// The pass over the data, from 0.
    pub epoch: u32,
    /// The shard's index.
    pub shard: u32,
    /// The shard's address.
    pub hash: ShardHash,
    /// First position.
    pub start: u32,
    /// One behind the last position.
    pub end: u32,
}

impl SampleRange {
    /// Samples in the range.
    pub const fn len(&self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// True when it holds no sample.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The communication window of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WindowLimit {
    /// So many local steps.
    Steps(u32),
    /// About so many milliseconds of compute, and at most so many samples (one batch at least).
    Auto {
        /// Aim, in milliseconds of compute on the device.
        milliseconds: u32,
        /// Upper bound.
        samples: u32,
    },
    /// Everything that the lease holds.
    Lease,
}

/// Announces the centre; tensor chunks with its elements follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotHeader {
    /// The centre's version.
    pub version: Version,
    /// Its length.
    pub elements: u64,
}

/// Announces a commit; tensor chunks with its elements follow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommitHeader {
    /// Its name.
    pub id: CommitId,
    /// The version that the window began from.
    pub base: Version,
    /// Local steps taken.
    pub steps: u32,
    /// Samples covered: the next ones of the lease.
    pub samples: u32,
    /// Mean training loss over the window's samples.
    pub loss: f32,
    /// Milliseconds that the window took to compute.
    pub compute_ms: u32,
    /// Length of the delta.
    pub elements: u64,
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It changed the centre, and its samples are credited.
    Accepted {
        /// The commit.
        id: CommitId,
        /// The centre's version with this commit in it.
        version: Version,
        /// Versions between the commit's base and the centre it was applied to.
        staleness: u64,
        /// Samples credited to this worker so far.
        credit: u64,
    },
    /// It changed nothing; its samples go back to the ledger.
    Rejected {
        /// The commit.
        id: CommitId,
        /// Why, and what helps.
        refusal: Refusal,
    },
}

/// Something that went wrong at the worker, for the server's event log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(export))]
pub struct Trouble {
    /// What kind of thing.
    pub kind: TroubleKind,
    /// In words.
    pub detail: String,
}

/// What can go wrong at a worker. The numbers of the variants are the wire format: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(export))]
pub enum TroubleKind {
    /// The GPU device was lost.
    DeviceLost,
    /// The wasm module trapped and was started again.
    Trap,
    /// A shard could not be fetched, or its bytes are not what its hash says.
    Shard,
    /// The GPU could not be opened, or failed the self-test: the worker trains on the CPU instead.
    CpuInstead,
}
