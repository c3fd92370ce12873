//! The self-test: a device computes the gradient of known weights on a known batch before it gets any work.
//!
//! Devices exist whose forward pass is right and whose gradients are all zero, and shaders that fail and return zeros.
//! The server computes the same gradient on its own CPU and compares.

use burn::optim::GradientsParams;
use thiserror::Error;

use super::{DeviceError, Trainer, read};
use crate::data::Batch;
use crate::model::initial_parameters;
use crate::params::Layout;
use crate::protocol::{SelfTestAnswer, limits};
use crate::random::Stream;

/// Largest accepted difference, relative to the norm or to the tensor's root mean square.
const TOLERANCE: f32 = 1e-3;

impl Trainer {
    /// Computes the answer for `seed`. The parameters are then those of the test: load the run's before training.
    pub async fn self_test(&mut self, seed: u64) -> Result<SelfTestAnswer, DeviceError> {
        self.load(&initial_parameters(&self.layout, seed));
        let batch = test_batch(seed, self.batch_size, self.sample_shape.iter().product(), self.classes);
        let network = self.network.as_ref().ok_or_else(|| DeviceError("no parameters".to_owned()))?;
        let loss = self.loss_sum(network, &batch, false) / self.batch_size as f32;
        let gradients = GradientsParams::from_grads(loss.backward(), network);
        let gradient = read(network.flat_gradients(&gradients)).await?;
        Ok(summarise(&gradient, &self.layout, seed))
    }
}

fn test_batch(seed: u64, batch_size: usize, sample_size: usize, classes: usize) -> Batch {
    let mut stream = Stream::new(seed, "self-test batch", &[]);
    Batch {
        features: (0..batch_size * sample_size).map(|_| stream.unit()).collect(),
        labels: (0..batch_size).map(|_| stream.below(classes as u32) as i32).collect(),
        mask: vec![1.0; batch_size],
        samples: batch_size as u32,
    }
}

fn summarise(gradient: &[f32], layout: &Layout, seed: u64) -> SelfTestAnswer {
    let norms = layout.tensors().iter().map(|tensor| norm(&gradient[tensor.indices()])).collect();
    let entries = places(layout, seed).map(|place| gradient[place]).collect();
    SelfTestAnswer { norms, entries }
}

fn norm(values: &[f32]) -> f32 {
    values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt() as f32
}

fn places(layout: &Layout, seed: u64) -> impl Iterator<Item = usize> {
    let mut stream = Stream::new(seed, "self-test places", &[]);
    let elements = layout.elements() as u32;
    (0..limits::SELF_TEST_ENTRIES.min(layout.elements())).map(move |_| stream.below(elements) as usize)
}

/// How a device's answer differs from the server's.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SelfTestError {
    /// Not as many numbers as the model and the test have.
    #[error("the answer has {0} norms and {1} entries, expected {2} and {3}")]
    Length(usize, usize, usize, usize),
    /// A tensor's norm differs.
    #[error("the gradient of {tensor} has norm {found}, expected {expected}")]
    Norm {
        /// The tensor.
        tensor: String,
        /// The device's.
        found: f32,
        /// The server's.
        expected: f32,
    },
    /// Entries differ.
    #[error("entry {place} of the gradient is {found}, expected {expected}")]
    Entry {
        /// Index in the flat vector.
        place: usize,
        /// The device's.
        found: f32,
        /// The server's.
        expected: f32,
    },
}

/// Compares a device's answer with the server's own for the same seed.
pub fn compare(
    found: &SelfTestAnswer,
    expected: &SelfTestAnswer,
    layout: &Layout,
    seed: u64,
) -> Result<(), SelfTestError> {
    let lengths = |answer: &SelfTestAnswer| (answer.norms.len(), answer.entries.len());
    if lengths(found) != lengths(expected) {
        let (f, e) = (lengths(found), lengths(expected));
        return Err(SelfTestError::Length(f.0, f.1, e.0, e.1));
    }
    for ((tensor, &found), &expected) in layout.tensors().iter().zip(&found.norms).zip(&expected.norms) {
        if !close(found, expected, expected) {
            return Err(SelfTestError::Norm { tensor: tensor.name.clone(), found, expected });
        }
    }
    for ((place, &found), &entry) in places(layout, seed).zip(&found.entries).zip(&expected.entries) {
        let tensor = layout.tensors().iter().zip(&expected.norms).find(|(tensor, _)| tensor.indices().contains(&place));
        let scale = tensor.map_or(0.0, |(tensor, norm)| norm / (tensor.len() as f32).sqrt());
        if !close(found, entry, scale.max(entry.abs())) {
            return Err(SelfTestError::Entry { place, found, expected: entry });
        }
    }
    Ok(())
}

/// False for NaN on either side.
fn close(found: f32, expected: f32, scale: f32) -> bool {
    (found - expected).abs() <= TOLERANCE * scale.abs() + 1e-9
}
