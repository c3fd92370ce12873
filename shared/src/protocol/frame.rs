//! Frames: the registry of numbers, and their encoding.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::message::{CommitHeader, Hello, Lease, SelfTestAnswer, SnapshotHeader, Trouble, Verdict, Welcome};
use super::refusal::Refusal;
use super::version::LeaseId;
use super::{FRAME_VERSION, limits};
use crate::params::Codec;

/// Why bytes are not a frame.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// Fewer than the two bytes that every frame begins with.
    #[error("a frame of {0} bytes: every frame has at least 2")]
    Short(usize),
    /// Another version of the protocol.
    #[error("a frame of protocol version {0}: this end speaks version {FRAME_VERSION}")]
    Version(u8),
    /// A number that this version does not know in this direction.
    #[error("frame number {0} means nothing in this direction")]
    Number(u8),
    /// Larger than the limit of its kind.
    #[error("frame {number} has {bytes} bytes: the limit is {limit}")]
    TooLarge {
        /// The frame's number.
        number: u8,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The payload is not what the frame's number promises.
    #[error("frame {number} cannot be read: {what}")]
    Payload {
        /// The frame's number.
        number: u8,
        /// What is wrong.
        what: String,
    },
}

/// Consecutive elements of a vector, encoded. It holds its whole frame, so that it is written and read without a copy:
/// `[frame version, frame number, codec, 0][count: u32][first: u64][payload]`, all little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorChunk {
    frame: Bytes,
    codec: Codec,
    first: u64,
    count: usize,
}

impl TensorChunk {
    /// The chunk of `count` elements from `first` on; `encode` appends exactly the payload.
    pub fn build(first: u64, codec: Codec, count: usize, encode: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut frame = Vec::with_capacity(limits::CHUNK_HEADER_BYTES + codec.bytes(count));
        frame.extend_from_slice(&Self::header(first, codec, count));
        encode(&mut frame);
        Self::of_frame(first, codec, count, frame.into())
    }

    /// The chunk that lies in memory as its frame already.
    pub(crate) const fn of_frame(first: u64, codec: Codec, count: usize, frame: Bytes) -> Self {
        Self { frame, codec, first, count }
    }

    /// What its frame begins with.
    pub(crate) fn header(first: u64, codec: Codec, count: usize) -> [u8; limits::CHUNK_HEADER_BYTES] {
        let mut header = [0; limits::CHUNK_HEADER_BYTES];
        header[..4].copy_from_slice(&[FRAME_VERSION, number::TENSOR, codec.number(), 0]);
        header[4..8].copy_from_slice(&(count as u32).to_le_bytes());
        header[8..].copy_from_slice(&first.to_le_bytes());
        header
    }

    /// Index of the first element.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Number of elements.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// How the elements are encoded.
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// The encoded elements, at most [`limits::CHUNK_BYTES`].
    pub fn payload(&self) -> &[u8] {
        &self.frame[limits::CHUNK_HEADER_BYTES..]
    }

    /// The largest element by its size: infinite or NaN where one element is, 0 where all are zero.
    pub fn largest(&self) -> f32 {
        self.codec.largest(self.payload())
    }

    fn encode(&self) -> Bytes {
        self.frame.clone()
    }

    fn decode(frame: &Bytes) -> Result<Self, FrameError> {
        let wrong = |what: &str| FrameError::Payload { number: number::TENSOR, what: what.to_owned() };
        let header: &[u8; limits::CHUNK_HEADER_BYTES] =
            frame.first_chunk().ok_or_else(|| wrong("its header is cut off"))?;
        let codec =
            Codec::of_number(header[2]).filter(|_| header[3] == 0).ok_or_else(|| wrong("its codec is unknown"))?;
        let (_, fields) = header.split_at(4);
        let (count, first) = fields.split_at(4);
        let count = u32::from_le_bytes(count.try_into().map_err(|_| wrong("count"))?) as usize;
        let first = u64::from_le_bytes(first.try_into().map_err(|_| wrong("first"))?);
        if count == 0 || codec.bytes(count) != frame.len() - limits::CHUNK_HEADER_BYTES {
            return Err(wrong("its payload is not as long as its count says"));
        }
        if first.checked_add(count as u64).is_none_or(|end| end > limits::PARAMETERS as u64) {
            return Err(wrong("its elements lie beyond the largest model"));
        }
        Ok(Self { frame: frame.clone(), codec, first, count })
    }
}

