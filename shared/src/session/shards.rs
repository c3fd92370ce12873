//! The shards that a session holds: bounded, and never without the ones that its lease needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::data::Shard;
use crate::protocol::ShardHash;

/// Feature bytes held at most, beside those of the lease at work.
const MOST_BYTES: usize = 128 << 20;

#[derive(Default)]
pub(super) struct ShardCache {
    held: BTreeMap<ShardHash, Arc<Shard>>,
    bytes: usize,
    requested: BTreeSet<ShardHash>,
    /// Times in a row that a shard could not be had.
    failures: u32,
}

impl ShardCache {
    pub(super) fn get(&self, hash: &ShardHash) -> Option<&Arc<Shard>> {
        self.held.get(hash)
    }

    /// True the first time that a shard is missing: it is to be fetched now.
    pub(super) fn request(&mut self, hash: ShardHash) -> bool {
        !self.held.contains_key(&hash) && self.requested.insert(hash)
    }

    pub(super) fn insert(&mut self, hash: ShardHash, shard: Shard, needed: impl Fn(&ShardHash) -> bool) {
        self.requested.remove(&hash);
        self.failures = 0;
        let size = shard.features.bytes().len();
        while self.bytes + size > MOST_BYTES {
            let Some(unneeded) = self.held.keys().find(|hash| !needed(hash)).copied() else {
                break;
            };
            if let Some(shard) = self.held.remove(&unneeded) {
                self.bytes -= shard.features.bytes().len();
            }
        }
        if self.held.insert(hash, Arc::new(shard)).is_none() {
            self.bytes += size;
        }
    }

    /// What was asked for and has not come may never come: it is asked for again.
    pub(super) fn forget_requests(&mut self) {
        self.requested.clear();
    }

    /// Returns how often in a row fetching failed.
    pub(super) fn failed(&mut self, hash: &ShardHash) -> u32 {
        self.requested.remove(hash);
        self.failures += 1;
        self.failures
    }
}
