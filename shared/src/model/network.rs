//! The burn module that a spec describes, and its flat view.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};

use super::spec::{self, ModelSpec, Padding};
use crate::params::Layout;

/// A layer on its device.
#[derive(Module, Debug)]
enum Layer {
    Linear(Linear),
    Conv2d(Conv2d),
    MaxPool2d(MaxPool2d),
    Relu(Relu),
    Dropout(Dropout),
    Flatten(Flatten),
}

#[derive(Module, Debug)]
struct Flatten {}

/// A network whose layers were chosen at run time. Parameters are visited in the order of the [`Layout`].
#[derive(Module, Debug)]
pub struct Network {
    layers: Vec<Layer>,
}

/// Activations: tensors carry their rank in their type, networks change it at run time.
pub enum Activation {
    /// `[batch, features]`
    Flat(Tensor<2>),
    /// `[batch, channels, height, width]`
    Image(Tensor<4>),
}

impl Network {
    /// The network of a spec whose `layout` was inferred for its samples. Its parameters are not initialised: load
    /// them with [`Network::load`].
    pub fn new(spec: &ModelSpec, layout: &Layout, device: &Device) -> Self {
        let mut weights = layout.tensors().iter().filter(|tensor| tensor.shape.len() > 1);
        let mut next = || weights.next().map_or([0, 0], |tensor| [tensor.shape[0], tensor.shape[1]]);
        let layers = spec
            .layers
            .iter()
            .map(|layer| match *layer {
                spec::Layer::Flatten {} => Layer::Flatten(Flatten {}),
                spec::Layer::Relu {} => Layer::Relu(Relu::new()),
                spec::Layer::Dropout { rate } => Layer::Dropout(DropoutConfig::new(rate).init()),
                spec::Layer::Linear { .. } => {
                    let [inputs, outputs] = next();
                    Layer::Linear(LinearConfig::new(inputs, outputs).init(device))
                }
                spec::Layer::Conv2d { kernel_size, stride, padding, .. } => {
                    let [filters, channels] = next();
                    let border = kernel_size / 2;
                    let padding = match padding {
                        Padding::Valid => PaddingConfig2d::Valid,
                        Padding::Same => PaddingConfig2d::Explicit(border, border, border, border),
                    };
                    let config = Conv2dConfig::new([channels, filters], [kernel_size, kernel_size]);
                    Layer::Conv2d(config.with_stride([stride, stride]).with_padding(padding).init(device))
                }
                spec::Layer::MaxPool2d { size, stride } => {
                    let stride = stride.unwrap_or(size);
                    Layer::MaxPool2d(MaxPool2dConfig::new([size, size]).with_strides([stride, stride]).init())
                }
            })
            .collect();
        Self { layers }
    }

    /// Logits, `[batch, classes]`. `dropout` switches the dropout layers on. The shapes were checked when the layout
    /// was inferred; an activation of a rank that a layer does not take passes through unchanged.
    pub fn forward(&self, input: Activation, dropout: bool) -> Tensor<2> {
        let mut activation = input;
        for layer in &self.layers {
            activation = match (layer, activation) {
                (Layer::Linear(layer), Activation::Flat(x)) => Activation::Flat(layer.forward(x)),
                (Layer::Conv2d(layer), Activation::Image(x)) => Activation::Image(layer.forward(x)),
                (Layer::MaxPool2d(layer), Activation::Image(x)) => Activation::Image(layer.forward(x)),
                (Layer::Relu(layer), Activation::Flat(x)) => Activation::Flat(layer.forward(x)),
                (Layer::Relu(layer), Activation::Image(x)) => Activation::Image(layer.forward(x)),
                (Layer::Dropout(layer), Activation::Flat(x)) if dropout => Activation::Flat(layer.forward(x)),
                (Layer::Dropout(layer), Activation::Image(x)) if dropout => Activation::Image(layer.forward(x)),
                (Layer::Flatten(_), Activation::Image(x)) => Activation::Flat(x.flatten(1, 3)),
                (_, x) => x,
            };
        }
        match activation {
            Activation::Flat(logits) => logits,
            Activation::Image(x) => x.flatten(1, 3),
        }
    }

    /// The network with the values of a flat vector, which must have the layout's length.
    #[must_use]
    pub fn load(self, flat: &[f32]) -> Self {
        self.map(&mut Loader { flat })
    }

    /// The network with a flat vector, which must have the layout's length, added to its parameters on the device.
    #[must_use]
    pub fn shift(self, flat: &[f32]) -> Self {
        self.map(&mut Shifter { flat })
    }

    /// All parameters as one vector on the device: one read-back.
    pub fn flat(&self) -> Tensor<1> {
        let mut parts = Parameters(Vec::new());
        self.visit(&mut parts);
        Tensor::cat(parts.0, 0)
    }

    /// The gradients of all parameters as one vector on the device, zero where there is none.
    pub fn flat_gradients(&self, gradients: &GradientsParams) -> Tensor<1> {
        let mut parts = Gradients { gradients, parts: Vec::new() };
        self.visit(&mut parts);
        Tensor::cat(parts.parts, 0)
    }
}

struct Parameters(Vec<Tensor<1>>);

impl ModuleVisitor for Parameters {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let values = parameter.val().detach().without_autodiff();
        let elements = values.shape().num_elements();
        self.0.push(values.reshape([elements]));
    }
}

struct Gradients<'a> {
    gradients: &'a GradientsParams,
    parts: Vec<Tensor<1>>,
}

impl ModuleVisitor for Gradients<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let elements = parameter.lazy_shape().num_elements();
        self.parts.push(match self.gradients.get::<D>(parameter.id) {
            Some(gradient) => gradient.reshape([elements]),
            None => Tensor::zeros([elements], &parameter.lazy_device().without_autodiff()),
        });
    }
}

/// The next parameter's part of a flat vector, on its device.
fn next_part<const D: usize>(flat: &mut &[f32], parameter: &Param<Tensor<D>>) -> Tensor<D> {
    let shape = parameter.lazy_shape();
    let (values, rest) = flat.split_at(shape.num_elements());
    *flat = rest;
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &parameter.lazy_device())
}

/// Takes the values from the front of the vector, parameter by parameter.
struct Loader<'a> {
    flat: &'a [f32],
}

impl ModuleMapper for Loader<'_> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let values = next_part(&mut self.flat, &parameter);
        let (id, old, mapper) = parameter.consume();
        Param::from_mapped_value(id, values.set_require_grad(old.is_require_grad()), mapper)
    }
}

/// Adds them.
struct Shifter<'a> {
    flat: &'a [f32],
}

impl ModuleMapper for Shifter<'_> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let shift = next_part(&mut self.flat, &parameter);
        let (id, old, mapper) = parameter.consume();
        let wants_gradient = old.is_require_grad();
        let moved = (old.detach() + shift).detach().set_require_grad(wants_gradient);
        Param::from_mapped_value(id, moved, mapper)
    }
}
