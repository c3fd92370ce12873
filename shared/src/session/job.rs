//! What a shell computes for its session: the same in the browser and in a native worker.

use std::sync::Arc;

use burn::tensor::Device;

use super::ahead::Ahead;
use super::{Input, WindowOrder};
use crate::params::Layout;
use crate::protocol::SelfTestAnswer;
use crate::run::RunPlan;
use crate::trainer::{DeviceError, Pacer, Trainer, WindowResult};

/// Something to compute, one at a time.
#[derive(Debug)]
pub enum Job {
    /// Build a trainer for this run and compute the self-test of this seed.
    SelfTest {
        /// The run.
        plan: Arc<RunPlan>,
        /// Its layout.
        layout: Arc<Layout>,
        /// The seed.
        seed: u64,
    },
    /// Train a window.
    Window(WindowOrder),
}

/// What a job gave.
#[derive(Debug)]
pub enum Outcome {
    /// The answer to the self-test.
    SelfTest(SelfTestAnswer),
    /// A window's result; absent when it was abandoned.
    Window {
        /// The number of its order.
        number: u64,
        /// What it gave.
        result: Option<WindowResult>,
        /// Milliseconds that it took, without the wait for a late centre.
        compute_ms: u32,
    },
}

impl Job {
    /// Computes it on `device`, with the trainer of the job before, if there is one. `now` reads the shell's clock, in
    /// milliseconds. Returns the trainer for the next job.
    pub async fn run(
        self,
        trainer: Option<Trainer>,
        device: &Device,
        pacer: &mut impl Pacer,
        now: impl Fn() -> f64,
    ) -> (Trainer, Result<Outcome, DeviceError>) {
        match self {
            Self::SelfTest { plan, layout, seed } => {
                let mut trainer = Trainer::new(&plan, &layout, device);
                let answer = trainer.self_test(seed).await;
                (trainer, answer.map(Outcome::SelfTest))
            }
            Self::Window(order) => {
                let mut trainer = trainer.unwrap_or_else(|| Trainer::new(&order.plan, &order.layout, device));
                if order.fresh_optimizer {
                    trainer.reset_optimizer();
                }
                if let Some(parameters) = &order.load {
                    trainer.load(parameters);
                }
                let began = now();
                let mut pacer = Ahead { pacer, late: order.late_centre, now: &now, waited: 0.0 };
                let result = trainer.window(&order.source, &mut pacer).await;
                let compute_ms = (now() - began - pacer.waited).max(1.0) as u32;
                let outcome = result.map(|result| Outcome::Window { number: order.number, result, compute_ms });
                (trainer, outcome)
            }
        }
    }
}

impl Outcome {
    /// What the session hears of it; nothing of an abandoned window.
    pub fn into_input(self) -> Option<Input> {
        match self {
            Self::SelfTest(answer) => Some(Input::SelfTestDone(answer)),
            Self::Window { number, result, compute_ms } => {
                result.map(|result| Input::WindowDone { number, result, compute_ms })
            }
        }
    }
}
