//! Running other programs, with errors that say what to do.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, bail};

/// This workspace's cargo.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a program; an error when it fails.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let words = words(command);
    let status = command.status().with_context(|| format!("{words}: cannot be started"))?;
    if !status.success() {
        bail!("{words}: {status}");
    }
    Ok(())
}

/// Runs a program and returns what it prints.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let words = words(command);
    let output = command.output().with_context(|| format!("{words}: cannot be started"))?;
    if !output.status.success() {
        bail!("{words}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs one stage and prints how long it took.
pub fn stage(name: &str, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    println!("== {name}");
    let began = Instant::now();
    let result = work();
    println!("== {name}: {} in {:.0} s", if result.is_ok() { "done" } else { "failed" }, began.elapsed().as_secs_f64());
    result
}

fn words(command: &Command) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    command.get_args().fold(program, |words, argument| words + " " + &argument.to_string_lossy())
}
