//! The sharder: permutes all samples once by seed, splits off the validation part, and cuts the rest into
//! content-addressed shards in their stored type.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use kindling_shared::data::{Features, Shard};
use kindling_shared::protocol::{ShardHash, limits};
use kindling_shared::random::permutation;

use super::{DataError, Samples};

/// A shard as it is served.
#[derive(Clone, Debug)]
pub struct StoredShard {
    /// Its address.
    pub hash: ShardHash,
    /// Its samples.
    pub samples: u32,
    /// Its canonical bytes.
    pub bytes: Bytes,
}

/// A data set, cut.
#[derive(Debug)]
pub struct Dataset {
    /// Shape of one sample.
    pub sample_shape: Vec<usize>,
    /// The training part.
    pub shards: Vec<StoredShard>,
    /// The validation part, which no worker sees.
    pub validation: Arc<Shard>,
    by_hash: BTreeMap<ShardHash, usize>,
}

impl Dataset {
    /// Samples of the training part.
    pub fn train_samples(&self) -> u64 {
        self.shards.iter().map(|shard| u64::from(shard.samples)).sum()
    }

    /// The shard at an address.
    pub fn shard(&self, hash: &ShardHash) -> Option<&StoredShard> {
        self.by_hash.get(hash).map(|&index| &self.shards[index])
    }
}

/// Where the validation samples come from.
pub enum Validation {
    /// A share of the samples, 0 to 1, drawn by seed.
    Share(f64),
    /// Samples of their own.
    Samples(Samples),
}

/// Cuts samples into shards of `shard_samples`.
pub fn cut(samples: &Samples, validation: Validation, shard_samples: u32, seed: u64) -> Result<Dataset, DataError> {
    let order = permutation(samples.len() as u32, seed, "split", &[]);
    let (held_out, train) = match &validation {
        Validation::Share(share) => order.split_at((samples.len() as f64 * share).round() as usize),
        Validation::Samples(own) if own.sample_shape != samples.sample_shape => {
            return Err(DataError::Mismatch(format!(
                "validation samples have shape {:?}, training samples {:?}",
                own.sample_shape, samples.sample_shape
            )));
        }
        Validation::Samples(_) => order.split_at(0),
    };
    if train.is_empty() {
        return Err(DataError::Mismatch("there is no sample to train on".into()));
    }
    let sample_bytes = samples.sample_size() * samples.features.width() + 4;
    if sample_bytes * shard_samples as usize + 1_024 > limits::SHARD_BYTES {
        return Err(DataError::Mismatch(format!(
            "shard_samples = {shard_samples} makes shards of more than {} bytes: take at most {}",
            limits::SHARD_BYTES,
            (limits::SHARD_BYTES - 1_024) / sample_bytes
        )));
    }
    let shards: Vec<StoredShard> = train
        .chunks(shard_samples as usize)
        .map(|part| {
            let bytes = pick(samples, part).encode();
            StoredShard { hash: ShardHash::of(&bytes), samples: part.len() as u32, bytes }
        })
        .collect();
    let validation = match validation {
        Validation::Share(_) => pick(samples, held_out),
        Validation::Samples(own) => own,
    };
    if validation.is_empty() {
        return Err(DataError::Mismatch("there is no sample to validate on: raise the share".into()));
    }
    let by_hash = shards.iter().enumerate().map(|(index, shard)| (shard.hash, index)).collect();
    Ok(Dataset { sample_shape: samples.sample_shape.clone(), shards, validation: Arc::new(validation), by_hash })
}

fn pick(samples: &Samples, indices: &[u32]) -> Shard {
    let row = samples.sample_size() * samples.features.width();
    let stored = samples.features.bytes();
    let mut bytes = Vec::with_capacity(row * indices.len());
    for &index in indices {
        bytes.extend_from_slice(&stored[index as usize * row..][..row]);
    }
    let features = match samples.features {
        Features::U8(_) => Features::U8(bytes.into()),
        Features::F32(_) => Features::F32(bytes.into()),
    };
    let labels = indices.iter().map(|&index| samples.labels[index as usize]).collect();
    Shard { sample_shape: samples.sample_shape.clone(), features, labels }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::digits;

    #[test]
    fn no_sample_is_lost_or_doubled_by_split_and_shards() {
        let samples = digits().expect("embedded");
        let dataset = cut(&samples, Validation::Share(0.2), 100, 7).expect("cuts");
        assert_eq!((dataset.train_samples(), dataset.validation.len()), (1_438, 359));
        assert_eq!(dataset.shards.len(), 15);
        assert_eq!(dataset.shards.last().map(|shard| shard.samples), Some(38));
        let rows = |shard: &Shard| -> Vec<Vec<u8>> { shard.features.bytes().chunks(64).map(<[u8]>::to_vec).collect() };
        let mut found = rows(&dataset.validation);
        for stored in &dataset.shards {
            assert_eq!(dataset.shard(&stored.hash).map(|shard| shard.samples), Some(stored.samples));
            found.extend(rows(&Shard::decode(&stored.bytes).expect("a shard")));
        }
        let mut expected = rows(&samples);
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_same_seed_gives_the_same_addresses() {
        let samples = digits().expect("embedded");
        let addresses = |seed| -> Vec<ShardHash> {
            let dataset = cut(&samples, Validation::Share(0.2), 256, seed).expect("cuts");
            dataset.shards.iter().map(|shard| shard.hash).collect()
        };
        assert_eq!(addresses(1), addresses(1));
        assert_ne!(addresses(1), addresses(2));
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let samples = digits().expect("embedded");
        let other = Samples { sample_shape: vec![64], ..samples.clone() };
        let error = cut(&samples, Validation::Samples(other), 100, 7).expect_err("shapes differ");
        assert_eq!(error.to_string(), "validation samples have shape [64], training samples [1, 8, 8]");
        assert!(cut(&samples, Validation::Share(1.0), 100, 7).is_err());
        assert!(cut(&samples, Validation::Share(0.0), 100, 7).is_err());
        assert!(cut(&samples, Validation::Share(0.5), 1_000_000, 7).is_err());
    }
}
