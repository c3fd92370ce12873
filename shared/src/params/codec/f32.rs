//! Raw little-endian f32.

use super::{Coding, largest_size};

pub(super) struct F32;

impl Coding for F32 {
    #[inline(always)]
    fn encode(&self, values: &[f32], out: &mut Vec<u8>) {
        if cfg!(target_endian = "little") {
            // The bytes in memory are the bytes on the wire: one copy.
            out.extend_from_slice(bytemuck::cast_slice(values));
        } else {
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
    }

    #[inline(always)]
    fn largest(&self, payload: &[u8]) -> f32 {
        largest_size(floats(payload))
    }

    #[inline(always)]
    fn add_scaled(&self, payload: &[u8], target: &mut [f32], scale: f32) {
        for (value, update) in target.iter_mut().zip(floats(payload)) {
            *value += scale * update;
        }
    }

    #[inline(always)]
    fn decode(&self, payload: &[u8], target: &mut [f32]) {
        if cfg!(target_endian = "little") && payload.len() == 4 * target.len() {
            bytemuck::cast_slice_mut(target).copy_from_slice(payload);
        } else {
            for (value, new) in target.iter_mut().zip(floats(payload)) {
                *value = new;
            }
        }
    }
}

#[inline(always)]
fn floats(payload: &[u8]) -> impl Iterator<Item = f32> + '_ {
    payload.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}
