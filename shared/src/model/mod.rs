//! The model as data: layers in the run file become a burn module on a device that is chosen at run time.

mod network;
mod shape;
mod spec;

pub use network::{Activation, Network};
pub use shape::{ShapeError, infer_layout, initial_parameters};
pub use spec::{Layer, Loss, ModelSpec, Padding};
