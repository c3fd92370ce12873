//! Local training on a burn device: load parameters, take k steps, read them back; the self-test; evaluation.
//!
//! Everything that reads from the device is async, because a browser's GPU answers no other way.

mod adam;
mod evaluate;
mod loss;
mod self_test;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::{Device, Tensor, TensorData};
use thiserror::Error;

use adam::{AdamSettings, CpuAdam};
pub use evaluate::{Evaluation, Evaluator};
pub use self_test::{SelfTestError, compare};

use crate::data::{Batch, BatchSource};
use crate::model::{Activation, Network};
use crate::params::Layout;
use crate::run::{OptimizerSettings, RunPlan};

/// The device failed.
#[derive(Clone, Debug, Error)]
#[error("the device failed: {0}")]
pub struct DeviceError(pub String);

/// What a window of local steps gave.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowResult {
    /// Local steps taken.
    pub steps: u32,
    /// Samples trained on.
    pub samples: u32,
    /// Mean loss over those samples, each before its own step.
    pub loss: f32,
    /// The flat parameters after the last step.
    pub parameters: Vec<f32>,
}

/// What is done between two steps.
#[derive(Clone, Debug)]
pub enum Between {
    /// The next step.
    GoOn,
    /// Add this flat vector, as long as the layout, to the parameters; then the next step.
    Move(Vec<f32>),
    /// Nothing more: the window is not wanted.
    Abandon,
}

/// Decides between two steps how to go on, and lets others run.
pub trait Pacer {
    /// What to do between the step that was taken and the next.
    fn between_steps(&mut self) -> impl Future<Output = Between>;

    /// Others have something to do: let them run after the next step at the latest.
    fn breathe_soon(&mut self) {}
}

/// Takes local steps on one device.
pub struct Trainer {
    network: Option<Network>,
    optimizer: Optimizer,
    optimizer_settings: OptimizerSettings,
    device: Device,
    layout: Layout,
    sample_shape: Vec<usize>,
    batch_size: usize,
    classes: usize,
}

impl Trainer {
    /// A trainer of the run's model; `layout` is the one inferred from the plan. Load parameters before the first step.
    pub fn new(plan: &RunPlan, layout: &Layout, device: &Device) -> Self {
        let optimizer = Optimizer::new(&plan.worker.optimizer, device);
        let device = device.clone().autodiff();
        Self {
            network: Some(Network::new(&plan.model, layout, &device)),
            optimizer,
            optimizer_settings: plan.worker.optimizer.clone(),
            device,
            layout: layout.clone(),
            sample_shape: plan.data.sample_shape.clone(),
            batch_size: plan.worker.batch_size as usize,
            classes: plan.data.classes,
        }
    }

    /// Replaces the parameters; the optimizer keeps its state.
    pub fn load(&mut self, parameters: &[f32]) {
        self.network = self.network.take().map(|network| network.load(parameters));
    }

    /// Forgets the optimizer's moments.
    pub fn reset_optimizer(&mut self) {
        self.optimizer = Optimizer::new(&self.optimizer_settings, &self.device.clone().without_autodiff());
    }

    /// The flat parameters.
    pub async fn parameters(&self) -> Result<Vec<f32>, DeviceError> {
        match &self.network {
            Some(network) => read(network.flat()).await,
            None => Err(DeviceError("a step was abandoned half-way".to_owned())),
        }
    }

    /// One local step. Returns the loss summed over the batch's samples, still on the device.
    pub fn step(&mut self, batch: &Batch) -> Result<Tensor<1>, DeviceError> {
        let network = self.network.take().ok_or_else(|| DeviceError("a step was abandoned half-way".to_owned()))?;
        let loss_sum = self.loss_sum(&network, batch, true);
        let loss = loss_sum.clone() / batch.samples.max(1) as f32;
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        self.network = Some(self.optimizer.step(self.optimizer_settings.learning_rate(), network, gradients)?);
        Ok(loss_sum.detach().without_autodiff())
    }

