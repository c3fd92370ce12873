//! The training loop without a session: what the worker's loop is measured against, on the same module.

use std::sync::Arc;

use burn::tensor::Device;
use kindling_shared::data::{BatchSource, Shard};
use kindling_shared::model::{infer_layout, initial_parameters};
use kindling_shared::run::RunPlan;
use kindling_shared::trainer::{Between, Pacer, Trainer};
use wasm_bindgen::prelude::*;

use crate::pacer::now;

/// Never breathes: nobody else wants to run here.
struct Breathless;

impl Pacer for Breathless {
    async fn between_steps(&mut self) -> Between {
        Between::GoOn
    }
}

/// Trains on the CPU on one shard, over and over, for at least `milliseconds`, and reads loss and parameters back every
/// `window` steps. `plan` is the run's plan as JSON. Returns local steps a second.
#[wasm_bindgen]
pub async fn bare_loop(plan: String, shard: Vec<u8>, window: u32, milliseconds: f64) -> Result<f64, JsValue> {
    let words = |error: &dyn std::fmt::Display| JsValue::from_str(&error.to_string());
    let plan: RunPlan = serde_json::from_str(&plan).map_err(|error| words(&error))?;
    let layout =
        infer_layout(&plan.model, &plan.data.sample_shape, plan.data.classes).map_err(|error| words(&error))?;
    let shard = Arc::new(Shard::decode(&shard.into()).map_err(|error| words(&error))?);
    let order = (0..window * plan.worker.batch_size).map(|index| (Arc::clone(&shard), index % shard.len() as u32));
    let source = BatchSource::new(order.collect(), plan.worker.batch_size, plan.data.transforms.clone().into());
    let mut trainer = Trainer::new(&plan, &layout, &Device::flex());
    trainer.load(&initial_parameters(&layout, plan.seed));
    trainer.window(&source, &mut Breathless).await.map_err(|error| words(&error))?;
    let (began, mut steps) = (now(), 0);
    while now() - began < milliseconds {
        trainer.window(&source, &mut Breathless).await.map_err(|error| words(&error))?;
        steps += window;
    }
    Ok(f64::from(steps) * 1e3 / (now() - began))
}
