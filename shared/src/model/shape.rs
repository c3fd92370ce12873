//! Shape inference: the layout of a model's parameters, or an error that names the layer and both shapes.

use thiserror::Error;

use super::spec::{Layer, ModelSpec, Padding};
use crate::params::{Layout, TensorKind};
use crate::protocol::limits;
use crate::random::Stream;

/// A layer that does not fit what comes before it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ShapeError {
    /// The layer takes another kind of input.
    #[error("layer {layer} ({kind}) takes {expected}, but what reaches it has shape {found:?}")]
    Input {
        /// Index of the layer, from 0.
        layer: usize,
        /// Its kind.
        kind: &'static str,
        /// What it takes.
        expected: String,
        /// What it gets.
        found: Vec<usize>,
    },
    /// A setting of the layer makes no sense.
    #[error("layer {layer} ({kind}): {what}")]
    Setting {
        /// Index of the layer, from 0.
        layer: usize,
        /// Its kind.
        kind: &'static str,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The network does not end in one logit a class.
    #[error("the last layer gives shape {found:?}, but {classes} classes need [{classes}]")]
    Output {
        /// What comes out.
        found: Vec<usize>,
        /// Number of classes.
        classes: usize,
    },
    /// Too large to be sent.
    #[error("the model has {0} parameters, the limit is {limit}", limit = limits::PARAMETERS)]
    TooLarge(usize),
}

/// The layout of the model's parameters on samples of `sample_shape` with `classes` classes.
pub fn infer_layout(spec: &ModelSpec, sample_shape: &[usize], classes: usize) -> Result<Layout, ShapeError> {
    let mut layout = Layout::default();
    let mut shape = sample_shape.to_vec();
    for (index, layer) in spec.layers.iter().enumerate() {
        shape = infer_layer(index, layer, shape, &mut layout)?;
        if layout.elements() > limits::PARAMETERS {
            return Err(ShapeError::TooLarge(layout.elements()));
        }
    }
    if shape != [classes] {
        return Err(ShapeError::Output { found: shape, classes });
    }
    Ok(layout)
}

fn infer_layer(index: usize, layer: &Layer, shape: Vec<usize>, layout: &mut Layout) -> Result<Vec<usize>, ShapeError> {
    let kind = layer.kind();
    let input = |expected: &str, found: &[usize]| ShapeError::Input {
        layer: index,
        kind,
        expected: expected.to_owned(),
        found: found.to_vec(),
    };
    let setting = |what: &str| ShapeError::Setting { layer: index, kind, what: what.to_owned() };
    match *layer {
        Layer::Relu {} => Ok(shape),
        Layer::Dropout { rate } if (0.0..1.0).contains(&rate) => Ok(shape),
        Layer::Dropout { .. } => Err(setting("rate must be at least 0 and below 1")),
        Layer::Flatten {} => Ok(vec![shape.iter().product()]),
        Layer::Linear { units: 0 } => Err(setting("units must be at least 1")),
        Layer::Linear { units } => {
            let &[features] = shape.as_slice() else {
                return Err(input("one dimension ([features]; put a flatten layer in front)", &shape));
            };
            push_weights(layout, index, vec![features, units], units, features);
            Ok(vec![units])
        }
        Layer::Conv2d { filters, kernel_size, stride, padding } => {
            let &[channels, height, width] = shape.as_slice() else {
                return Err(input("three dimensions ([channels, height, width])", &shape));
            };
            if filters == 0 || kernel_size == 0 || stride == 0 {
                return Err(setting("filters, kernel_size and stride must be at least 1"));
            }
            if padding == Padding::Same && (kernel_size % 2 == 0 || stride != 1) {
                return Err(setting("padding \"same\" needs an odd kernel_size and stride 1"));
            }
            let border = if padding == Padding::Same { kernel_size - 1 } else { 0 };
            let side = |side: usize| (side + border).checked_sub(kernel_size).map(|room| room / stride + 1);
            let (Some(height), Some(width)) = (side(height), side(width)) else {
                return Err(input(&format!("at least [{channels}, {kernel_size}, {kernel_size}]"), &shape));
            };
            let fan_in = channels * kernel_size * kernel_size;
            push_weights(layout, index, vec![filters, channels, kernel_size, kernel_size], filters, fan_in);
            Ok(vec![filters, height, width])
        }
        Layer::MaxPool2d { size, stride } => {
            let &[channels, height, width] = shape.as_slice() else {
                return Err(input("three dimensions ([channels, height, width])", &shape));
            };
            let stride = stride.unwrap_or(size);
            if size == 0 || stride == 0 {
                return Err(setting("size and stride must be at least 1"));
            }
            let side = |side: usize| side.checked_sub(size).map(|room| room / stride + 1);
            let (Some(height), Some(width)) = (side(height), side(width)) else {
                return Err(input(&format!("at least [{channels}, {size}, {size}]"), &shape));
            };
            Ok(vec![channels, height, width])
        }
    }
}

