//! Refusals: a code for programs, a reason for people, and advice on what helps.

use serde::{Deserialize, Serialize};

/// Why something was refused. The numbers of the variants are the wire format: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(export))]
pub enum RejectCode {
    /// The commit's base is further behind the centre than the staleness bound.
    Stale,
    /// The commit's base or lease belongs to a generation before a restore.
    StaleGeneration,
    /// The commit names a base version that the server never published.
    UnknownBase,
    /// The lease is not this worker's, or was never given.
    UnknownLease,
    /// The lease's deadline has passed; its samples went to others.
    LeaseExpired,
    /// The commit's sequence is not the next one of its lease.
    OutOfOrder,
    /// The commit claims more samples than its lease has left, or none.
    WrongSamples,
    /// The delta's length is not the model's number of parameters, or its chunks leave a gap.
    WrongLength,
    /// The delta holds an infinity or a NaN.
    NotFinite,
    /// Every entry of the delta is zero: the device computed nothing.
    AllZero,
    /// The self-test's gradient is not the server's: the device computes wrongly.
    SelfTestFailed,
    /// Work was asked for before the self-test was passed.
    NotAdmitted,
    /// The rule takes no more workers at the moment.
    RunFull,
    /// The run takes no work at the moment because its host paused it.
    RunPaused,
    /// The run has ended.
    RunEnded,
    /// The server hosts no such run.
    UnknownRun,
    /// A newer connection of the same worker took over.
    Superseded,
    /// The frame cannot be read, or came at a time when it means nothing.
    Malformed,
    /// The server is stopping.
    Stopping,
    /// An entry of the delta is larger than any training gives.
    TooLarge,
    /// Too many results of this worker in a row could not be used.
    TooManyRefused,
}

impl RejectCode {
    /// Every code, in the order of its number.
    pub const ALL: [Self; 21] = [
        Self::Stale,
        Self::StaleGeneration,
        Self::UnknownBase,
        Self::UnknownLease,
        Self::LeaseExpired,
        Self::OutOfOrder,
        Self::WrongSamples,
        Self::WrongLength,
        Self::NotFinite,
        Self::AllZero,
        Self::SelfTestFailed,
        Self::NotAdmitted,
        Self::RunFull,
        Self::RunPaused,
        Self::RunEnded,
        Self::UnknownRun,
        Self::Superseded,
        Self::Malformed,
        Self::Stopping,
        Self::TooLarge,
        Self::TooManyRefused,
    ];

    /// True when it judges what a commit holds, not when or by whom it was sent: others may fail over the same samples.
    pub const fn is_about_content(self) -> bool {
        matches!(self, Self::NotFinite | Self::AllZero | Self::TooLarge)
    }

    /// What a worker should do about it.
    pub const fn advice(self) -> Advice {
        match self {
            Self::Stale | Self::StaleGeneration | Self::UnknownBase => Advice::Pull,
            Self::UnknownLease | Self::LeaseExpired | Self::OutOfOrder | Self::WrongSamples => Advice::RequestLease,
            Self::WrongLength | Self::NotFinite | Self::AllZero | Self::TooLarge | Self::SelfTestFailed => {
                Advice::ChangeDevice
            }
            Self::NotAdmitted | Self::Malformed => Advice::ReloadPage,
            Self::RunFull | Self::RunPaused | Self::Stopping => Advice::Wait,
            Self::RunEnded | Self::UnknownRun | Self::Superseded | Self::TooManyRefused => Advice::Stop,
        }
    }
}

/// What a refused worker should do. The numbers of the variants are the wire format: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(export))]
pub enum Advice {
    /// Take the newest centre and go on.
    Pull,
    /// Ask for a new lease.
    RequestLease,
    /// Train on another device: the CPU, where this was the GPU.
    ChangeDevice,
    /// Load the page again.
    ReloadPage,
    /// Try again later.
    Wait,
    /// There is nothing more to do here.
    Stop,
}

/// A refusal as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(export))]
pub struct Refusal {
    /// For programs.
    pub code: RejectCode,
    /// For people: what was wrong, with the values.
    pub reason: String,
    /// What helps.
    pub advice: Advice,
}

impl Refusal {
    /// A refusal with the advice of its code.
    pub fn new(code: RejectCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), advice: code.advice() }
    }
}
