//! IEEE 754 binary16, by the crate `half`: it uses the CPU's own conversion where there is one.

use half::f16;
use half::slice::HalfFloatSliceExt as _;

use super::Coding;

/// Elements converted at a time: they stay in the nearest cache.
const STRIP: usize = 1_024;

pub(super) struct F16;

impl Coding for F16 {
    fn encode(&self, values: &[f32], out: &mut Vec<u8>) {
        let mut strip = [f16::ZERO; STRIP];
        for part in values.chunks(STRIP) {
            let strip = &mut strip[..part.len()];
            strip.convert_from_f32_slice(part);
            for value in strip {
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
    }

    fn largest(&self, payload: &[u8]) -> f32 {
        const SIGN: u16 = 0x8000;
        // Sizes of one sign are ordered as their bits are, infinities and NaN above all.
        let sizes = payload.as_chunks::<2>().0.iter().map(|bytes| (u16::from_le_bytes(*bytes) & !SIGN) as i16);
        f16::from_bits(sizes.fold(0, i16::max) as u16).to_f32()
    }

    fn add_scaled(&self, payload: &[u8], target: &mut [f32], scale: f32) {
        strips(payload, target, |target, values| {
            for (value, update) in target.iter_mut().zip(values) {
                *value += scale * update;
            }
        });
    }

    fn decode(&self, payload: &[u8], target: &mut [f32]) {
        strips(payload, target, |target, values| target.copy_from_slice(values));
    }
}

fn strips(payload: &[u8], target: &mut [f32], each: impl Fn(&mut [f32], &[f32])) {
    let (mut halves, mut floats) = ([f16::ZERO; STRIP], [0.0; STRIP]);
    for (part, target) in payload.as_chunks::<2>().0.chunks(STRIP).zip(target.chunks_mut(STRIP)) {
        let (halves, floats) = (&mut halves[..part.len()], &mut floats[..part.len()]);
        for (half, bytes) in halves.iter_mut().zip(part) {
            *half = f16::from_le_bytes(*bytes);
        }
        halves.convert_to_f32_slice(floats);
        each(target, floats);
    }
}
