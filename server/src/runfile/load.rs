//! Reading a run file and everything it names, and checking that the parts fit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindling_shared::model::infer_layout;
use kindling_shared::params::Layout;
use kindling_shared::run::{DataPlan, RunPlan};
use kindling_shared::strategy;

use super::RunFileError;
use super::schema::{DataFormat, Files, RunFile, ValidationSettings};
use crate::dataset::{self, Dataset, Samples, Validation};

/// Held out where the run file says nothing.
const DEFAULT_VALIDATION_SHARE: f64 = 0.1;
const EMBEDDED: &str = include_str!("../../assets/digits.toml");

/// A run, ready to be hosted.
#[derive(Debug)]
pub struct LoadedRun {
    /// What workers are told.
    pub plan: RunPlan,
    /// The parameters' layout.
    pub layout: Arc<Layout>,
    /// The data.
    pub dataset: Dataset,
    /// The rule.
    pub rule: &'static strategy::Rule,
    /// Passes over the training part.
    pub epochs: u32,
    /// The run file's text.
    pub run_file: String,
}

/// The embedded digits demo.
pub fn embedded_digits() -> Result<LoadedRun, RunFileError> {
    Loader { file: "digits.toml (embedded)".into(), folder: PathBuf::new() }.load(EMBEDDED)
}

/// Loads the run file at `path` and the data that it names.
pub fn load(path: &Path) -> Result<LoadedRun, RunFileError> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| RunFileError { file: file.clone(), what: format!("cannot be read: {error}") })?;
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    Loader { file, folder }.load(&text)
}

struct Loader {
    file: String,
    folder: PathBuf,
}

impl Loader {
    fn error(&self, what: impl Into<String>) -> RunFileError {
        RunFileError { file: self.file.clone(), what: what.into() }
    }

    fn load(&self, text: &str) -> Result<LoadedRun, RunFileError> {
        let run: RunFile = toml::from_str(text).map_err(|error| self.error(explain(&error, text)))?;
        let id = slug(&run.name);
        if id.is_empty() {
            return Err(self.error("name: needs at least one letter or digit"));
        }
        let rule = strategy::find(&run.strategy.rule).ok_or_else(|| self.unknown_rule(&run.strategy.rule))?;
        (rule.check)(&run.strategy).map_err(|what| self.error(format!("[strategy] {what}")))?;
        self.check_settings(&run)?;
        let samples = self.train_samples(&run)?;
        let validation = self.validation(&run)?;
        let classes = self.check_labels(&run, &samples, &validation)?;
        let layout = infer_layout(&run.model, &samples.sample_shape, classes)
            .map_err(|error| self.error(format!("[model] {error}; samples have shape {:?}", samples.sample_shape)))?;
        let dataset = dataset::cut(&samples, validation, run.data.shard_samples.get(), run.seed)
            .map_err(|error| self.error(format!("[data] {error}")))?;
        let data = DataPlan {
            sample_shape: dataset.sample_shape.clone(),
            classes,
            train_samples: dataset.train_samples(),
            shards: dataset.shards.len() as u32,
            bytes: dataset.shards.iter().map(|shard| shard.bytes.len() as u64).sum(),
            transforms: run.data.transforms,
        };
        let plan = RunPlan {
            id,
            name: run.name,
            seed: run.seed,
            data,
            model: run.model,
            worker: run.worker,
            strategy: run.strategy,
        };
        Ok(LoadedRun {
            plan,
            layout: Arc::new(layout),
            dataset,
            rule,
            epochs: run.stop.epochs.get(),
            run_file: text.to_owned(),
        })
    }

    fn unknown_rule(&self, name: &str) -> RunFileError {
        let names: Vec<&str> = strategy::RULES.iter().map(|rule| rule.name).collect();
        self.error(format!("[strategy] rule = {name:?}: no such rule{}", suggest(name, &names)))
    }

    fn check_settings(&self, run: &RunFile) -> Result<(), RunFileError> {
        let rate = run.worker.optimizer.learning_rate();
        if !(rate.is_finite() && rate > 0.0) {
            return Err(self.error(format!("[worker] optimizer: learning_rate = {rate}: must be above 0")));
        }
        if run.worker.batch_size == 0 {
            return Err(self.error("[worker] batch_size = 0: must be at least 1"));
        }
        for transform in &run.data.transforms {
            if matches!(transform, kindling_shared::data::Transform::Standardize { deviation, .. } if *deviation == 0.0)
            {
                return Err(self.error("[data] transforms: deviation = 0: must not be 0"));
            }
        }
        Ok(())
    }

    fn train_samples(&self, run: &RunFile) -> Result<Samples, RunFileError> {
        match (run.data.format, &run.data.train) {
            (DataFormat::Digits, None) => dataset::digits().map_err(|error| self.error(format!("[data] {error}"))),
            (DataFormat::Digits, Some(_)) => Err(self.error("[data] train: the digits are embedded; remove it")),
            (DataFormat::Idx, Some(files)) => self.read("train", files),
            (DataFormat::Idx, None) => {
                Err(self.error("[data] train is missing: train = { features = \"...\", labels = \"...\" }"))
            }
        }
    }

