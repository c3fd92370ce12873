//! Raw little-endian f32.

use super::{Coding, largest_size};

pub(super) struct F32;

impl Coding for F32 {
    fn encode(&self, values: &[f32], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + values.len() * 4, 0);
        for (bytes, value) in out[start..].as_chunks_mut::<4>().0.iter_mut().zip(values) {
            *bytes = value.to_le_bytes();
        }
    }

    fn largest(&self, payload: &[u8]) -> f32 {
        largest_size(floats(payload))
    }

    fn add_scaled(&self, payload: &[u8], target: &mut [f32], scale: f32) {
        for (value, update) in target.iter_mut().zip(floats(payload)) {
            *value += scale * update;
        }
    }

    fn decode(&self, payload: &[u8], target: &mut [f32]) {
        for (value, new) in target.iter_mut().zip(floats(payload)) {
            *value = new;
        }
    }
}

fn floats(payload: &[u8]) -> impl Iterator<Item = f32> + '_ {
    payload.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}
