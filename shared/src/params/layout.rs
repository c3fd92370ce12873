//! The layout of the flat vector: the tensors of a model, one after the other in the order of its layers.

use sha2::{Digest, Sha256};

/// What a range of the vector is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    /// Learned by gradient; goes through rule and codec.
    Trainable,
    /// Statistics that a layer keeps (running means); bypasses rule and codec.
    State,
}

/// One tensor's place in the flat vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorRange {
    /// Layer index and tensor, for example `layers.1.weight`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Trainable or state.
    pub kind: TensorKind,
    /// Index of its first element in the flat vector.
    pub start: usize,
    /// Inputs that feed one output: decides the scale of the initial values.
    pub fan_in: usize,
}

impl TensorRange {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True when it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its indices in the flat vector.
    pub fn indices(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.len()
    }
}

/// All tensors of a model, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<TensorRange>,
    elements: usize,
}

impl Layout {
    /// Adds a tensor behind the last one.
    pub fn push(&mut self, name: String, shape: Vec<usize>, kind: TensorKind, fan_in: usize) {
        let tensor = TensorRange { name, shape, kind, start: self.elements, fan_in };
        self.elements += tensor.len();
        self.tensors.push(tensor);
    }

    /// The tensors, in the order of the vector.
    pub fn tensors(&self) -> &[TensorRange] {
        &self.tensors
    }

    /// Length of the flat vector.
    pub const fn elements(&self) -> usize {
        self.elements
    }

    /// A hash of names, shapes and kinds: both ends compare it before any tensor travels.
    pub fn schema_hash(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"kindling layout 1");
        for tensor in &self.tensors {
            hash.update((tensor.name.len() as u64).to_le_bytes());
            hash.update(tensor.name.as_bytes());
            hash.update([match tensor.kind {
                TensorKind::Trainable => 0,
                TensorKind::State => 1,
            }]);
            hash.update((tensor.shape.len() as u64).to_le_bytes());
            for &side in &tensor.shape {
                hash.update((side as u64).to_le_bytes());
            }
        }
        hash.finalize().into()
    }
}