    /// Trains on every batch of `source`. `None` when the pacer abandoned the window: the parameters are then those of
    /// no commit, and must be loaded again.
    pub async fn window(
        &mut self,
        source: &BatchSource,
        pacer: &mut impl Pacer,
    ) -> Result<Option<WindowResult>, DeviceError> {
        let mut loss_sum: Option<Tensor<1>> = None;
        for index in 0..source.batches() {
            let loss = self.step(&source.batch(index))?;
            loss_sum = Some(match loss_sum {
                Some(sum) => sum + loss,
                None => loss,
            });
            match pacer.between_steps().await {
                Between::GoOn => {}
                Between::Move(shift) => self.network = self.network.take().map(|network| network.shift(&shift)),
                Between::Abandon => return Ok(None),
            }
        }
        let loss = match loss_sum {
            Some(sum) => read(sum).await?[0] / source.samples() as f32,
            None => 0.0,
        };
        let parameters = self.parameters().await?;
        Ok(Some(WindowResult { steps: source.batches() as u32, samples: source.samples() as u32, loss, parameters }))
    }

    /// Cross-entropy summed over the samples that are not padding.
    fn loss_sum(&self, network: &Network, batch: &Batch, dropout: bool) -> Tensor<1> {
        let logits = network.forward(input(batch, self.batch_size, &self.sample_shape, &self.device), dropout);
        loss::with_gradient(logits, batch, &self.device)
    }
}

/// What turns a gradient into a step: burn's own, and where that is slow ours.
enum Optimizer {
    Burn(Box<ModuleOptimizer>),
    CpuAdam(CpuAdam),
}

impl Optimizer {
    fn new(settings: &OptimizerSettings, device: &Device) -> Self {
        match *settings {
            OptimizerSettings::Sgd { .. } => Self::Burn(Box::new(SgdConfig::new().init())),
            OptimizerSettings::Adam { learning_rate, beta_1, beta_2, epsilon } if *device == Device::flex() => {
                let learning_rate = learning_rate as f32;
                Self::CpuAdam(CpuAdam::new(AdamSettings { learning_rate, beta_1, beta_2, epsilon }))
            }
            OptimizerSettings::Adam { beta_1, beta_2, epsilon, .. } => Self::Burn(Box::new(
                AdamConfig::new().with_beta_1(beta_1).with_beta_2(beta_2).with_epsilon(epsilon).init(),
            )),
        }
    }

    fn step(&mut self, rate: f64, network: Network, gradients: GradientsParams) -> Result<Network, DeviceError> {
        match self {
            Self::Burn(optimizer) => Ok(optimizer.step(rate, network, gradients)),
            Self::CpuAdam(optimizer) => optimizer.step(network, gradients),
        }
    }
}

/// The batch's features on the device, in the rank that the first layer takes.
fn input(batch: &Batch, batch_size: usize, sample_shape: &[usize], device: &Device) -> Activation {
    let features = batch.features.clone();
    match *sample_shape {
        [channels, height, width] => {
            let shape = [batch_size, channels, height, width];
            Activation::Image(Tensor::from_data(TensorData::new(features, shape), device))
        }
        _ => {
            let shape = [batch_size, sample_shape.iter().product()];
            Activation::Flat(Tensor::from_data(TensorData::new(features, shape), device))
        }
    }
}

/// Reads from a device that answers at once, as the CPU does.
fn read_now<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, DeviceError> {
    let mut answer = pin!(tensor.into_data_async());
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(data) => {
            let data = data.map_err(|error| DeviceError(format!("{error:?}")))?;
            data.try_into_vec::<f32>().map_err(|error| DeviceError(format!("{error:?}")))
        }
        Poll::Pending => Err(DeviceError("the device does not answer at once".to_owned())),
    }
}

async fn read(tensor: Tensor<1>) -> Result<Vec<f32>, DeviceError> {
    let data = tensor.into_data_async().await.map_err(|error| DeviceError(format!("{error:?}")))?;
    data.try_into_vec::<f32>().map_err(|error| DeviceError(format!("{error:?}")))
}

#[cfg(test)]
mod tests;
