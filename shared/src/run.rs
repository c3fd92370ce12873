//! The run as a worker is told of it: what to train, on what, and by which rule.
//!
//! The same structures are the `[model]`, `[worker]` and `[strategy]` tables of the run file. On the wire they travel
//! as JSON inside the `Welcome` message, because layers are tagged by their `kind`, which postcard cannot read.

use serde::{Deserialize, Serialize};

use crate::data::Transform;
use crate::model::ModelSpec;
use crate::params::Codec;

/// What a worker needs to know of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// Unique on its server: the slug of the name.
    pub id: String,
    /// The name as the run file gives it.
    pub name: String,
    /// The seed of everything that is drawn: split, order, initial parameters.
    pub seed: u64,
    /// What the samples look like.
    pub data: DataPlan,
    /// The network.
    pub model: ModelSpec,
    /// How a worker takes its local steps.
    pub worker: WorkerSettings,
    /// How commits change the centre.
    pub strategy: StrategySettings,
}

/// What the samples of a run look like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataPlan {
    /// Shape of one sample, without the batch: `[784]`, or `[channels, height, width]`.
    pub sample_shape: Vec<usize>,
    /// Number of classes; labels are 0..classes.
    pub classes: usize,
    /// Samples in the training part.
    pub train_samples: u64,
    /// Shards of the training part.
    pub shards: u32,
    /// Bytes of all shards together: what a worker downloads at most.
    pub bytes: u64,
    /// Applied to the features of a batch, in order.
    #[serde(default)]
    pub transforms: Vec<Transform>,
}

/// How a worker takes its local steps (`[worker]` in the run file).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    /// Samples in a mini-batch. Tail batches are padded and masked: the shape never changes.
    #[serde(default = "default_batch_size")]
    pub batch_size: u32,
    /// The inner optimizer.
    #[serde(default)]
    pub optimizer: OptimizerSettings,
}

const fn default_batch_size() -> u32 {
    32
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { batch_size: default_batch_size(), optimizer: OptimizerSettings::default() }
    }
}

/// The inner optimizer: what turns a gradient into a local step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum OptimizerSettings {
    /// Plain stochastic gradient descent.
    Sgd {
        /// Step size.
        learning_rate: f64,
    },
    /// Adam (Kingma and Ba 2014, Algorithm 1).
    Adam {
        /// Step size.
        learning_rate: f64,
        /// Decay of the first moment.
        #[serde(default = "default_beta_1")]
        beta_1: f32,
        /// Decay of the second moment.
        #[serde(default = "default_beta_2")]
        beta_2: f32,
        /// Added to the root of the second moment.
        #[serde(default = "default_epsilon")]
        epsilon: f32,
    },
}

const fn default_beta_1() -> f32 {
    0.9
}
const fn default_beta_2() -> f32 {
    0.999
}
const fn default_epsilon() -> f32 {
    1e-8
}

impl Default for OptimizerSettings {
    fn default() -> Self {
        Self::Adam {
            learning_rate: 1e-3,
            beta_1: default_beta_1(),
            beta_2: default_beta_2(),
            epsilon: default_epsilon(),
        }
    }
}

impl OptimizerSettings {
    /// The step size.
    pub const fn learning_rate(&self) -> f64 {
        match self {
            Self::Sgd { learning_rate } | Self::Adam { learning_rate, .. } => *learning_rate,
        }
    }
}

/// How commits change the centre (`[strategy]` in the run file).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrategySettings {
    /// Name of the rule, as [`crate::strategy::find`] knows it.
    #[serde(default = "default_rule")]
    pub rule: String,
    /// How much a worker computes between two exchanges; where it is absent the rule's own default holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication_window: Option<Window>,
    /// How commits are encoded.
    #[serde(default)]
    pub upload_codec: Codec,
    /// How the centre is encoded for the workers.
    #[serde(default)]
    pub download_codec: Codec,
}

fn default_rule() -> String {
    "dynsgd".to_owned()
}

impl Default for StrategySettings {
    fn default() -> Self {
        Self {
            rule: default_rule(),
            communication_window: None,
            upload_codec: Codec::default(),
            download_codec: Codec::default(),
        }
    }
}

/// The communication window: how much a worker computes between two exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number of steps from 1 on, or \"auto\"")]
pub enum Window {
    /// A fixed number of local steps.
    Steps(std::num::NonZeroU32),
    /// About two seconds of compute on the device, and never more than a quarter of a worker's share of what is left of
    /// the epoch; near its end a sixty-fourth of the share in the whole of it.
    Auto(Auto),
}

/// The word `"auto"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Auto {
    /// `"auto"`
    #[serde(rename = "auto")]
    Auto,
}

impl Window {
    /// The window that follows the device.
    pub const AUTO: Self = Self::Auto(Auto::Auto);
}

/// Seconds of compute that an `"auto"` window aims at.
pub const AUTO_WINDOW_SECONDS: f64 = 2.0;
