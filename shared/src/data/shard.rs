//! The canonical shard: samples in their stored type, addressed by the hash of their bytes.
//!
//! ```text
//! offset  size  field
//! 0       4     "KSHD"
//! 4       1     format version, 1
//! 5       1     feature type: 0 u8, 1 f32
//! 6       2     dimensions of one sample, d (u16)
//! 8       4     samples, n (u32)
//! 12      4d    the dimensions (u32 each)
//! ...           features: n times the sample's size, row by row
//! ...     4n    labels (u32 each)
//! ```
//! All numbers are little-endian.

use bytes::Bytes;
use thiserror::Error;

use crate::protocol::limits;

const MAGIC: &[u8; 4] = b"KSHD";
const FORMAT_VERSION: u8 = 1;
const MOST_DIMENSIONS: usize = 8;

/// Why bytes are not a shard.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ShardError {
    /// Not this format, or a version that this end does not know.
    #[error("not a shard of format version {FORMAT_VERSION}")]
    Format,
    /// The header promises other bytes than there are.
    #[error("the shard has {found} bytes, its header promises {expected}")]
    Length {
        /// What the header promises.
        expected: u64,
        /// What there is.
        found: u64,
    },
    /// Larger than [`limits::SHARD_BYTES`].
    #[error("the shard has {0} bytes, the limit is {limit}", limit = limits::SHARD_BYTES)]
    TooLarge(usize),
}

/// The features of consecutive samples, in their stored type.
#[derive(Clone, Debug, PartialEq)]
pub enum Features {
    /// One byte a feature (images).
    U8(Bytes),
    /// Little-endian f32, four bytes a feature.
    F32(Bytes),
}

impl Features {
    const fn code(&self) -> u8 {
        match self {
            Self::U8(_) => 0,
            Self::F32(_) => 1,
        }
    }

    /// Bytes of one feature.
    pub const fn width(&self) -> usize {
        match self {
            Self::U8(_) => 1,
            Self::F32(_) => 4,
        }
    }

    /// The stored bytes.
    pub const fn bytes(&self) -> &Bytes {
        match self {
            Self::U8(bytes) | Self::F32(bytes) => bytes,
        }
    }

    /// Appends the features `range` (counted in features) to `out`, as f32.
    pub fn extend(&self, range: std::ops::Range<usize>, out: &mut Vec<f32>) {
        match self {
            Self::U8(bytes) => out.extend(bytes[range].iter().map(|&byte| f32::from(byte))),
            Self::F32(bytes) => {
                let bytes = &bytes[range.start * 4..range.end * 4];
                out.extend(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)));
            }
        }
    }
}

/// Samples with their labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Shard {
    /// Shape of one sample.
    pub sample_shape: Vec<usize>,
    /// All samples' features, row by row.
    pub features: Features,
    /// One class index a sample.
    pub labels: Vec<u32>,
}

impl Shard {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// True when it holds no sample.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Features of one sample.
    pub fn sample_size(&self) -> usize {
        self.sample_shape.iter().product()
    }

    /// The canonical bytes. The same samples give the same bytes, and so the same address.
    pub fn encode(&self) -> Bytes {
        let features = self.features.bytes();
        let mut out = Vec::with_capacity(12 + 4 * self.sample_shape.len() + features.len() + 4 * self.len());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[FORMAT_VERSION, self.features.code()]);
        out.extend_from_slice(&(self.sample_shape.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.len() as u32).to_le_bytes());
        for &side in &self.sample_shape {
            out.extend_from_slice(&(side as u32).to_le_bytes());
        }
        out.extend_from_slice(features);
        for label in &self.labels {
            out.extend_from_slice(&label.to_le_bytes());
        }
        out.into()
    }

    /// Reads the canonical bytes; the features stay where they are.
    pub fn decode(bytes: &Bytes) -> Result<Self, ShardError> {
        if bytes.len() > limits::SHARD_BYTES {
            return Err(ShardError::TooLarge(bytes.len()));
        }
        let header = bytes.get(..12).filter(|header| header.starts_with(MAGIC)).ok_or(ShardError::Format)?;
        let dimensions = usize::from(u16::from_le_bytes([header[6], header[7]]));
        let width = match (header[4], header[5]) {
            (FORMAT_VERSION, 0) => 1,
            (FORMAT_VERSION, 1) => 4,
            _ => return Err(ShardError::Format),
        };
        if dimensions > MOST_DIMENSIONS {
            return Err(ShardError::Format);
        }
        let samples = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let body = 12 + 4 * dimensions;
        let sides = bytes.get(12..body).ok_or(ShardError::Format)?.as_chunks::<4>().0;
        let sample_shape: Vec<usize> = sides.iter().map(|side| u32::from_le_bytes(*side) as usize).collect();
        let expected = sample_shape
            .iter()
            .try_fold(samples as u64, |size, &side| size.checked_mul(side as u64))
            .and_then(|size| size.checked_mul(width))
            .and_then(|size| size.checked_add(body as u64 + 4 * samples as u64))
            .ok_or(ShardError::Format)?;
        if expected != bytes.len() as u64 {
            return Err(ShardError::Length { expected, found: bytes.len() as u64 });
        }
        let labels_at = bytes.len() - 4 * samples;
        let features = bytes.slice(body..labels_at);
        let labels = bytes[labels_at..].as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four)).collect();
        let features = if width == 1 { Features::U8(features) } else { Features::F32(features) };
        Ok(Self { sample_shape, features, labels })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tiny() -> Shard {
        Shard {
            sample_shape: vec![1, 2],
            features: Features::U8(Bytes::from_static(&[1, 2, 3, 4, 5, 6])),
            labels: vec![7, 0, 9],
        }
    }

    #[test]
    fn the_bytes_of_a_shard_are_pinned() {
        // Addresses are hashes of these bytes: a change of them is a new format version.
        let hex: String = tiny().encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "4b53484401000200030000000100000002000000010203040506070000000000000009000000");
        assert_eq!(Shard::decode(&tiny().encode()), Ok(tiny()));
    }

    #[test]
    fn truncated_and_lengthened_shards_are_refused() {
        let whole = tiny().encode();
        for cut in 0..whole.len() {
            assert!(Shard::decode(&whole.slice(..cut)).is_err(), "{cut} bytes");
        }
        let mut longer = whole.to_vec();
        longer.push(0);
        assert!(matches!(Shard::decode(&longer.into()), Err(ShardError::Length { .. })));
    }

    proptest! {
        #[test]
        fn decoding_any_bytes_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), shard: bool) {
            if shard && bytes.len() >= 6 {
                bytes[..4].copy_from_slice(MAGIC);
                bytes[4] = 1;
                bytes[5] &= 1;
            }
            let _ = Shard::decode(&bytes.into());
        }
    }
}