    fn validation(&self, run: &RunFile) -> Result<Validation, RunFileError> {
        match &run.data.validation {
            None => Ok(Validation::Share(DEFAULT_VALIDATION_SHARE)),
            Some(ValidationSettings::Share(share)) if *share > 0.0 && *share < 1.0 => Ok(Validation::Share(*share)),
            Some(ValidationSettings::Share(share)) => {
                Err(self.error(format!("[data] validation = {share}: must be above 0 and below 1")))
            }
            Some(ValidationSettings::Files(_)) if run.data.format == DataFormat::Digits => {
                Err(self.error("[data] validation: the digits are embedded; give a share, for example 0.2"))
            }
            Some(ValidationSettings::Files(files)) => self.read("validation", files).map(Validation::Samples),
        }
    }

    fn read(&self, key: &str, files: &Files) -> Result<Samples, RunFileError> {
        let features = self.path(key, &files.features)?;
        let labels = self.path(key, &files.labels)?;
        dataset::read_idx(&features, &labels).map_err(|error| self.error(format!("[data] {key}: {error}")))
    }

    /// A path of the run file: relative to its folder, with `${NAME}` replaced from the environment.
    fn path(&self, key: &str, path: &Path) -> Result<PathBuf, RunFileError> {
        let text = path.to_string_lossy();
        let mut out = String::new();
        let mut rest = text.as_ref();
        while let Some((before, after)) = rest.split_once("${") {
            let (name, behind) =
                after.split_once('}').ok_or_else(|| self.error(format!("[data] {key}: {text}: ${{ without }}")))?;
            let value = std::env::var(name).map_err(|_| {
                self.error(format!(
                    "[data] {key}: the environment variable {name} is not set; set it or write the path"
                ))
            })?;
            out.push_str(before);
            out.push_str(&value);
            rest = behind;
        }
        out.push_str(rest);
        Ok(self.folder.join(out))
    }

    fn check_labels(&self, run: &RunFile, train: &Samples, validation: &Validation) -> Result<usize, RunFileError> {
        let held_out = match validation {
            Validation::Samples(samples) => samples.labels.as_slice(),
            Validation::Share(_) => &[],
        };
        let largest = train.labels.iter().chain(held_out).max().copied().unwrap_or(0);
        let classes = run.model.outputs().unwrap_or(largest as usize + 1);
        for (part, labels) in [("train", train.labels.as_slice()), ("validation", held_out)] {
            if let Some(place) = labels.iter().position(|&label| label as usize >= classes) {
                return Err(self.error(format!(
                    "[data] {part}: label {} at sample {place}, but the model's last layer has {classes} units \
                     (labels 0 to {}): give it {} units, or mend the labels",
                    labels[place],
                    classes - 1,
                    largest + 1
                )));
            }
        }
        Ok(classes)
    }
}

/// Lower-case letters and digits, with a dash for everything between.
fn slug(name: &str) -> String {
    let mut out = String::new();
    for character in name.chars().take(64) {
        if character.is_ascii_alphanumeric() {
            out.push(character.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.trim_end_matches('-').to_owned()
}

/// A TOML error in one line: where, what, and the nearest known key.
fn explain(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
    let message = error.message().replace('\n', " ");
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        quoted.next().map(|name| (name, quoted.collect::<Vec<_>>()))
    } else {
        None
    };
    match unknown {
        Some((name, known)) => {
            let kind = if message.starts_with("unknown field") { "key" } else { "value" };
            format!("{place}unknown {kind} `{name}`{}", suggest(name, &known))
        }
        None => format!("{place}{message}"),
    }
}

/// `: did you mean ...?`, or what there is.
fn suggest(name: &str, known: &[&str]) -> String {
    let nearest = known.iter().max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
    match nearest {
        Some(nearest) if strsim::jaro_winkler(name, nearest) > 0.75 => {
            format!(": did you mean `{nearest}`?")
        }
        Some(_) => format!(": known are {}", known.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits_with(change: impl Fn(&str) -> String) -> Result<LoadedRun, String> {
        let loader = Loader { file: "run.toml".into(), folder: PathBuf::new() };
        loader.load(&change(EMBEDDED)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_embedded_demo_loads() {
        let run = embedded_digits().expect("loads");
        assert_eq!(run.plan.id, "digits");
        assert_eq!(run.dataset.train_samples() + run.dataset.validation.len() as u64, 1_797);
    }

    #[test]
    fn mistakes_are_named_with_place_and_remedy() {
        let cases: [(&str, &str, &str); 9] = [
            ("epochs", "epoch", "unknown key `epoch`: did you mean `epochs`?"),
            ("format", "fromat", "unknown key `fromat`: did you mean `format`?"),
            ("kind = \"relu\"", "kind = \"rely\"", "unknown value `rely`: did you mean `relu`?"),
            ("rule = \"dynsgd\"", "rule = \"dynsdg\"", "rule = \"dynsdg\": no such rule: did you mean `dynsgd`?"),
            ("units = 10 }", "units = 9 }", "label 9 at sample 9, but the model's last layer has 9 units"),
            ("{ kind = \"flatten\" },", "", "(linear) takes one dimension"),
            ("validation = ", "validation = 1", "must be above 0 and below 1"),
            ("learning_rate = ", "learning_rate = -", "must be above 0"),
            ("format = \"digits\"", "format = \"idx\"", "[data] train is missing"),
        ];
        for (from, to, expected) in cases {
            assert!(EMBEDDED.contains(from), "{from}");
            let error = digits_with(|text| text.replace(from, to)).expect_err(expected);
            assert!(error.starts_with("run.toml: ") && error.contains(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_slug_is_safe_in_an_address() {
        assert_eq!(slug("Fashion-MNIST, 2nd try!"), "fashion-mnist-2nd-try");
        assert_eq!(slug("../../etc"), "etc");
        assert_eq!(slug("数字"), "");
    }
}
