//! What a finished run leaves: model.safetensors, model.json, run.toml, history.csv.

use std::fmt::Write as _;
use std::path::Path;

use kindling_shared::data::Transform;
use kindling_shared::model::ModelSpec;
use serde::Serialize;

use crate::run::Run;

/// Points of each series in history.csv.
const MOST_POINTS: usize = 100_000;

/// `model.json`: everything that is needed to use `model.safetensors`.
#[derive(Debug, Serialize)]
pub struct ModelCard {
    /// Version of this file's form.
    pub format: u32,
    /// The run's id.
    pub run: String,
    /// Its name.
    pub name: String,
    /// The training rule.
    pub rule: String,
    /// The centre's version, `generation.number`.
    pub version: String,
    /// Samples that the model was trained on, over all epochs.
    pub samples_trained: u64,
    /// On the validation part.
    pub validation: ValidationResult,
    /// Shape of one sample.
    pub sample_shape: Vec<usize>,
    /// Number of classes.
    pub classes: usize,
    /// Applied to a sample before the first layer, in order.
    pub transforms: Vec<Transform>,
    /// The network.
    pub model: ModelSpec,
    /// The tensors of `model.safetensors`, in the order of the flat vector. Linear weights are `[in, out]`,
    /// convolutions `[out, in, height, width]`.
    pub tensors: Vec<TensorEntry>,
}

/// How good the model is.
#[derive(Debug, Serialize)]
pub struct ValidationResult {
    /// Samples of the validation part.
    pub samples: usize,
    /// Mean loss, in nats a sample.
    pub loss: Option<f32>,
    /// Share of samples that are classified rightly, 0 to 1.
    pub accuracy: Option<f32>,
}

/// One tensor.
#[derive(Debug, Serialize)]
pub struct TensorEntry {
    /// Its name in `model.safetensors`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
}

pub(super) fn write(run: &Run, folder: &Path) -> anyhow::Result<()> {
    std::fs::write(folder.join("model.safetensors"), run.model()?)?;
    std::fs::write(folder.join("model.json"), serde_json::to_string_pretty(&card(run))? + "\n")?;
    std::fs::write(folder.join("run.toml"), run.run_file())?;
    std::fs::write(folder.join("history.csv"), history(run))?;
    Ok(())
}

fn card(run: &Run) -> ModelCard {
    let (plan, status) = (run.plan(), run.status());
    let entry = |tensor: &kindling_shared::params::TensorRange| TensorEntry {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
    };
    ModelCard {
        format: 1,
        run: status.id,
        name: status.name,
        rule: status.rule,
        version: run.version().to_string(),
        samples_trained: status.samples_trained,
        validation: ValidationResult {
            samples: run.dataset().validation.len(),
            loss: status.loss.validation,
            accuracy: status.metrics.accuracy,
        },
        sample_shape: plan.data.sample_shape.clone(),
        classes: plan.data.classes,
        transforms: plan.data.transforms.clone(),
        model: plan.model.clone(),
        tensors: run.layout().tensors().iter().map(entry).collect(),
    }
}

fn history(run: &Run) -> String {
    let mut csv = "series,unit,unix_milliseconds,samples_trained,version,value\n".to_owned();
    for series in run.series(0, MOST_POINTS) {
        for (at, samples, version, value) in series.points {
            // Writing into a string cannot fail.
            let _ = writeln!(csv, "{},{},{at},{samples},{version},{value}", series.name, series.unit);
        }
    }
    csv
}
