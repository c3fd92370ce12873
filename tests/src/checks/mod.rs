//! One function for each acceptance bullet.

mod big;
mod digits;
mod fashion;
mod faults;
mod page;
mod protocol;
mod run_file;
mod smooth;
mod speed;
mod tools;
mod webgpu;

use std::pin::Pin;

use crate::{Measured, Scale};

/// The future of a check.
pub type Checking = Pin<Box<dyn Future<Output = anyhow::Result<Measured>>>>;

/// An acceptance bullet.
pub struct Check {
    /// Its id.
    pub id: &'static str,
    /// What is expected.
    pub expected: &'static str,
    /// Measures it.
    pub measure: fn(Scale) -> Checking,
}

macro_rules! checks {
    ($($id:literal: $expected:literal => $measure:path,)*) => {
        /// Every acceptance bullet, in the order of the issue.
        pub const CHECKS: &[Check] =
            &[$(Check { id: $id, expected: $expected, measure: |scale| Box::pin($measure(scale)) },)*];
    };
}

checks! {
    "A-clone": "clean clone, `cargo xtask demo`; two tabs train; the run finishes by itself" => digits::clone,
    "A-digits": "the demo with two headless CPU workers: >= 96 % validation accuracy, samples_trained exact; \
        >= 90 s and >= 100 commits; a tab that joins within 20 s gets >= a fifth" => digits::digits,
    "A-webgpu": "one WebGPU worker (software, in the ledger) trains >= 10 steps, its loss falls, its centre agrees \
        with the CPU's plain loop (1e-5)" => webgpu::webgpu,
    "A-lone": "one worker alone makes the loss fall" => digits::lone,
    "A-killed": "a tab killed in mid-lease: the ledger ends exact" => faults::killed,
    "A-frozen": "a tab frozen past its deadline: the ledger ends exact" => faults::frozen,
    "A-reload": "a reload keeps contributor and worker: the ledger ends exact" => faults::reload,
    "A-twin": "a duplicated tab becomes a second worker: the ledger ends exact" => faults::twin,
    "A-stale": "past the bound: refused once with advice, catches up, the next commit is accepted" => protocol::stale,
    "A-consent": "no Worker and no wasm before a trusted click" => page::consent,
    "A-runfile": "bad run files: exit 1 and one line that names file, place and remedy" => run_file::run_files,
    "A-page": "no WebGPU, plain http on a LAN name, no wasm SIMD, a blocked WebSocket: the page says what is wrong \
        and what to do" => page::places,
    "A-versions": "ends of different versions refuse each other with a readable reason" => protocol::versions,
    "A-orphans": "SIGKILL of `kindling worker`: no process of its browser remains" => faults::orphans,
    "M-fashion": "Fashion-MNIST, MLP, two headless CPU tabs, 5 epochs: >= 86 %, samples_trained exact; a Python script \
        finds the same accuracy in the files within 0.1 point" => fashion::mlp,
    "M-cnn": "the CNN example by two native workers: >= 89 %" => fashion::cnn,
    "M-native": "the MLP example by two native workers, and by one native and one tab" => fashion::native,
    "M-big": "80 MB of parameters, two workers, a third leaves in the middle of an upload: the ledger ends exact" =>
        big::big,
    "M-loop": "the worker's loop with exchange at window 50 >= 90 % of the bare loop; the bare loop >= 5 x tf.js on wasm" =>
        speed::training,
    "M-exchange": "f32 >= 60 % of the echo's rate in every cell, and more of it than dist-keras' server; int8 >= 2 x the f32 rate at 5,000,000 parameters" =>
        speed::exchange,
    "M-apply": "every codec is applied at >= 60 % of axpy's bandwidth" => speed::apply,
    "M-smooth": "long tasks in 60 s of training: none, or no more than idle; the observer sees a block of 80 ms" =>
        smooth::smooth,
    "M-memory": "wasm, JavaScript heaps and server stay flat over 5,000 steps" => smooth::memory,
    "M-tools": "two runs at once: dashboard, status, metrics and events are right while both train" => tools::tools,
}
