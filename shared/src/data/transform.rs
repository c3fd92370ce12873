//! Transforms of a batch's features, applied on the device's side of the wire: shards keep the stored type.

use serde::{Deserialize, Serialize};

/// One transform; a run lists them in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Transform {
    /// Every feature times `by`.
    Scale {
        /// The factor.
        by: f32,
    },
    /// `(feature - mean) / deviation`.
    Standardize {
        /// Subtracted from every feature.
        mean: f32,
        /// Divides every feature; not zero.
        deviation: f32,
    },
}

impl Transform {
    /// Transforms features in place.
    pub fn apply(&self, features: &mut [f32]) {
        match *self {
            Self::Scale { by } => {
                for value in features {
                    *value *= by;
                }
            }
            Self::Standardize { mean, deviation } => {
                for value in features {
                    *value = (*value - mean) / deviation;
                }
            }
        }
    }
}
