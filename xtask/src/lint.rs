//! Format, lints, dependencies, types.

use anyhow::bail;

use crate::process::{self, cargo, stage};
use crate::{wasm, web};

/// Checks everything that needs no test run.
pub fn lint() -> anyhow::Result<()> {
    stage("format", || process::run(cargo().args(["fmt", "--all", "--check"])))?;
    stage("clippy, native", || {
        process::run(
            cargo()
                .args(["clippy", "--workspace", "--exclude", "kindling-client", "--all-targets"])
                .args(["--", "-D", "warnings"]),
        )
    })?;
    stage("clippy, wasm32", || {
        wasm::add_target()?;
        process::run(
            cargo()
                .args(["clippy", "--package", "kindling-client", "--target", wasm::TARGET])
                .args(["--", "-D", "warnings"]),
        )
    })?;
    stage("dependencies", dependencies)?;
    stage("pages", || {
        web::install()?;
        web::npm(&["run", "check"])
    })
}

/// No wgpu in the native server, no C code in the wasm module.
fn dependencies() -> anyhow::Result<()> {
    let server = tree(&["--package", "kindling", "--edges", "normal"])?;
    let client = tree(&["--package", "kindling-client", "--target", wasm::TARGET, "--edges", "normal,build"])?;
    for (tree, of, banned) in [(server, "the server", "wgpu"), (client, "the wasm module", "cc")] {
        if tree.lines().any(|line| line.split(' ').next() == Some(banned)) {
            bail!("{of} depends on {banned}: `cargo tree --invert {banned}` says why");
        }
    }
    Ok(())
}

fn tree(arguments: &[&str]) -> anyhow::Result<String> {
    process::output(cargo().args(["tree", "--prefix", "none"]).args(arguments))
}
