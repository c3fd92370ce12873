//! Every size and time limit of the protocol, in one place. Both ends check against these numbers.

use core::time::Duration;

/// Elements of a full f32 chunk; a codec that packs more into four bytes takes as many times as many. Larger vectors are
/// sent as many frames, all but the last one full. A multiple of every codec's block. Once released, another size is
/// another version of the protocol.
pub const CHUNK_ELEMENTS: usize = 61_440;
/// Bytes of tensor payload in one frame, at most: several of them fit the cache of one core.
pub const CHUNK_BYTES: usize = 246_720;
/// Bytes in front of a tensor frame's payload.
pub const CHUNK_HEADER_BYTES: usize = 16;
/// Bytes of one WebSocket message, in either direction.
pub const MESSAGE_BYTES: usize = CHUNK_BYTES + CHUNK_HEADER_BYTES;
/// Bytes that the server asks a socket for at a time: each time it first fills as much memory with zeros.
pub const READ_BUFFER_BYTES: usize = 32 * 1024;
/// Bytes of one control message.
pub const CONTROL_BYTES: usize = 64 * 1024;
/// Parameters of one model.
pub const PARAMETERS: usize = 64_000_000;
/// Bytes of one shard.
pub const SHARD_BYTES: usize = 16_000_000;
/// Sample ranges in one lease.
pub const LEASE_RANGES: usize = 1_024;
/// Characters of any text that a worker sends: longer ones are cut.
pub const TEXT_CHARACTERS: usize = 300;
/// Gradient entries compared in the self-test.
pub const SELF_TEST_ENTRIES: usize = 1_024;
/// Largest entry of an update, and largest loss: beyond it nothing is training any more.
pub const LARGEST_VALUE: f32 = 1e4;
/// Troubles that one connection may report.
pub const TROUBLES: u32 = 32;
/// Results in a row that cannot be used before their worker is sent away.
pub const REFUSED_IN_A_ROW: u32 = 10;
/// The slowest upload that is waited for, in bytes a second ...
pub const UPLOAD_BYTES_PER_SECOND: u64 = 64 * 1024;
/// ... after this long.
pub const UPLOAD_SLACK: Duration = Duration::from_secs(30);
/// Bytes buffered towards one worker before the server waits for it.
pub const OUTBOX_BYTES: usize = 8 * MESSAGE_BYTES;
/// Messages queued towards one worker.
pub const OUTBOX_MESSAGES: usize = 256;
/// Messages that may wait at a worker, in each direction: the largest vector, and what comes between.
pub const WORKER_QUEUE: usize = PARAMETERS.div_ceil(CHUNK_ELEMENTS) + 64;

/// The server pings this often.
pub const PING_EVERY: Duration = Duration::from_secs(20);
/// A worker that says nothing for this long is taken for dead.
pub const DEAD_AFTER: Duration = Duration::from_secs(45);
/// Time for the `Hello` after the socket opened.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// A lease lasts at least this long, and at most [`LEASE_LONGEST`].
pub const LEASE_SHORTEST: Duration = Duration::from_secs(20);
/// The longest a lease lasts.
pub const LEASE_LONGEST: Duration = Duration::from_secs(600);
/// A lease lasts this many times as long as the worker's speed says.
pub const LEASE_SLACK: u32 = 3;
/// A lease to a worker of unknown speed lasts this long.
pub const LEASE_UNKNOWN_SPEED: Duration = Duration::from_secs(60);
/// Time to answer the self-test, the compilation of its shaders included.
pub const SELF_TEST: Duration = Duration::from_secs(180);
/// A worker whose socket closed keeps its lease for this long.
pub const RESUME_GRACE: Duration = Duration::from_secs(10);
/// A worker's line gets this long to take a frame away.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Staleness bound: this many versions for each active worker ...
pub const STALENESS_PER_WORKER: u64 = 8;
/// ... and at least this many.
pub const STALENESS_LEAST: u64 = 16;
