//! What both ends of Kindling must agree on.
//!
//! Everything here is pure: it reads no clock, does no IO and starts no thread; time, randomness and bytes are handed
//! in. It builds for the host and for wasm32, and the server, the browser worker, the native tests and (one day) the
//! simulator are shells around it.
#![warn(missing_docs)]

pub mod data;
pub mod model;
pub mod params;
pub mod protocol;
pub mod random;
pub mod run;
pub mod session;
pub mod strategy;
pub mod trainer;
