//! A vector in its wire form: chunks of raw little-endian f32. What arrives is kept and applied in this form.

use bytes::Bytes;
use thiserror::Error;

use crate::protocol::{TensorChunk, limits};

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
}

/// Elements of a full chunk.
const FULL_CHUNK: usize = limits::CHUNK_BYTES / 4;

/// A whole vector in wire form. Cloning shares the bytes.
#[derive(Clone, Debug, Default)]
pub struct Encoded {
    chunks: Vec<TensorChunk>,
    elements: usize,
}

impl Encoded {
    /// Encodes a vector as f32, in chunks.
    pub fn f32(values: &[f32]) -> Self {
        let chunk = |(index, part): (usize, &[f32])| {
            let mut payload = Vec::with_capacity(part.len() * 4);
            for value in part {
                payload.extend_from_slice(&value.to_le_bytes());
            }
            TensorChunk { first: (index * FULL_CHUNK) as u64, payload: payload.into() }
        };
        Self { chunks: values.chunks(FULL_CHUNK).enumerate().map(chunk).collect(), elements: values.len() }
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
        self.chunks.iter().map(|chunk| chunk.payload.len()).sum()
    }

    fn values(&self) -> impl Iterator<Item = f32> + '_ {
        self.chunks.iter().flat_map(|chunk| floats(&chunk.payload))
    }

    /// True when no element is infinite or NaN. Looks at the bits: some shader compilers assume that there is no NaN.
    pub fn all_finite(&self) -> bool {
        const EXPONENT: u32 = 0x7f80_0000;
        self.values().all(|value| value.to_bits() & EXPONENT != EXPONENT)
    }

    /// The largest element by its size, 0 for an empty vector.
    pub fn largest(&self) -> f32 {
        self.values().fold(0.0, |largest, value| value.abs().max(largest))
    }

    /// True when every element is zero.
    pub fn all_zero(&self) -> bool {
        self.values().all(|value| value.to_bits() << 1 == 0)
    }

    /// `target += scale * self`, element by element.
    pub fn add_scaled_to(&self, target: &mut [f32], scale: f32) {
        for chunk in &self.chunks {
            let first = chunk.first as usize;
            for (value, update) in target[first..first + chunk.count()].iter_mut().zip(floats(&chunk.payload)) {
                *value += scale * update;
            }
        }
    }

    /// `target := self`.
    pub fn copy_to(&self, target: &mut [f32]) {
        for (value, new) in target.iter_mut().zip(self.values()) {
            *value = new;
        }
    }

    /// The vector decoded.
    pub fn to_vec(&self) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.elements);
        values.extend(self.values());
        values
    }
}

fn floats(payload: &Bytes) -> impl Iterator<Item = f32> + '_ {
    payload.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// Puts a vector together from its chunks as they arrive, in order.
#[derive(Debug)]
pub struct Assembler {
    expected: u64,
    found: u64,
    chunks: Vec<TensorChunk>,
}

impl Assembler {
    /// Waits for `expected` elements.
    pub const fn new(expected: u64) -> Self {
        Self { expected, found: 0, chunks: Vec::new() }
    }

    /// Takes the next chunk.
    pub fn push(&mut self, chunk: TensorChunk) -> Result<(), EncodedError> {
        if chunk.first != self.found {
            return Err(EncodedError::Gap { expected: self.found, found: chunk.first });
        }
        let found = self.found + chunk.count() as u64;
        if found > self.expected {
            return Err(EncodedError::TooMany { expected: self.expected, found });
        }
        if found < self.expected && chunk.count() != FULL_CHUNK {
            return Err(EncodedError::NotFull { expected: FULL_CHUNK, found: chunk.count() });
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
        Encoded { elements: self.found as usize, chunks: self.chunks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_longer_than_a_chunk_comes_back_bit_for_bit() {
        let values: Vec<f32> = (0..600_001).map(|i| (i as f32).sin()).collect();
        let encoded = Encoded::f32(&values);
        assert_eq!(encoded.chunks().len(), 3);
        let mut assembler = Assembler::new(values.len() as u64);
        for chunk in encoded.chunks() {
            assert!(!assembler.is_complete());
            assembler.push(chunk.clone()).expect("in order");
        }
        assert!(assembler.is_complete());
        assert_eq!(assembler.finish().to_vec(), values);
        let mut centre = vec![1.0; values.len()];
        encoded.add_scaled_to(&mut centre, 0.5);
        assert_eq!(centre[600_000], 1.0 + 0.5 * values[600_000]);
    }

    #[test]
    fn chunks_that_leave_a_gap_or_exceed_the_announced_length_are_refused() {
        let encoded = Encoded::f32(&vec![1.0; 300_000]);
        let mut assembler = Assembler::new(300_000);
        let gap = assembler.push(encoded.chunks()[1].clone());
        assert_eq!(gap, Err(EncodedError::Gap { expected: 0, found: 250_000 }));
        let mut short = Assembler::new(250_001);
        short.push(encoded.chunks()[0].clone()).expect("fits");
        let many = short.push(encoded.chunks()[1].clone());
        assert_eq!(many, Err(EncodedError::TooMany { expected: 250_001, found: 300_000 }));
        let crumb = TensorChunk { first: 0, payload: Bytes::from_static(&[0; 4]) };
        let small = Assembler::new(300_000).push(crumb);
        assert_eq!(small, Err(EncodedError::NotFull { expected: 250_000, found: 1 }));
    }

    #[test]
    fn infinities_nans_and_all_zeros_are_seen_by_their_bits() {
        assert!(Encoded::f32(&[0.0, -1.5e38, 1e-45]).all_finite());
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7f80_0001)] {
            assert!(!Encoded::f32(&[0.0, bad]).all_finite(), "{bad}");
        }
        assert_eq!(Encoded::f32(&[1.0, -3.0, 2.0]).largest(), 3.0);
        assert!(Encoded::f32(&[0.0, -0.0]).all_zero());
        assert!(!Encoded::f32(&[0.0, 1e-45]).all_zero());
    }
}
