//! Samples: the one canonical shard format, batches with padding and mask, and transforms.

mod batch;
mod shard;
mod transform;

pub use batch::{Batch, BatchSource};
pub use shard::{Features, Shard, ShardError};
pub use transform::Transform;
