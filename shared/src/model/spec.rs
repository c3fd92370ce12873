//! The `[model]` table of the run file.

use serde::{Deserialize, Serialize};

/// A network: layers from the sample to the logits, and what is minimised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// What is minimised.
    #[serde(default)]
    pub loss: Loss,
    /// The layers, in order.
    pub layers: Vec<Layer>,
}

impl ModelSpec {
    /// Units of the last layer, where it is a linear one: the number of classes.
    pub fn outputs(&self) -> Option<usize> {
        match self.layers.last() {
            Some(Layer::Linear { units }) => Some(*units),
            _ => None,
        }
    }
}

/// What is minimised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Mean cross-entropy between the softmax of the logits and the label, in nats.
    #[default]
    CrossEntropy,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Layer {
    /// All dimensions of a sample into one.
    Flatten {},
    /// Fully connected: `[features] -> [units]`.
    Linear {
        /// Outputs.
        units: usize,
    },
    /// Convolution: `[channels, height, width] -> [filters, ...]`.
    Conv2d {
        /// Output channels.
        filters: usize,
        /// Side of the square kernel.
        kernel_size: usize,
        /// Step of the kernel.
        #[serde(default = "one")]
        stride: usize,
        /// What happens at the border.
        #[serde(default)]
        padding: Padding,
    },
    /// Maximum over squares: `[channels, height, width] -> [channels, ...]`.
    MaxPool2d {
        /// Side of the square.
        size: usize,
        /// Step of the square; absent: its side.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stride: Option<usize>,
    },
    /// `max(0, x)`.
    Relu {},
    /// Sets a share of the activations to zero while training, and scales the rest up (Srivastava et al. 2014).
    Dropout {
        /// The share, in [0, 1).
        rate: f64,
    },
}

const fn one() -> usize {
    1
}

/// What a convolution does at the border.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    /// Nothing: the output shrinks.
    #[default]
    Valid,
    /// Zeros around, so that the output has the input's height and width (odd kernel, stride 1).
    Same,
}

impl Layer {
    /// The layer's `kind`, as the run file writes it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Flatten {} => "flatten",
            Self::Linear { .. } => "linear",
            Self::Conv2d { .. } => "conv2d",
            Self::MaxPool2d { .. } => "max_pool2d",
            Self::Relu {} => "relu",
            Self::Dropout { .. } => "dropout",
        }
    }
}
