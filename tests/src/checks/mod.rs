//! One function for each acceptance bullet.

mod digits;
mod faults;
mod page;
mod protocol;
mod run_file;
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
}
