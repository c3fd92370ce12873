//! Evaluation of a parameter vector on held-out samples, without gradients.

use burn::tensor::Device;

use super::loss::cross_entropy;
use super::{DeviceError, input, read};
use crate::data::BatchSource;
use crate::model::Network;
use crate::params::Layout;
use crate::run::RunPlan;

/// How good a parameter vector is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Mean cross-entropy, in nats.
    pub loss: f32,
    /// Share of samples whose largest logit is their label's, 0 to 1.
    pub accuracy: f32,
}

/// Evaluates on one device.
pub struct Evaluator {
    network: Network,
    device: Device,
    sample_shape: Vec<usize>,
    batch_size: usize,
}

impl Evaluator {
    /// An evaluator of the run's model, for batches of `batch_size`.
    pub fn new(plan: &RunPlan, layout: &Layout, device: &Device, batch_size: u32) -> Self {
        Self {
            network: Network::new(&plan.model, layout, device),
            device: device.clone(),
            sample_shape: plan.data.sample_shape.clone(),
            batch_size: batch_size as usize,
        }
    }

    /// Evaluates `parameters` on every sample of `source`, whose batches have this evaluator's size.
    pub async fn evaluate(&mut self, parameters: &[f32], source: &BatchSource) -> Result<Evaluation, DeviceError> {
        self.network = self.network.clone().load(parameters);
        let (mut loss, mut right) = (0.0_f64, 0_u64);
        for index in 0..source.batches() {
            let batch = source.batch(index);
            let logits = self.network.forward(input(&batch, self.batch_size, &self.sample_shape, &self.device), false);
            let classes = logits.dims()[1];
            let flat = read(logits.clone().reshape([self.batch_size * classes])).await?;
            right += batch
                .labels
                .iter()
                .zip(flat.chunks(classes))
                .take(batch.samples as usize)
                .filter(|(label, logits)| largest(logits) == **label as usize)
                .count() as u64;
            loss += f64::from(read(cross_entropy(logits, &batch, &self.device)).await?[0]);
        }
        let samples = source.samples().max(1) as f64;
        Ok(Evaluation { loss: (loss / samples) as f32, accuracy: (right as f64 / samples) as f32 })
    }
}

fn largest(logits: &[f32]) -> usize {
    let mut best = 0;
    for (index, value) in logits.iter().enumerate() {
        if *value > logits[best] {
            best = index;
        }
    }
    best
}
