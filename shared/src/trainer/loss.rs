//! The loss: cross-entropy, summed over the samples that are not padding, whose labels say which class is right.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Tensor, TensorData};

use crate::data::Batch;

/// A class less likely than this gets no gradient. Its share of the gradient would be lost in rounding; but on its way
/// back through the layers it would become numbers so small that f32 holds them as subnormals, and with those a CPU is
/// slow: a network that has learnt its data took a quarter longer for a step. (WebAssembly cannot flush them to zero.)
const LEAST_PROBABILITY: f32 = 1e-20;

/// The sum over samples of `-log softmax(logits)[label]`. `logits`: `[batch, classes]`.
pub(super) fn cross_entropy(logits: Tensor<2>, batch: &Batch, device: &Device) -> Tensor<1> {
    let targets = targets(batch, logits.dims()[1], device);
    (log_softmax(logits, 1) * targets).sum().neg()
}

/// The same, for a backward pass: by the logits its gradient is `softmax(logits) - target`.
pub(super) fn with_gradient(logits: Tensor<2>, batch: &Batch, device: &Device) -> Tensor<1> {
    let [rows, classes] = logits.dims();
    let targets = targets(batch, classes, device);
    let mask = Tensor::<2>::from_data(TensorData::new(batch.mask.clone(), [rows, 1]), device);
    let log_probabilities = log_softmax(logits.clone().detach(), 1);
    let loss = (log_probabilities.clone() * targets.clone()).sum().neg();
    let probabilities = log_probabilities.exp() * mask;
    let gradient = probabilities.clamp_min(LEAST_PROBABILITY) - LEAST_PROBABILITY - targets;
    // Linear in the logits, so this is its gradient; its value is taken away again.
    let carrier = (logits * gradient).sum();
    loss + (carrier.clone() - carrier.detach())
}

/// `[batch, classes]`: 1 at each sample's label, 0 elsewhere and in padded rows.
fn targets(batch: &Batch, classes: usize, device: &Device) -> Tensor<2> {
    let mut targets = vec![0.0_f32; batch.labels.len() * classes];
    for ((row, &label), &mask) in targets.chunks_mut(classes).zip(&batch.labels).zip(&batch.mask) {
        if let Some(target) = row.get_mut(label as usize) {
            *target = mask;
        }
    }
    Tensor::from_data(TensorData::new(targets, [batch.labels.len(), classes]), device)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two samples and a padded row; the second sample's last class is out of the question.
    const LOGITS: [f32; 9] = [1.0, 2.0, 0.5, 0.0, 3.0, -70.0, 4.0, 5.0, 6.0];

    fn batch() -> Batch {
        Batch { features: Vec::new(), labels: vec![1, 0, 0], mask: vec![1.0, 1.0, 0.0], samples: 2 }
    }

    /// The loss of `LOGITS`, and its gradient by each of them, in f64.
    fn by_hand() -> (f64, Vec<f64>) {
        let (mut loss, mut gradient) = (0.0, Vec::new());
        for (row, (label, mask)) in LOGITS.chunks(3).zip([(1, 1.0), (0, 1.0), (0, 0.0)]) {
            let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            let probabilities = row.iter().map(|&logit| f64::from(logit).exp() / sum);
            loss -= mask * (f64::from(row[label]) - sum.ln());
            gradient.extend(probabilities.enumerate().map(|(class, p)| mask * (p - f64::from(class == label))));
        }
        (loss, gradient)
    }

    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().try_into_vec().expect("floats")
    }

    #[test]
    fn loss_and_gradient_are_those_of_cross_entropy_and_what_cannot_count_is_zero() {
        let device = Device::flex().autodiff();
        let logits = Tensor::<2>::from_data(TensorData::new(LOGITS.to_vec(), [3, 3]), &device).require_grad();
        let loss = with_gradient(logits.clone(), &batch(), &device);
        let gradient = values(logits.grad(&loss.backward()).expect("a gradient"));
        let (expected_loss, expected) = by_hand();
        assert!((f64::from(values(loss)[0]) - expected_loss).abs() < 1e-5);
        for (found, expected) in gradient.iter().zip(&expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{gradient:?}, not {expected:?}");
        }
        assert!(expected[5] > 0.0, "{expected:?}");
        assert_eq!(gradient[5], 0.0);
        let plain = Tensor::from_data(TensorData::new(LOGITS.to_vec(), [3, 3]), &Device::flex());
        assert!((f64::from(values(cross_entropy(plain, &batch(), &Device::flex()))[0]) - expected_loss).abs() < 1e-5);
    }
}
