//! The run file: what a host writes. Every error names the file, the place and the remedy.

mod load;
mod schema;

pub use load::{LoadedRun, embedded_digits, load};
pub use schema::{DataFormat, DataSettings, Files, RunFile, StopSettings, ValidationSettings};

use thiserror::Error;

/// Why a run file cannot be used.
#[derive(Debug, Error)]
#[error("{file}: {what}")]
pub struct RunFileError {
    /// The run file.
    pub file: String,
    /// Place and remedy.
    pub what: String,
}
