//! Seeded randomness that both ends draw alike: a named stream per purpose, and permutations that never change
//! between versions (they decide which samples a lease means).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};

/// A stream of random numbers, independent for every (seed, purpose, indices).
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// Opens the stream of `purpose` under `seed`; `indices` tell apart streams of one purpose (an epoch, a shard).
    pub fn new(seed: u64, purpose: &str, indices: &[u64]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"kindling stream 1");
        hash.update(seed.to_le_bytes());
        hash.update((purpose.len() as u64).to_le_bytes());
        hash.update(purpose.as_bytes());
        for index in indices {
            hash.update(index.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(hash.finalize().into()))
    }

    /// A uniform number in [0, 1), with the 24 bits that an f32 holds.
    pub fn unit(&mut self) -> f32 {
        (self.0.next_u32() >> 8) as f32 / (1u32 << 24) as f32
    }

    /// A uniform integer in [0, bound), without modulo bias. `bound` must not be 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        let zone = u32::MAX - (u32::MAX - bound + 1) % bound;
        loop {
            let drawn = self.0.next_u32();
            if drawn <= zone {
                return drawn % bound;
            }
        }
    }
}

/// A permutation of 0..len (Fisher-Yates), the same on both ends.
pub fn permutation(len: u32, seed: u64, purpose: &str, indices: &[u64]) -> Vec<u32> {
    let mut stream = Stream::new(seed, purpose, indices);
    let mut order: Vec<u32> = (0..len).collect();
    for last in (1..len).rev() {
        order.swap(last as usize, stream.below(last + 1) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_holds_every_index_once_and_follows_its_seed() {
        let one = permutation(1000, 7, "shard", &[3, 4]);
        let mut sorted = one.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        assert_eq!(one, permutation(1000, 7, "shard", &[3, 4]));
        assert_ne!(one, permutation(1000, 7, "shard", &[3, 5]));
        assert_ne!(one, permutation(1000, 8, "shard", &[3, 4]));
        assert_ne!(one, permutation(1000, 7, "split", &[3, 4]));
    }

    #[test]
    fn the_order_of_samples_never_changes_between_versions() {
        // Checkpoints and leases of older versions mean these numbers.
        assert_eq!(permutation(8, 1, "shard", &[0, 0]), PINNED);
    }
    const PINNED: [u32; 8] = [1, 6, 2, 5, 3, 4, 7, 0];
}
