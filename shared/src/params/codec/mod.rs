//! Codecs: how the elements of a vector become bytes. A codec is one file; its number on the wire never changes.
//!
//! What arrives is judged and applied in its encoded form: nothing here needs a decoded copy.

// What is not inlined into `fast` is not compiled for the CPU that it finds.
#![allow(clippy::inline_always)]

mod f16;
mod f32;
mod fast;
mod int8;

use fast::Fast;
use serde::{Deserialize, Serialize};

use crate::protocol::limits;

/// How the elements of a vector travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Codec {
    /// Raw little-endian f32: exact.
    #[default]
    F32,
    /// IEEE 754 binary16, little-endian: 11 significant bits; beyond 65,504 it overflows.
    F16,
    /// Signed bytes with one f32 scale for each block: an error of at most half a scale, 1/254 of the block's largest.
    Int8,
}

/// What one codec does. Payloads are whole blocks, `values` and `target` as long as the payload says.
trait Coding: Sync {
    /// Appends the encoded values.
    fn encode(&self, values: &[f32], out: &mut Vec<u8>);

    /// The largest element by its size: infinite or NaN where one element is, 0 where all are zero.
    fn largest(&self, payload: &[u8]) -> f32;

    /// `target += scale * payload`
    fn add_scaled(&self, payload: &[u8], target: &mut [f32], scale: f32);

    /// `target := payload`
    fn decode(&self, payload: &[u8], target: &mut [f32]);
}

impl Codec {
    /// Every codec, in the order of its number.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Int8];

    /// Its number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Int8 => 2,
        }
    }

    /// The codec of this number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Bytes of so many encoded elements.
    pub const fn bytes(self, elements: usize) -> usize {
        match self {
            Self::F32 => elements * 4,
            Self::F16 => elements * 2,
            Self::Int8 => elements + elements.div_ceil(int8::BLOCK) * int8::SCALE_BYTES,
        }
    }

    /// Elements of a full chunk: a multiple of [`limits::CHUNK_ELEMENTS`], and of the codec's block.
    pub const fn elements_of_full_chunk(self) -> usize {
        match self {
            Self::F32 => limits::CHUNK_ELEMENTS,
            Self::F16 => 2 * limits::CHUNK_ELEMENTS,
            Self::Int8 => 4 * limits::CHUNK_ELEMENTS,
        }
    }

    fn coding(self) -> &'static dyn Coding {
        match self {
            Self::F32 => &Fast(f32::F32),
            Self::F16 => &Fast(f16::F16),
            Self::Int8 => &Fast(int8::Int8),
        }
    }

    pub(super) fn encode(self, values: &[f32], out: &mut Vec<u8>) {
        self.coding().encode(values, out);
    }

    pub(crate) fn largest(self, payload: &[u8]) -> f32 {
        self.coding().largest(payload)
    }

    pub(super) fn add_scaled(self, payload: &[u8], target: &mut [f32], scale: f32) {
        self.coding().add_scaled(payload, target, scale);
    }

    pub(super) fn decode(self, payload: &[u8], target: &mut [f32]) {
        self.coding().decode(payload, target);
    }
}

/// The largest of some sizes, NaN above all: sizes are compared by their bits, because a comparison of floats would
/// pass a NaN over.
#[inline(always)]
fn largest_size(sizes: impl Iterator<Item = f32>) -> f32 {
    const SIGN: u32 = 0x8000_0000;
    // As i32, not u32: every CPU has a vector instruction for it.
    let bits = sizes.fold(0, |largest: i32, value| largest.max((value.to_bits() & !SIGN) as i32));
    f32::from_bits(bits as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(codec: Codec, values: &[f32]) -> Vec<f32> {
        let mut payload = Vec::new();
        codec.encode(values, &mut payload);
        assert_eq!(payload.len(), codec.bytes(values.len()));
        let mut out = vec![0.0; values.len()];
        codec.decode(&payload, &mut out);
        out
    }

    /// Half the distance between two neighbours of the codec's numbers around the block's largest.
    fn bound(codec: Codec, values: &[f32], index: usize) -> f32 {
        match codec {
            Codec::F32 => 0.0,
            Codec::F16 => (values[index].abs() / 2_048.0).max(3e-8),
            Codec::Int8 => {
                let first = index / int8::BLOCK * int8::BLOCK;
                let block = &values[first..values.len().min(first + int8::BLOCK)];
                largest_size(block.iter().copied()) / 254.0 * 1.001
            }
        }
    }

    #[test]
    fn a_number_names_one_codec_and_a_full_chunk_fits() {
        for codec in Codec::ALL {
            assert_eq!(Codec::of_number(codec.number()), Some(codec));
            let full = codec.elements_of_full_chunk();
            assert!(codec.bytes(full) <= limits::CHUNK_BYTES && codec.bytes(full) > limits::CHUNK_BYTES * 99 / 100);
        }
        assert_eq!(Codec::of_number(3), None);
    }

    #[test]
    fn the_size_of_a_full_chunk_is_the_documented_one() {
        let documented = include_str!("../../../../docs/protocol.md");
        assert_eq!(Codec::Int8.bytes(Codec::Int8.elements_of_full_chunk()), limits::CHUNK_BYTES);
        for (codec, elements) in [(Codec::F32, "61,440"), (Codec::F16, "122,880"), (Codec::Int8, "245,760")] {
            assert_eq!(codec.elements_of_full_chunk().to_string(), elements.replace(',', ""));
            assert!(documented.contains(&format!("| {elements} |")), "{codec:?}");
        }
    }

    #[test]
    fn what_is_not_finite_stays_visible_in_every_codec() {
        for codec in Codec::ALL {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut values = vec![0.5; 3_000];
                values[2_500] = bad;
                let mut payload = Vec::new();
                codec.encode(&values, &mut payload);
                assert!(!codec.largest(&payload).is_finite(), "{codec:?} hides {bad}");
            }
            let mut payload = Vec::new();
            codec.encode(&vec![-0.0; 3_000], &mut payload);
            assert_eq!(codec.largest(&payload), 0.0);
        }
    }

    proptest! {
        #[test]
        fn a_round_trip_stays_within_the_codecs_bound(
            values in proptest::collection::vec(-100.0_f32..100.0, 1..3_000),
        ) {
            for codec in Codec::ALL {
                for (index, (found, value)) in decoded(codec, &values).iter().zip(&values).enumerate() {
                    prop_assert!((found - value).abs() <= bound(codec, &values, index), "{:?}: {} for {}", codec, found, value);
                }
            }
        }

        #[test]
        fn adding_from_the_encoded_form_is_adding_the_decoded_vector(
            values in proptest::collection::vec(-10.0_f32..10.0, 1..2_500),
            scale in -2.0_f32..2.0,
        ) {
            for codec in Codec::ALL {
                let mut payload = Vec::new();
                codec.encode(&values, &mut payload);
                let mut target = vec![1.0; values.len()];
                codec.add_scaled(&payload, &mut target, scale);
                for (found, value) in target.iter().zip(decoded(codec, &values)) {
                    prop_assert!((found - (1.0 + scale * value)).abs() <= 1e-5);
                }
                let largest = decoded(codec, &values).iter().fold(0.0_f32, |most, value| most.max(value.abs()));
                prop_assert!((codec.largest(&payload) - largest).abs() <= 1e-5 * largest);
            }
        }
    }
}