fn push_weights(layout: &mut Layout, index: usize, weight: Vec<usize>, outputs: usize, fan_in: usize) {
    layout.push(format!("layers.{index}.weight"), weight, TensorKind::Trainable, fan_in);
    layout.push(format!("layers.{index}.bias"), vec![outputs], TensorKind::Trainable, fan_in);
}

/// Initial values of the flat vector: uniform in ±1/sqrt(fan in), drawn by seed, the same on both ends
/// (the bound of LeCun et al. 1998 that burn and PyTorch use for linear and convolution layers).
pub fn initial_parameters(layout: &Layout, seed: u64) -> Vec<f32> {
    let mut values = Vec::with_capacity(layout.elements());
    for (index, tensor) in layout.tensors().iter().enumerate() {
        let mut stream = Stream::new(seed, "initial parameters", &[index as u64]);
        let bound = 1.0 / (tensor.fan_in.max(1) as f32).sqrt();
        values.extend((0..tensor.len()).map(|_| match tensor.kind {
            TensorKind::Trainable => (stream.unit() * 2.0 - 1.0) * bound,
            TensorKind::State => 0.0,
        }));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::super::Loss;
    use super::*;

    fn infer(layers: Vec<Layer>, sample: &[usize]) -> Result<Layout, ShapeError> {
        infer_layout(&ModelSpec { loss: Loss::CrossEntropy, layers }, sample, 10)
    }

    const fn conv(filters: usize, kernel_size: usize) -> Layer {
        Layer::Conv2d { filters, kernel_size, stride: 1, padding: Padding::Valid }
    }

    #[test]
    fn the_layouts_of_known_models_have_the_known_size() {
        let mlp = vec![Layer::Flatten {}, Layer::Linear { units: 256 }, Layer::Relu {}, Layer::Linear { units: 10 }];
        assert_eq!(infer(mlp, &[1, 28, 28]).expect("fits").elements(), 203_530);
        let pool = Layer::MaxPool2d { size: 2, stride: None };
        let cnn = vec![
            conv(8, 5),
            Layer::Relu {},
            pool.clone(),
            conv(16, 5),
            Layer::Relu {},
            pool,
            Layer::Flatten {},
            Layer::Linear { units: 64 },
            Layer::Relu {},
            Layer::Linear { units: 10 },
        ];
        let layout = infer(cnn, &[1, 28, 28]).expect("fits");
        assert_eq!(layout.elements(), 20_522);
        assert_eq!(layout.tensors()[2].name, "layers.3.weight");
        assert_eq!(layout.tensors()[2].shape, [16, 8, 5, 5]);
    }

    #[test]
    fn a_shape_that_does_not_fit_names_the_layer_and_both_shapes() {
        let cases: [(Vec<Layer>, &str); 6] = [
            (
                vec![Layer::Linear { units: 10 }],
                "layer 0 (linear) takes one dimension ([features]; put a flatten layer in front), but what reaches it \
                 has shape [1, 8, 8]",
            ),
            (vec![conv(4, 9)], "layer 0 (conv2d) takes at least [1, 9, 9], but what reaches it has shape [1, 8, 8]"),
            (
                vec![Layer::Flatten {}, conv(4, 3)],
                "layer 1 (conv2d) takes three dimensions ([channels, height, width]), but what reaches it has shape \
                 [64]",
            ),
            (
                vec![Layer::Flatten {}, Layer::Linear { units: 9 }],
                "the last layer gives shape [9], but 10 classes need [10]",
            ),
            (vec![Layer::Dropout { rate: 1.0 }], "layer 0 (dropout): rate must be at least 0 and below 1"),
            (
                vec![Layer::MaxPool2d { size: 9, stride: None }],
                "layer 0 (max_pool2d) takes at least [1, 9, 9], but what reaches it has shape [1, 8, 8]",
            ),
        ];
        for (layers, expected) in cases {
            assert_eq!(infer(layers, &[1, 8, 8]).expect_err("must not fit").to_string(), expected);
        }
    }

    #[test]
    fn same_padding_keeps_height_and_width() {
        let same = Layer::Conv2d { filters: 2, kernel_size: 3, stride: 1, padding: Padding::Same };
        let layout = infer(vec![same, Layer::Flatten {}, Layer::Linear { units: 10 }], &[1, 8, 8]).expect("fits");
        assert_eq!(layout.tensors()[2].shape, [2 * 8 * 8, 10]);
    }
}
