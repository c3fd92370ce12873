//! A vector in parts, each of which lies in memory as the f32 frame that carries it: to publish it copies nothing.

use std::sync::Arc;

use bytes::Bytes;

use super::{Codec, Encoded};
use crate::protocol::{TensorChunk, limits};

/// Numbers in front of a part's values: the room of its frame's header.
const HEADER: usize = limits::CHUNK_HEADER_BYTES / size_of::<f32>();

/// A vector in parts of [`limits::CHUNK_ELEMENTS`]. Cloning shares them; a shared part is copied when it changes.
#[derive(Clone, Debug)]
pub struct Parts {
    parts: Vec<Part>,
    elements: usize,
}

/// The frame's header, and the values behind it.
#[derive(Clone, Debug)]
struct Part(Arc<Vec<f32>>);

impl Part {
    fn new(first: usize, values: &[f32]) -> Self {
        let header = TensorChunk::header(first as u64, Codec::F32, values.len());
        let header = header.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes));
        Self(Arc::new(header.chain(values.iter().copied()).collect()))
    }

    fn values(&self) -> &[f32] {
        &self.0[HEADER..]
    }
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl Parts {
    /// A copy of these values, in parts.
    pub fn new(values: &[f32]) -> Self {
        let part = |(index, part): (usize, &[f32])| Part::new(index * limits::CHUNK_ELEMENTS, part);
        Self { parts: values.chunks(limits::CHUNK_ELEMENTS).enumerate().map(part).collect(), elements: values.len() }
    }

    /// Length of the vector.
    pub const fn elements(&self) -> usize {
        self.elements
    }

    /// Lets `change` work on each part in turn; it gets the index of the part's first element and the values.
    pub fn for_each(&mut self, mut change: impl FnMut(usize, &mut [f32])) {
        for (index, part) in self.parts.iter_mut().enumerate() {
            change(index * limits::CHUNK_ELEMENTS, &mut Arc::make_mut(&mut part.0)[HEADER..]);
        }
    }

    /// `self += scale * update`, element by element; both have the same length.
    pub fn add_scaled(&mut self, update: &Encoded, scale: f32) {
        self.for_each(|first, values| update.add_scaled_to(first, values, scale));
    }

    /// `self := update`; both have the same length.
    pub fn set(&mut self, update: &Encoded) {
        self.for_each(|first, values| update.copy_to(first, values));
    }

    /// The vector in one piece.
    pub fn to_vec(&self) -> Vec<f32> {
        self.parts.iter().flat_map(Part::values).copied().collect()
    }

    /// The vector in wire form. As f32 its chunks are the parts themselves.
    pub fn chunks(&self, codec: Codec) -> Vec<TensorChunk> {
        if codec == Codec::F32 && cfg!(target_endian = "little") {
            let chunk = |(index, part): (usize, &Part)| {
                let first = (index * limits::CHUNK_ELEMENTS) as u64;
                TensorChunk::of_frame(first, codec, part.values().len(), Bytes::from_owner(part.clone()))
            };
            return self.parts.iter().enumerate().map(chunk).collect();
        }
        let full = codec.elements_of_full_chunk();
        let chunk = |(index, parts): (usize, &[Part])| {
            let count = parts.iter().map(|part| part.values().len()).sum();
            TensorChunk::build((index * full) as u64, codec, count, |out| {
                for part in parts {
                    codec.encode(part.values(), out);
                }
            })
        };
        self.parts.chunks(full / limits::CHUNK_ELEMENTS).enumerate().map(chunk).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ToServer;

    fn values(count: usize) -> Vec<f32> {
        (0..count).map(|index| (index as f32).sin()).collect()
    }

    #[test]
    fn in_every_codec_the_chunks_are_those_of_the_vector_in_one_piece() {
        for count in [1, limits::CHUNK_ELEMENTS, 5 * limits::CHUNK_ELEMENTS + 1_500] {
            let (parts, whole) = (Parts::new(&values(count)), values(count));
            assert_eq!(parts.to_vec(), whole);
            for codec in Codec::ALL {
                assert_eq!(parts.chunks(codec), Encoded::new(&whole, codec).chunks(), "{count} as {codec:?}");
            }
            for chunk in parts.chunks(Codec::F32) {
                let frame = ToServer::Tensor(chunk.clone()).encode();
                assert_eq!(ToServer::decode(&frame), Ok(ToServer::Tensor(chunk)));
            }
        }
    }

    #[test]
    fn an_update_of_any_codec_changes_the_parts_as_it_changes_the_vector_in_one_piece() {
        let count = 9 * limits::CHUNK_ELEMENTS + 1_500;
        for codec in Codec::ALL {
            let update = Encoded::new(&values(count), codec);
            let (mut parts, mut whole) = (Parts::new(&vec![1.0; count]), vec![1.0; count]);
            parts.add_scaled(&update, 0.5);
            update.add_scaled_to(0, &mut whole, 0.5);
            assert_eq!(parts.to_vec(), whole, "{codec:?}");
            parts.set(&update);
            assert_eq!(parts.to_vec(), update.to_vec(), "{codec:?}");
        }
    }

    #[test]
    fn what_was_published_stays_as_it_was_and_what_nobody_holds_is_changed_in_place() {
        let mut parts = Parts::new(&values(2 * limits::CHUNK_ELEMENTS));
        let published = parts.chunks(Codec::F32);
        let (first, second) = (parts.parts[0].0.as_ptr(), parts.parts[1].0.as_ptr());
        let kept = published[0].clone();
        drop(published);
        parts.for_each(|_, values| values.fill(7.0));
        assert_ne!(parts.parts[0].0.as_ptr(), first);
        assert_eq!(parts.parts[1].0.as_ptr(), second);
        assert_eq!(kept, Encoded::new(&values(2 * limits::CHUNK_ELEMENTS), Codec::F32).chunks()[0]);
    }
}
