//! IEEE 754 binary16. Encoding is the crate `half`'s; decoding is ours, because it must become one loop with what is
//! done to the value. On x86-64 that loop uses the CPU's own conversion.

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
        decode_each(payload, target, |value, update| *value += scale * update);
    }

    #[inline(always)]
    fn decode(&self, payload: &[u8], target: &mut [f32]) {
        decode_each(payload, target, |value, new| *value = new);
    }
}

/// Gives every element of `target` its value of the payload.
#[inline(always)]
fn decode_each(payload: &[u8], target: &mut [f32], each: impl Fn(&mut f32, f32)) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c") {
        // SAFETY: the CPU was just asked for what the function needs.
        #[allow(unsafe_code)]
        return unsafe { decode_each_by_f16c(payload, target, each) };
    }
    decode_each_by_bits(payload, target, each);
}

/// Three times as fast as by bits. `fast` cannot do it: what it asks the CPU for does not include this conversion.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,f16c")]
fn decode_each_by_f16c(payload: &[u8], target: &mut [f32], each: impl Fn(&mut f32, f32)) {
    use std::arch::x86_64::_mm256_cvtph_ps;
    let (groups, rest) = payload.as_chunks::<16>();
    let (target_groups, target_rest) = target.as_chunks_mut::<8>();
    for (bytes, target) in groups.iter().zip(target_groups) {
        let values: [f32; 8] = bytemuck::cast(_mm256_cvtph_ps(bytemuck::cast(*bytes)));
        for (value, new) in target.iter_mut().zip(values) {
            each(value, new);
        }
    }
    decode_each_by_bits(rest, target_rest, each);
}

#[inline(always)]
fn decode_each_by_bits(payload: &[u8], target: &mut [f32], each: impl Fn(&mut f32, f32)) {
    for (value, half) in target.iter_mut().zip(halves(payload)) {
        each(value, decoded(half));
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
        let payload: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let (mut found, mut by_bits) = (vec![0.0; 0x1_0000], vec![0.0; 0x1_0000]);
        F16.decode(&payload, &mut found);
        decode_each_by_bits(&payload, &mut by_bits, |value, new| *value = new);
        for bits in 0..=u16::MAX {
            let expected = f16::from_bits(bits).to_f32();
            for found in [found[usize::from(bits)], by_bits[usize::from(bits)]] {
                let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
                assert!(same, "{bits:#06x}: {found:e}, expected {expected:e}");
            }
        }
    }
}
