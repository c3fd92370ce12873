//! Signed bytes with a scale for each block: `[scale: f32][q: i8 for each element]`, an element is `scale * q`.

use super::{Coding, largest_size};

/// Elements of one block; the last one of a vector may be shorter.
pub(super) const BLOCK: usize = 1_024;
pub(super) const SCALE_BYTES: usize = 4;
/// The largest q; -128 is never written, so that the range is symmetric.
const MOST: f32 = 127.0;

pub(super) struct Int8;

impl Coding for Int8 {
    #[inline(always)]
    fn encode(&self, values: &[f32], out: &mut Vec<u8>) {
        for block in values.chunks(BLOCK) {
            let scale = largest_size(block.iter().copied()) / MOST;
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            out.extend_from_slice(&scale.to_le_bytes());
            let start = out.len();
            out.resize(start + block.len(), 0);
            for (byte, value) in out[start..].iter_mut().zip(block) {
                *byte = nearest(value * inverse);
            }
        }
    }

    #[inline(always)]
    fn largest(&self, payload: &[u8]) -> f32 {
        let of_block = |block: &[u8]| {
            let (scale, bytes) = split(block);
            let largest = bytes.iter().fold(0, |largest: u8, byte| largest.max(byte.cast_signed().unsigned_abs()));
            // A scale that is no number counts even where every byte is zero.
            if scale.is_finite() { scale * f32::from(largest) } else { scale }
        };
        largest_size(payload.chunks(SCALE_BYTES + BLOCK).map(of_block))
    }

    #[inline(always)]
    fn add_scaled(&self, payload: &[u8], target: &mut [f32], scale: f32) {
        for (block, target) in payload.chunks(SCALE_BYTES + BLOCK).zip(target.chunks_mut(BLOCK)) {
            let (step, bytes) = split(block);
            let step = step * scale;
            for (value, byte) in target.iter_mut().zip(bytes) {
                *value += step * f32::from(byte.cast_signed());
            }
        }
    }

    #[inline(always)]
    fn decode(&self, payload: &[u8], target: &mut [f32]) {
        for (block, target) in payload.chunks(SCALE_BYTES + BLOCK).zip(target.chunks_mut(BLOCK)) {
            let (step, bytes) = split(block);
            for (value, byte) in target.iter_mut().zip(bytes) {
                *value = step * f32::from(byte.cast_signed());
            }
        }
    }
}

/// Scale and bytes of a block. A block that is cut off inside its scale holds nothing.
#[inline(always)]
fn split(block: &[u8]) -> (f32, &[u8]) {
    block.split_first_chunk::<SCALE_BYTES>().map_or((0.0, &[]), |(scale, bytes)| (f32::from_le_bytes(*scale), bytes))
}

/// The nearest whole number as a byte, ties to even, for |value| <= 127: adding 1.5 * 2^23 moves the number's bits to
/// the bottom of the mantissa. A cast would be slower: it saturates.
#[inline(always)]
fn nearest(value: f32) -> u8 {
    const SHIFT: f32 = 12_582_912.0;
    (value + SHIFT).to_bits() as u8
}
