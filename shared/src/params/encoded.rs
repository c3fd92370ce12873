//! A vector in its wire form: chunks of encoded elements. What arrives is kept, judged and applied in this form.

use thiserror::Error;

use super::Codec;
use crate::protocol::TensorChunk;

/// Why a vector in wire form is not acceptable.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum EncodedError {
    /// A chunk does not begin where the one before it ended.
    #[error("a chunk begins at element {found}, expected {expected}")]
    Gap {
        /// Where it should begin.
        expected: u64,
        /// Where it begins.
        found: u64,
    },
    /// A chunk that is not the last one is not full: many small ones would cost more than they carry.
    #[error("a chunk of {found} elements: every chunk but the last has {expected}")]
    NotFull {
        /// Elements of a full chunk.
        expected: usize,
        /// Elements of this one.
        found: usize,
    },
    /// The chunks hold more than was announced.
    #[error("the chunks hold {found} elements, {expected} were announced")]
    TooMany {
        /// Elements announced.
        expected: u64,
        /// Elements found.
        found: u64,
    },
    /// A chunk of another codec than the run's.
    #[error("a chunk is encoded as {found:?}, this run takes {expected:?}")]
    OtherCodec {
        /// The run's codec.
        expected: Codec,
        /// The chunk's.
        found: Codec,
    },
}

/// A whole vector in wire form. Cloning shares the bytes.
#[derive(Clone, Debug, Default)]
pub struct Encoded {
    codec: Codec,
    chunks: Vec<TensorChunk>,
    elements: usize,
}

impl Encoded {
    /// Encodes a vector, in chunks.
    pub fn new(values: &[f32], codec: Codec) -> Self {
        let full = codec.elements_of_full_chunk();
        let chunk = |(index, part): (usize, &[f32])| {
            TensorChunk::build((index * full) as u64, codec, part.len(), |out| codec.encode(part, out))
        };
        Self { codec, chunks: values.chunks(full).enumerate().map(chunk).collect(), elements: values.len() }
    }

    /// The chunks, in order and without gaps.
    pub fn chunks(&self) -> &[TensorChunk] {
        &self.chunks
    }

    /// Length of the vector.
    pub const fn elements(&self) -> usize {
        self.elements
    }

    /// Bytes of the payload.
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.payload().len()).sum()
    }

    /// The largest element by its size: infinite or NaN where one element is, 0 where all are zero.
    pub fn largest(&self) -> f32 {
        let mut largest = 0.0_f32;
        for chunk in &self.chunks {
            let size = chunk.largest();
            if !size.is_finite() {
                return size;
            }
            largest = largest.max(size);
        }
        largest
    }

    /// `target += scale * self[first..]`, element by element, as far as `target` goes. `first` is a multiple of
    /// [`crate::protocol::limits::CHUNK_ELEMENTS`].
    pub fn add_scaled_to(&self, first: usize, target: &mut [f32], scale: f32) {
        self.for_each(first, target, |payload, target| self.codec.add_scaled(payload, target, scale));
    }

    /// `target := self[first..]`, as far as `target` goes. `first` is a multiple of [`crate::protocol::limits::CHUNK_ELEMENTS`].
    pub fn copy_to(&self, first: usize, target: &mut [f32]) {
        self.for_each(first, target, |payload, target| self.codec.decode(payload, target));
    }

    /// Calls `each` with the payload for every piece of `target` that lies in one chunk.
    fn for_each(&self, mut first: usize, mut target: &mut [f32], each: impl Fn(&[u8], &mut [f32])) {
        assert!(
            first + target.len() <= self.elements,
            "{} elements from {first} on, of {}",
            target.len(),
            self.elements
        );
        let full = self.codec.elements_of_full_chunk();
        while !target.is_empty() {
            let (chunk, skipped) = (&self.chunks[first / full], first % full);
            let (piece, rest) = target.split_at_mut(target.len().min(chunk.count() - skipped));
            let end = skipped + piece.len();
            each(&chunk.payload()[self.codec.bytes(skipped)..self.codec.bytes(end)], piece);
            first += piece.len();
            target = rest;
        }
    }

    /// The vector decoded.
    pub fn to_vec(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.elements];
        self.copy_to(0, &mut values);
        values
    }
}

/// Puts a vector together from its chunks as they arrive, in order.
#[derive(Debug)]
pub struct Assembler {
    codec: Codec,
    expected: u64,
    found: u64,
    chunks: Vec<TensorChunk>,
}

