//! Adam on the CPU in one pass over the parameters.
//!
//! Kingma and Ba 2014, Algorithm 1, in the rearranged form at the end of its section 2. burn's own Adam takes a dozen
//! passes over every tensor, each with a new allocation; for a small network those are most of a step.

use burn::module::{Module as _, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};

use super::{DeviceError, read_now};
use crate::model::Network;

/// The settings of the run file.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdamSettings {
    pub(super) learning_rate: f32,
    pub(super) beta_1: f32,
    pub(super) beta_2: f32,
    pub(super) epsilon: f32,
}

/// Both moments of one tensor.
#[derive(Debug, Default)]
struct Moments {
    first: Vec<f32>,
    second: Vec<f32>,
}

/// The optimizer with its state: moments of every tensor, in the order of the module.
#[derive(Debug)]
pub(super) struct CpuAdam {
    settings: AdamSettings,
    steps: i32,
    moments: Vec<Moments>,
}

impl CpuAdam {
    pub(super) const fn new(settings: AdamSettings) -> Self {
        Self { settings, steps: 0, moments: Vec::new() }
    }

    /// One step. A parameter without a gradient stays as it is.
    pub(super) fn step(&mut self, network: Network, gradients: GradientsParams) -> Result<Network, DeviceError> {
        self.steps = self.steps.saturating_add(1);
        let AdamSettings { learning_rate, beta_1, beta_2, epsilon } = self.settings;
        // In f64: 1 - 0.999^t loses half its digits in f32.
        let correction = (1.0 - f64::from(beta_2).powi(self.steps)).sqrt();
        let rate = f64::from(learning_rate) * correction / (1.0 - f64::from(beta_1).powi(self.steps));
        let pass = Pass { rate: rate as f32, beta_1, beta_2, epsilon: (f64::from(epsilon) * correction) as f32 };
        let mut mapper = Mapper { pass, moments: &mut self.moments, next: 0, gradients, failed: None };
        let network = network.map(&mut mapper);
        mapper.failed.map_or(Ok(network), Err)
    }
}

struct Mapper<'a> {
    pass: Pass,
    moments: &'a mut Vec<Moments>,
    /// Index of the next tensor.
    next: usize,
    gradients: GradientsParams,
    failed: Option<DeviceError>,
}

impl ModuleMapper for Mapper<'_> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.moments.len() == self.next {
            self.moments.push(Moments::default());
        }
        let moments = &mut self.moments[self.next];
        self.next += 1;
        let Some(gradient) = self.gradients.remove::<D>(parameter.id) else {
            return parameter;
        };
        let (shape, device) = (parameter.lazy_shape(), parameter.lazy_device());
        let (id, tensor, mapper) = parameter.consume();
        let requires_gradient = tensor.is_require_grad();
        let read = (read_now(tensor.detach().without_autodiff()), read_now(gradient));
        let values = match read {
            (Ok(mut values), Ok(gradient)) => {
                moments.first.resize(values.len(), 0.0);
                moments.second.resize(values.len(), 0.0);
                self.pass.over(&mut values, &gradient, &mut moments.first, &mut moments.second);
                values
            }
            (Err(error), _) | (_, Err(error)) => {
                self.failed = Some(error);
                vec![0.0; shape.num_elements()]
            }
        };
        let tensor = Tensor::<D>::from_data(TensorData::new(values, shape), &device);
        Param::from_mapped_value(id, tensor.set_require_grad(requires_gradient), mapper)
    }
}

/// A weight whose moments are below this has none. Without a gradient they would shrink until they are subnormal, and
/// stay so; with subnormals a CPU is slow, and WebAssembly cannot flush them: a worker became slower the longer it trained.
const AT_REST: f32 = 1e-30;

/// What one step does to every element.
#[derive(Clone, Copy)]
struct Pass {
    rate: f32,
    beta_1: f32,
    beta_2: f32,
    epsilon: f32,
}

impl Pass {
    fn over(self, values: &mut [f32], gradient: &[f32], first: &mut [f32], second: &mut [f32]) {
        let moments = first.iter_mut().zip(second);
        for ((value, &g), (m, v)) in values.iter_mut().zip(gradient).zip(moments) {
            let first = self.beta_1 * *m + (1.0 - self.beta_1) * g;
            let second = self.beta_2 * *v + (1.0 - self.beta_2) * g * g;
            let at_rest = first.abs() < AT_REST;
            *m = if at_rest { 0.0 } else { first };
            *v = if at_rest && second < AT_REST { 0.0 } else { second };
            *value -= self.rate * *m / (v.sqrt() + self.epsilon);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_whose_gradient_ends_comes_to_rest_and_others_do_not() {
        let pass = Pass { rate: 1e-3, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8 };
        let (mut values, mut first, mut second) = ([1.0, 1.0], [0.0; 2], [0.0; 2]);
        pass.over(&mut values, &[0.5, 1e-12], &mut first, &mut second);
        for _ in 0..80_000 {
            pass.over(&mut values, &[0.0, 1e-12], &mut first, &mut second);
            assert!(first.iter().chain(&second).all(|moment| !moment.is_subnormal()), "{first:?} {second:?}");
        }
        assert_eq!((first[0], second[0]), (0.0, 0.0));
        assert!((first[1] - 1e-12).abs() < 1e-15 && (second[1] - 1e-24).abs() < 1e-27, "{first:?} {second:?}");
    }
}
