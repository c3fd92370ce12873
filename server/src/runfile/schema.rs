//! The tables and keys of a run file.

use std::path::PathBuf;

use kindling_shared::data::Transform;
use kindling_shared::model::ModelSpec;
use kindling_shared::run::{StrategySettings, WorkerSettings};
use serde::Deserialize;

/// A run file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFile {
    /// The run's name; its slug is the run's id.
    pub name: String,
    /// Seed of everything that is drawn.
    #[serde(default)]
    pub seed: u64,
    /// What to train on.
    pub data: DataSettings,
    /// The network.
    pub model: ModelSpec,
    /// Local steps.
    #[serde(default)]
    pub worker: WorkerSettings,
    /// The training rule.
    #[serde(default)]
    pub strategy: StrategySettings,
    /// When the run ends.
    pub stop: StopSettings,
}

/// The `[data]` table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSettings {
    /// The reader.
    pub format: DataFormat,
    /// The training files; none for embedded data.
    #[serde(default)]
    pub train: Option<Files>,
    /// Validation files, or the share of the training samples to hold out.
    #[serde(default)]
    pub validation: Option<ValidationSettings>,
    /// Applied to every batch, in order.
    #[serde(default)]
    pub transforms: Vec<Transform>,
    /// Samples of one shard.
    #[serde(default = "default_shard_samples")]
    pub shard_samples: std::num::NonZeroU32,
}

const fn default_shard_samples() -> std::num::NonZeroU32 {
    match std::num::NonZeroU32::new(1_024) {
        Some(samples) => samples,
        None => std::num::NonZeroU32::MIN,
    }
}

/// The readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataFormat {
    /// The digits inside the binary.
    Digits,
    /// IDX files, plain or gzip'd.
    Idx,
}

/// A pair of files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The features.
    pub features: PathBuf,
    /// The labels.
    pub labels: PathBuf,
}

/// Where the validation samples come from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a share between 0 and 1, or { features = \"...\", labels = \"...\" }")]
pub enum ValidationSettings {
    /// A share of the training samples.
    Share(f64),
    /// Files of their own.
    Files(Files),
}

/// The `[stop]` table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopSettings {
    /// Passes over the training part.
    pub epochs: std::num::NonZeroU32,
}
