//! The tests, from the pure core to the whole system in a real browser, and the acceptance checks.

use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, bail};

use crate::process::{self, cargo, stage};
use crate::{Profile, binary, browser, build, python, web};

const GENERATED: &str = "web/src/generated";

/// Every test.
pub fn test(install: bool) -> anyhow::Result<()> {
    let began = SystemTime::now();
    stage("unit tests", || {
        process::run(cargo().args([
            "test",
            "--package",
            "kindling-shared",
            "--package",
            "kindling",
            "--package",
            "xtask",
        ]))
    })?;
    stage("generated types", || generated_types_are_committed(began))?;
    stage("tests of the pages", || {
        web::install()?;
        web::npm(&["run", "test"])
    })?;
    stage("build", || build(Profile::Debug))?;
    stage("whole-system tests", || {
        let mut command = cargo();
        command.args(["test", "--package", "kindling-tests"]);
        process::run(with_system(&mut command, install)?)
    })
}

/// The acceptance checks at full length.
pub fn verify(id: Option<&str>, install: bool) -> anyhow::Result<()> {
    build(Profile::Debug)?;
    let mut command = cargo();
    command.args(["run", "--package", "kindling-tests", "--bin", "acceptance", "--"]);
    command.args(id);
    process::run(with_system(&mut command, install)?)
}

/// Tells the tests where the server's binary, the browser and Python are.
fn with_system(command: &mut Command, install: bool) -> anyhow::Result<&mut Command> {
    let server = std::path::absolute(binary(Profile::Debug))?;
    let browser = browser::ensure(install)?;
    match python::ensure() {
        Ok(python) => drop(command.env("KINDLING_PYTHON", python)),
        Err(error) => println!("{error:#}: the checks that need it fail"),
    }
    Ok(command.env("KINDLING_SERVER", server).env("KINDLING_BROWSER", browser))
}

/// The unit tests, which ran after `began`, write the pages' types anew: what is checked in must be the same.
fn generated_types_are_committed(began: SystemTime) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(GENERATED)? {
        let entry = entry?;
        if entry.metadata()?.modified()? < began {
            bail!("{} was not written by `cargo test`: its type is gone, delete the file", entry.path().display());
        }
    }
    let changed = process::output(Command::new("git").args(["status", "--porcelain", "--", GENERATED]))
        .context("git is needed to compare the generated types")?;
    if !changed.is_empty() {
        bail!("the types in {GENERATED} do not match the server's: commit what `cargo test` wrote\n{changed}");
    }
    Ok(())
}
