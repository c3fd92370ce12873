//! Python for the tests that judge a model from outside: a virtual environment under `target/`, versions pinned.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::{process, stamp, target};

const REQUIREMENTS: &str = "tests/python/requirements.txt";

/// The environment's interpreter; made where it is missing or its requirements changed.
pub fn ensure() -> anyhow::Result<PathBuf> {
    let folder = std::path::absolute(target().join("python"))?;
    let python = if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") };
    let made_from = stamp::hash(&[Path::new(REQUIREMENTS)])?;
    stamp::unless_done(&folder.join(".stamp"), &made_from, || {
        let system = if cfg!(windows) { "python" } else { "python3" };
        process::run(Command::new(system).args(["-m", "venv", "--clear"]).arg(&folder))
            .context("the tests need Python 3.10 or newer with venv (on Debian: apt-get install python3-venv)")?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", REQUIREMENTS];
        process::run(Command::new(&python).args(pip))
            .context("numpy and safetensors cannot be had: is there a network?")
    })?;
    Ok(python)
}
