//! IEEE 754 binary16. Encoding is the crate `half`'s, which uses the CPU's own conversion where there is one; decoding
//! is ours, because it must become one loop with what is done to the value.

use half::f16;
use half::slice::HalfFloatSliceExt as _;

use super::Coding;

/// Elements converted at a time: they stay in the nearest cache.
const STRIP: usize = 1_024;
/// Where the sign is not.
const SIZE: u16 = 0x7fff;

pub(super) struct F16;

impl Coding for F16 {
    #[inline(always)]
    fn encode(&self, values: &[f32], out: &mut Vec<u8>) {
        let mut strip = [f16::ZERO; STRIP];
        for part in values.chunks(STRIP) {
            let strip = &mut strip[..part.len()];
            strip.convert_from_f32_slice(part);
            if cfg!(target_endian = "little") {
                out.extend_from_slice(bytemuck::cast_slice(strip.reinterpret_cast()));
            } else {
                out.extend(strip.iter().flat_map(|value| value.to_le_bytes()));
            }
        }
    }

    #[inline(always)]
    fn largest(&self, payload: &[u8]) -> f32 {
        // Sizes of one sign are ordered as their bits are, infinities and NaN above all.
        decoded(halves(payload).map(|half| (half & SIZE) as i16).fold(0, i16::max) as u16)
    }

    #[inline(always)]
    fn add_scaled(&self, payload: &[u8], target: &mut [f32], scale: f32) {
        for (value, half) in target.iter_mut().zip(halves(payload)) {
            *value += scale * decoded(half);
        }
    }

    #[inline(always)]
    fn decode(&self, payload: &[u8], target: &mut [f32]) {
        for (value, half) in target.iter_mut().zip(halves(payload)) {
            *value = decoded(half);
        }
    }
}

#[inline(always)]
fn halves(payload: &[u8]) -> impl Iterator<Item = u16> + '_ {
    payload.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes))
}

/// The value of a binary16's bits, without branches and without subnormal f32, both of which would slow a loop down.
#[inline(always)]
fn decoded(half: u16) -> f32 {
    /// The least size with an exponent; below it there are multiples of 2^-24.
    const LEAST_NORMAL: u32 = 0x0400;
    const INFINITE: u32 = 0x7c00;
    /// From a binary16's exponent to an f32's: bias 15 to bias 127.
    const REBIAS: u32 = (127 - 15) << 23;
    const STEP: f32 = 1.0 / 16_777_216.0;
    let size = u32::from(half & SIZE);
    let normal = (size << 13) + REBIAS;
    let subnormal = (size as i32 as f32 * STEP).to_bits();
    let finite = if size < LEAST_NORMAL { subnormal } else { normal };
    let exponent = if size < INFINITE { 0 } else { f32::INFINITY.to_bits() };
    let sign = u32::from(half & !SIZE) << 16;
    f32::from_bits(finite | exponent | sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_binary16_has_the_value_that_the_crate_half_gives_it() {
        for bits in 0..=u16::MAX {
            let (found, expected) = (decoded(bits), f16::from_bits(bits).to_f32());
            let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
            assert!(same, "{bits:#06x}: {found:e}, expected {expected:e}");
        }
    }
}
