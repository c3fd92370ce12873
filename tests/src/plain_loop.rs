//! A plain local training loop over a run's data: what the rule `single` must equal.

use std::collections::BTreeMap;
use std::sync::Arc;

use kindling::coordinator::Ledger;
use kindling::runfile::LoadedRun;
use kindling_shared::data::{BatchSource, Shard};
use kindling_shared::model::initial_parameters;
use kindling_shared::random::permutation;
use kindling_shared::trainer::{Between, Pacer, Trainer};

struct Always;

impl Pacer for Always {
    async fn between_steps(&mut self) -> Between {
        Between::GoOn
    }
}

/// Trains through every epoch, batch by batch, and returns the parameters.
pub async fn train(run: &LoadedRun) -> anyhow::Result<Vec<f32>> {
    let mut trainer = Trainer::new(&run.plan, &run.layout, &burn::tensor::Device::flex());
    trainer.load(&initial_parameters(&run.layout, run.plan.seed));
    let shards: BTreeMap<u32, Arc<Shard>> = run
        .dataset
        .shards
        .iter()
        .zip(0..)
        .map(|(stored, index)| Ok((index, Arc::new(Shard::decode(&stored.bytes)?))))
        .collect::<anyhow::Result<_>>()?;
    let sizes = run.dataset.shards.iter().map(|shard| shard.samples).collect();
    let mut ledger = Ledger::new(run.plan.seed, sizes, run.epochs);
    let mut parameters = Vec::new();
    while !ledger.is_full() {
        let spans = ledger.take(u32::MAX);
        let mut order = Vec::new();
        for span in &spans {
            for part in ledger.shard_spans(*span) {
                let shard = &shards[&part.shard];
                let keys = [u64::from(span.epoch), u64::from(part.shard)];
                let inside = permutation(shard.len() as u32, run.plan.seed, "shard", &keys);
                let places = &inside[part.start as usize..part.end as usize];
                order.extend(places.iter().map(|&place| (Arc::clone(shard), place)));
            }
        }
        let source = BatchSource::new(order, run.plan.worker.batch_size, run.plan.data.transforms.clone().into());
        if let Some(result) = trainer.window(&source, &mut Always).await? {
            parameters = result.parameters;
        }
        for span in spans {
            ledger.complete(span);
        }
    }
    Ok(parameters)
}
