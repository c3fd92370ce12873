//! The centre: the parameters that all workers share, and the snapshot of them that is sent to everybody.

use std::sync::Arc;

use bytes::Bytes;
use kindling_shared::params::{Codec, Encoded, Layout};
use kindling_shared::protocol::{SnapshotHeader, ToWorker, Version};
use kindling_shared::strategy::{Commit, ServerHalf};

/// The centre in wire form: encoded once, the same bytes for everybody.
#[derive(Debug)]
pub struct Snapshot {
    /// The centre's version.
    pub version: Version,
    /// The header frame and the chunks.
    pub frames: Vec<Bytes>,
}

/// The centre, with the server's half of the rule that changes it.
pub struct Centre {
    values: Arc<Vec<f32>>,
    layout: Arc<Layout>,
    rule: Box<dyn ServerHalf>,
    codec: Codec,
    snapshot: Option<Arc<Snapshot>>,
}

impl Centre {
    /// A centre with these values, whose snapshots are encoded by `codec`.
    pub fn new(values: Vec<f32>, layout: Arc<Layout>, rule: Box<dyn ServerHalf>, codec: Codec) -> Self {
        Self { values: Arc::new(values), layout, rule, codec, snapshot: None }
    }

    /// Changes the centre by an accepted commit. The caller has checked that the update is as long as the centre.
    pub fn apply(&mut self, commit: &Commit<'_>) {
        self.snapshot = None;
        self.rule.apply(Arc::make_mut(&mut self.values).as_mut_slice(), &self.layout, commit);
    }

    /// The values. Whoever keeps them makes the next commit copy the vector: evaluation does, now and then.
    pub fn values(&self) -> Arc<Vec<f32>> {
        Arc::clone(&self.values)
    }

    /// The snapshot of `version`, which must be the centre's own; encoded when it is first asked for.
    pub fn snapshot(&mut self, version: Version) -> Arc<Snapshot> {
        let values = &self.values;
        let snapshot = self.snapshot.get_or_insert_with(|| {
            let header = ToWorker::Snapshot(SnapshotHeader { version, elements: values.len() as u64 });
            let encoded = Encoded::new(values, self.codec);
            let chunks = encoded.chunks().iter().map(|chunk| ToWorker::Tensor(chunk.clone()).encode());
            Arc::new(Snapshot { version, frames: std::iter::once(header.encode()).chain(chunks).collect() })
        });
        Arc::clone(snapshot)
    }
}
