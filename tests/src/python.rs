//! What Python says of a model's files, which knows nothing of Kindling.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/accuracy.py");

/// The accuracy of the model in `results` on these IDX files, 0 to 1.
pub fn accuracy(results: &Path, features: &Path, labels: &Path) -> anyhow::Result<f64> {
    let python = std::env::var_os("KINDLING_PYTHON").context("run this by `cargo xtask test` or `verify`")?;
    let output = Command::new(python).arg(SCRIPT).args([results, features, labels]).output()?;
    if !output.status.success() {
        bail!("accuracy.py: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}