/// The registry. A number, once given, is never given again.
mod number {
    pub const HELLO: u8 = 1;
    pub const WELCOME: u8 = 2;
    pub const SELF_TEST_ANSWER: u8 = 3;
    pub const SELF_TEST: u8 = 4;
    pub const LEASE_REQUEST: u8 = 5;
    pub const ADMITTED: u8 = 6;
    pub const PULL: u8 = 7;
    pub const LEASE: u8 = 8;
    pub const COMMIT: u8 = 9;
    pub const NO_WORK: u8 = 10;
    pub const RELEASE: u8 = 11;
    pub const SNAPSHOT: u8 = 12;
    pub const TROUBLE: u8 = 13;
    pub const VERDICT: u8 = 14;
    pub const PONG: u8 = 15;
    pub const PING: u8 = 16;
    pub const LEAVE: u8 = 17;
    pub const RUN_ENDED: u8 = 18;
    pub const RESTARTING: u8 = 20;
    pub const FAREWELL: u8 = 22;
    pub const TENSOR: u8 = 32;
}

/// Declares one direction's frames: variant, number, payload. The variant's number is its only identity on the wire.
macro_rules! frames {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident($payload:ty) = $number:path,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant($payload),)*
            /// Elements of the vector that the last header announced.
            Tensor(TensorChunk),
        }

        impl $name {
            /// The number of every frame of this direction, with its name.
            pub const REGISTRY: &'static [(u8, &'static str)] =
                &[$(($number, stringify!($variant)),)* (number::TENSOR, "Tensor")];

            /// The frame as it travels.
            pub fn encode(&self) -> Bytes {
                match self {
                    $(Self::$variant(message) => encode_control($number, message),)*
                    Self::Tensor(chunk) => chunk.encode(),
                }
            }

            /// Reads a frame. Any bytes give a frame or an error.
            pub fn decode(frame: &Bytes) -> Result<Self, FrameError> {
                let number = check_head(frame)?;
                match number {
                    $($number => decode_control(number, frame).map(Self::$variant),)*
                    number::TENSOR => TensorChunk::decode(frame).map(Self::Tensor),
                    unknown => Err(FrameError::Number(unknown)),
                }
            }
        }
    };
}

frames! {
    /// Frames that a worker sends.
    ToServer {
        /// Who I am and what I can do.
        Hello(Hello) = number::HELLO,
        /// What I computed in the self-test.
        SelfTestAnswer(SelfTestAnswer) = number::SELF_TEST_ANSWER,
        /// I am free: give me work.
        LeaseRequest(()) = number::LEASE_REQUEST,
        /// Send me the newest centre.
        Pull(()) = number::PULL,
        /// A window's result; tensor chunks follow.
        Commit(CommitHeader) = number::COMMIT,
        /// I give the rest of this lease back.
        Release(LeaseId) = number::RELEASE,
        /// Something went wrong here.
        Trouble(Trouble) = number::TROUBLE,
        /// I am alive.
        Pong(u64) = number::PONG,
        /// I stop: whatever I hold is free.
        Leave(()) = number::LEAVE,
    }
}

frames! {
    /// Frames that the server sends.
    ToWorker {
        /// You are in; this is the run.
        Welcome(Welcome) = number::WELCOME,
        /// Compute this seed's gradient.
        SelfTest(u64) = number::SELF_TEST,
        /// Your device computes rightly: ask for work.
        Admitted(()) = number::ADMITTED,
        /// Work.
        Lease(Lease) = number::LEASE,
        /// No work at the moment, for this reason; a lease follows unasked when there is some.
        NoWork(String) = number::NO_WORK,
        /// The centre; tensor chunks follow.
        Snapshot(SnapshotHeader) = number::SNAPSHOT,
        /// What became of a commit.
        Verdict(Verdict) = number::VERDICT,
        /// Are you alive?
        Ping(u64) = number::PING,
        /// The run has ended, for this reason.
        RunEnded(String) = number::RUN_ENDED,
        /// The server restarts: come back after so many milliseconds.
        Restarting(u32) = number::RESTARTING,
        /// You are refused; the socket closes.
        Farewell(Refusal) = number::FAREWELL,
    }
}

fn encode_control<T: Serialize>(number: u8, message: &T) -> Bytes {
    // Serialising into a growing vector fails only for types that postcard cannot hold; none of ours is one.
    postcard::to_extend(message, vec![FRAME_VERSION, number]).unwrap_or_default().into()
}

fn check_head(frame: &Bytes) -> Result<u8, FrameError> {
    let &[version, number, ..] = frame.as_ref() else {
        return Err(FrameError::Short(frame.len()));
    };
    if version != FRAME_VERSION {
        return Err(FrameError::Version(version));
    }
    let limit = if number == number::TENSOR { limits::MESSAGE_BYTES } else { limits::CONTROL_BYTES };
    if frame.len() > limit {
        return Err(FrameError::TooLarge { number, bytes: frame.len(), limit });
    }
    Ok(number)
}

fn decode_control<T: DeserializeOwned>(number: u8, frame: &Bytes) -> Result<T, FrameError> {
    let wrong = |what: String| FrameError::Payload { number, what };
    let (message, rest) = postcard::take_from_bytes(&frame[2..]).map_err(|error| wrong(error.to_string()))?;
    if rest.is_empty() { Ok(message) } else { Err(wrong(format!("{} bytes are left over", rest.len()))) }
}
