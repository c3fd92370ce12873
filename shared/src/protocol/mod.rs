//! Protocol v1 (`kindling.v1`): what travels over the WebSocket between a worker and the server.
//!
//! A frame is `[frame version, frame number, payload]`. Control messages are postcard; tensors are raw little-endian
//! and never pass through serde. The table of frames is in `docs/protocol.md`; numbers are never reused. Decoding is
//! total: any bytes give a frame or a [`FrameError`], never a panic, and never an allocation beyond [`limits`].

mod frame;
pub mod limits;
mod message;
mod refusal;
#[cfg(test)]
mod tests;
mod version;

pub use frame::{FrameError, TensorChunk, ToServer, ToWorker};
pub use message::{
    Backend, Capabilities, CommitHeader, Hello, Lease, Resume, SampleRange, SelfTestAnswer, SnapshotHeader, Trouble,
    TroubleKind, Verdict, Welcome, WindowLimit,
};
pub use refusal::{Advice, Refusal, RejectCode};
pub use version::{CommitId, LeaseId, ShardHash, Version, WorkerId};

/// The WebSocket subprotocol of this version.
pub const SUBPROTOCOL: &str = "kindling.v1";
/// What every subprotocol of Kindling begins with, whatever its version.
pub const SUBPROTOCOL_FAMILY: &str = "kindling.";
/// The first byte of every frame of this version.
pub const FRAME_VERSION: u8 = 1;

/// Close codes of the WebSocket that Kindling gives a meaning; the reason text says the same in words.
pub mod close {
    /// The ends speak different versions of the protocol. Code and text stay readable to every version.
    pub const VERSION_MISMATCH: u16 = 4406;
    /// The server refused the worker; a `Farewell` frame with the reason came before.
    pub const REFUSED: u16 = 4403;
    /// The worker broke the protocol; the reason says how.
    pub const MALFORMED: u16 = 4400;
    /// The worker answered no ping in time.
    pub const SILENT: u16 = 4408;
    /// The run has ended; a `RunEnded` frame came before.
    pub const RUN_ENDED: u16 = 4410;
}
