//! The centre: the parameters that all workers share, and the snapshot of them that is sent to everybody.

use std::sync::Arc;

use bytes::Bytes;
use kindling_shared::params::{Codec, Layout, Parts};
use kindling_shared::protocol::{SnapshotHeader, ToWorker, Version};
use kindling_shared::strategy::{Commit, ServerHalf};

/// The centre in wire form, the same bytes for everybody: the header frame and the chunks.
pub type Snapshot = Vec<Bytes>;

/// The centre, with the server's half of the rule that changes it.
pub struct Centre {
    values: Parts,
    layout: Arc<Layout>,
    rule: Box<dyn ServerHalf>,
    codec: Codec,
    snapshot: Option<Snapshot>,
}

impl Centre {
    /// A centre with these values, whose snapshots are encoded by `codec`.
    pub fn new(values: &[f32], layout: Arc<Layout>, rule: Box<dyn ServerHalf>, codec: Codec) -> Self {
        Self { values: Parts::new(values), layout, rule, codec, snapshot: None }
    }

    /// Changes the centre by an accepted commit. The caller has checked that the update is as long as the centre.
    pub fn apply(&mut self, commit: &Commit<'_>) {
        // What is not on its way to anybody any more is changed in place.
        self.snapshot = None;
        self.rule.apply(&mut self.values, &self.layout, commit);
    }

    /// The values as they are now, without a copy.
    pub fn values(&self) -> Parts {
        self.values.clone()
    }

    /// The snapshot of `version`, which must be the centre's own; encoded when it is first asked for.
    pub fn snapshot(&mut self, version: Version) -> Snapshot {
        let snapshot = self.snapshot.get_or_insert_with(|| {
            let header = ToWorker::Snapshot(SnapshotHeader { version, elements: self.values.elements() as u64 });
            let chunks = self.values.chunks(self.codec).into_iter().map(|chunk| ToWorker::Tensor(chunk).encode());
            std::iter::once(header.encode()).chain(chunks).collect()
        });
        snapshot.clone()
    }
}