impl Assembler {
    /// Waits for `expected` elements.
    pub const fn new(expected: u64, codec: Codec) -> Self {
        Self { codec, expected, found: 0, chunks: Vec::new() }
    }

    /// Takes the next chunk.
    pub fn push(&mut self, chunk: TensorChunk) -> Result<(), EncodedError> {
        if chunk.codec() != self.codec {
            return Err(EncodedError::OtherCodec { expected: self.codec, found: chunk.codec() });
        }
        if chunk.first() != self.found {
            return Err(EncodedError::Gap { expected: self.found, found: chunk.first() });
        }
        let found = self.found + chunk.count() as u64;
        if found > self.expected {
            return Err(EncodedError::TooMany { expected: self.expected, found });
        }
        let full = self.codec.elements_of_full_chunk();
        if found < self.expected && chunk.count() != full {
            return Err(EncodedError::NotFull { expected: full, found: chunk.count() });
        }
        self.found = found;
        self.chunks.push(chunk);
        Ok(())
    }

    /// True when all of it has arrived.
    pub const fn is_complete(&self) -> bool {
        self.found == self.expected
    }

    /// The vector, when it is complete.
    pub fn finish(self) -> Encoded {
        Encoded { codec: self.codec, elements: self.found as usize, chunks: self.chunks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_longer_than_a_chunk_comes_back_whole_and_is_applied_from_its_bytes() {
        let values: Vec<f32> = (0..1_100_001).map(|i| (i as f32).sin()).collect();
        for (codec, chunks, tolerance) in [(Codec::F32, 18, 0.0), (Codec::F16, 9, 5e-4), (Codec::Int8, 5, 4e-3)] {
            let encoded = Encoded::new(&values, codec);
            assert_eq!(encoded.chunks().len(), chunks);
            let mut assembler = Assembler::new(values.len() as u64, codec);
            for chunk in encoded.chunks() {
                assert!(!assembler.is_complete());
                assembler.push(chunk.clone()).expect("in order");
            }
            assert!(assembler.is_complete());
            let back = assembler.finish().to_vec();
            let furthest = back.iter().zip(&values).map(|(back, value)| (back - value).abs()).fold(0.0, f32::max);
            assert!(furthest <= tolerance, "{codec:?}: {furthest}");
            let mut centre = vec![1.0; values.len()];
            encoded.add_scaled_to(0, &mut centre, 0.5);
            assert!((centre[1_100_000] - (1.0 + 0.5 * back[1_100_000])).abs() < 1e-6);
        }
    }

    #[test]
    fn chunks_that_leave_a_gap_or_exceed_what_was_announced_are_refused() {
        let encoded = Encoded::new(&vec![1.0; 100_000], Codec::F32);
        let mut assembler = Assembler::new(100_000, Codec::F32);
        let gap = assembler.push(encoded.chunks()[1].clone());
        assert_eq!(gap, Err(EncodedError::Gap { expected: 0, found: 61_440 }));
        let mut short = Assembler::new(64_001, Codec::F32);
        short.push(encoded.chunks()[0].clone()).expect("fits");
        let many = short.push(encoded.chunks()[1].clone());
        assert_eq!(many, Err(EncodedError::TooMany { expected: 64_001, found: 100_000 }));
        let crumb = Encoded::new(&[0.0], Codec::F32);
        let small = Assembler::new(100_000, Codec::F32).push(crumb.chunks()[0].clone());
        assert_eq!(small, Err(EncodedError::NotFull { expected: 61_440, found: 1 }));
        let other = Assembler::new(1, Codec::Int8).push(crumb.chunks()[0].clone());
        assert_eq!(other, Err(EncodedError::OtherCodec { expected: Codec::Int8, found: Codec::F32 }));
    }

    #[test]
    fn infinities_nans_and_all_zeros_are_seen_by_their_bits() {
        let largest = |values: &[f32]| Encoded::new(values, Codec::F32).largest();
        assert_eq!(largest(&[0.0, -1.5e38, 1e-45]), 1.5e38);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7f80_0001), -f32::NAN] {
            assert!(!largest(&[0.0, bad, 1.0]).is_finite(), "{bad}");
        }
        assert_eq!(largest(&[1.0, -3.0, 2.0]), 3.0);
        assert_eq!(largest(&[0.0, -0.0]), 0.0);
        assert!(largest(&[0.0, 1e-45]) > 0.0);
    }
}
