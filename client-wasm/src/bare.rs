//! The training loop without a session: what the worker's loop is measured against, on the same module.

use std::sync::Arc;

use burn::tensor::Device;
use kindling_shared::data::{BatchSource, Shard};
use kindling_shared::model::{infer_layout, initial_parameters};
use kindling_shared::random::permutation;
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

/// Trains on the CPU, window after window, epoch after epoch, with nobody to exchange with.
#[wasm_bindgen]
pub struct BareLoop {
    trainer: Trainer,
    /// An epoch.
    windows: Vec<BatchSource>,
    /// Index of the next window.
    next: usize,
}

#[wasm_bindgen]
impl BareLoop {
    /// Begins with the run's first parameters, and trains an epoch. `plan` is the run's plan as JSON; loss and parameters
    /// are read back every `window` steps.
    pub async fn begin(plan: String, shards: Vec<js_sys::Uint8Array>, window: u32) -> Result<Self, JsValue> {
        let plan: RunPlan = serde_json::from_str(&plan).map_err(words)?;
        let layout = infer_layout(&plan.model, &plan.data.sample_shape, plan.data.classes).map_err(words)?;
        let shards = shards.iter().map(|bytes| Shard::decode(&bytes.to_vec().into()).map(Arc::new));
        let windows = epoch(&shards.collect::<Result<Vec<_>, _>>().map_err(words)?, &plan, window);
        let mut trainer = Trainer::new(&plan, &layout, &Device::flex());
        trainer.load(&initial_parameters(&layout, plan.seed));
        let mut bare = Self { trainer, windows, next: 0 };
        for _ in 0..bare.windows.len() {
            bare.window().await?;
        }
        Ok(bare)
    }

    /// Goes on for at least `milliseconds`; returns local steps a second.
    pub async fn run(&mut self, milliseconds: f64) -> Result<f64, JsValue> {
        let (began, mut steps) = (now(), 0);
        while now() - began < milliseconds {
            steps += self.window().await?;
        }
        Ok(f64::from(steps) * 1e3 / (now() - began))
    }

    async fn window(&mut self) -> Result<u32, JsValue> {
        let source = self.windows.get(self.next).ok_or_else(|| JsValue::from_str("the shards hold no window"))?;
        self.next = (self.next + 1) % self.windows.len();
        let result = self.trainer.window(source, &mut Breathless).await.map_err(words)?;
        Ok(result.map_or(0, |result| result.steps))
    }
}

/// Whole windows of the shards' samples, in an order like the one that leases have.
fn epoch(shards: &[Arc<Shard>], plan: &RunPlan, window: u32) -> Vec<BatchSource> {
    let places = shards.iter().enumerate().flat_map(|(index, shard)| {
        let order = permutation(shard.len() as u32, plan.seed, "shard", &[0, index as u64]);
        order.into_iter().map(|place| (Arc::clone(shard), place))
    });
    let places: Vec<_> = places.collect();
    let windows = places.chunks_exact((window * plan.worker.batch_size) as usize);
    let source =
        |order: &[_]| BatchSource::new(order.to_vec(), plan.worker.batch_size, plan.data.transforms.clone().into());
    windows.map(source).collect()
}

fn words(error: impl std::fmt::Display) -> JsValue {
    JsValue::from_str(&error.to_string())
}
