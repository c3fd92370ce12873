//! The flat parameter vector: where each tensor lies in it, and how it is encoded for the wire.

mod codec;
mod encoded;
mod layout;
mod parts;

pub use codec::Codec;
pub use encoded::{Assembler, Encoded, EncodedError};
pub use layout::{Layout, TensorKind, TensorRange};
pub use parts::Parts;
