//! Data sets: one reader a format, and the sharder that cuts what they read.

mod digits;
mod idx;
mod sharder;

use std::path::PathBuf;

use kindling_shared::data::Shard;
use thiserror::Error;

pub use digits::digits;
pub use idx::read_idx;
pub use sharder::{Dataset, StoredShard, Validation, cut};

/// All samples of a part of a data set, in one piece and in the order of their files.
pub type Samples = Shard;

/// Why a data file cannot be used.
#[derive(Debug, Error)]
pub enum DataError {
    /// Not there, or not readable.
    #[error("{path}: {error}; paths are relative to the run file", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// Not what its format promises.
    #[error("{path}: {what}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong where, and what to do.
        what: String,
    },
    /// The parts do not fit together.
    #[error("{0}")]
    Mismatch(String),
}
