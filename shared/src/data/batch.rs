//! Batches: features as f32, labels, and a mask. A tail batch is padded, so that shapes never change.

use std::sync::Arc;

use super::{Shard, Transform};

/// One mini-batch on the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// `[batch_size, sample_shape...]`, row by row, transformed.
    pub features: Vec<f32>,
    /// `[batch_size]`; padded rows hold class 0.
    pub labels: Vec<i32>,
    /// `[batch_size]`: 1 for a sample, 0 for padding.
    pub mask: Vec<f32>,
    /// Samples that are not padding.
    pub samples: u32,
}

/// The samples of a window, cut into batches on demand.
#[derive(Clone, Debug)]
pub struct BatchSource {
    /// (shard, index of the sample in it), in the order of training.
    order: Vec<(Arc<Shard>, u32)>,
    batch_size: usize,
    transforms: Arc<[Transform]>,
}

impl BatchSource {
    /// Batches of `batch_size` over samples in this order. All shards have one sample shape.
    pub fn new(order: Vec<(Arc<Shard>, u32)>, batch_size: u32, transforms: Arc<[Transform]>) -> Self {
        Self { order, batch_size: batch_size.max(1) as usize, transforms }
    }

    /// Number of batches, the padded one included.
    pub fn batches(&self) -> usize {
        self.order.len().div_ceil(self.batch_size)
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.order.len()
    }

    /// The batch at `index` (0..batches).
    pub fn batch(&self, index: usize) -> Batch {
        let start = index * self.batch_size;
        let rows = &self.order[start..self.order.len().min(start + self.batch_size)];
        let size = rows.first().map_or(0, |(shard, _)| shard.sample_size());
        let mut features = Vec::with_capacity(self.batch_size * size);
        let mut labels = Vec::with_capacity(self.batch_size);
        for (shard, sample) in rows {
            let sample = *sample as usize;
            shard.features.extend(sample * size..(sample + 1) * size, &mut features);
            labels.push(shard.labels[sample] as i32);
        }
        for transform in self.transforms.iter() {
            transform.apply(&mut features);
        }
        features.resize(self.batch_size * size, 0.0);
        labels.resize(self.batch_size, 0);
        let mut mask = vec![0.0; self.batch_size];
        mask[..rows.len()].fill(1.0);
        Batch { features, labels, mask, samples: rows.len() as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Features;
    use super::*;

    #[test]
    fn the_tail_is_padded_and_masked_and_no_sample_is_dropped() {
        let shard = Arc::new(Shard {
            sample_shape: vec![2],
            features: Features::U8(vec![0, 1, 2, 3, 4, 5].into()),
            labels: vec![5, 6, 7],
        });
        let order = vec![(Arc::clone(&shard), 2), (Arc::clone(&shard), 0), (shard, 1)];
        let source = BatchSource::new(order, 2, [Transform::Scale { by: 0.5 }].into());
        assert_eq!(source.batches(), 2);
        let first = Batch { features: vec![2.0, 2.5, 0.0, 0.5], labels: vec![7, 5], mask: vec![1.0, 1.0], samples: 2 };
        assert_eq!(source.batch(0), first);
        let tail = Batch { features: vec![1.0, 1.5, 0.0, 0.0], labels: vec![6, 0], mask: vec![1.0, 0.0], samples: 1 };
        assert_eq!(source.batch(1), tail);
    }
}
