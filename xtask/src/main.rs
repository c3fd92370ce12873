//! Builds, runs, tests and checks Kindling. Everything that a clean clone needs is made here; nothing else is needed.

mod bench;
mod browser;
#[path = "../../server/src/headless/find.rs"]
mod find;
mod lint;
mod process;
mod python;
mod stamp;
mod tests;
mod wasm;
mod web;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use process::cargo;

/// Builds, runs, tests and checks Kindling.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", after_help = "Example: cargo xtask demo")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build everything and host the digits demo.
    Demo {
        /// Arguments for `kindling serve`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        serve: Vec<String>,
    },
    /// Build the wasm module, the pages and the server.
    Build {
        /// The small wasm module and the optimised server, with everything inside.
        #[arg(long)]
        release: bool,
    },
    /// Run every test, the ones in a real browser too.
    Test {
        /// Do not install a browser where none is found.
        #[arg(long)]
        no_install: bool,
    },
    /// Check format, lints, dependencies and types.
    Lint,
    /// Measure how fast it is: a line of JSON for each result.
    Bench {
        /// Only this one: exchange, apply or training.
        name: Option<String>,
        /// Do not install a browser where none is found.
        #[arg(long)]
        no_install: bool,
        /// For that one, behind `--`: exchange takes --sessions and --parameters, training --window.
        #[arg(last = true, requires = "name")]
        only: Vec<String>,
    },
    /// Check every acceptance bullet: expected, measured, pass or fail.
    Verify {
        /// Only this one.
        id: Option<String>,
        /// Do not install a browser where none is found.
        #[arg(long)]
        no_install: bool,
    },
}

/// Which build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Rebuilt in seconds; the server reads its assets from disk.
    Debug,
    /// Small and fast; everything inside the binary.
    Release,
}

impl Profile {
    /// The name of cargo's and of the asset folder.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    std::env::set_current_dir(root()?)?;
    match cli.task {
        Task::Demo { serve } => demo(&serve),
        Task::Build { release } => build(if release { Profile::Release } else { Profile::Debug }),
        Task::Test { no_install } => tests::test(!no_install),
        Task::Lint => lint::lint(),
        Task::Bench { name, no_install, only } => bench::bench(name.as_deref(), &only, !no_install),
        Task::Verify { id, no_install } => tests::verify(id.as_deref(), !no_install),
    }
}

fn demo(serve: &[String]) -> anyhow::Result<()> {
    build(Profile::Debug)?;
    println!("Open the address below in two tabs, and its /dashboard in a third.");
    let mut command = std::process::Command::new(binary(Profile::Debug));
    command.arg("serve").args(serve);
    if !serve.iter().any(|argument| argument.starts_with("--data-dir")) {
        // A demo begins anew each time; what it gave stays where its last line says.
        let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        command.arg("--data-dir").arg(std::env::temp_dir().join(format!("kindling-demo-{}", started.as_millis())));
    }
    process::run(&mut command)
}

/// The wasm module, the pages, the server: in this order, because a release server carries the others.
pub fn build(profile: Profile) -> anyhow::Result<()> {
    web::install()?;
    wasm::build(profile)?;
    web::build(profile)?;
    let mut command = cargo();
    command.args(["build", "--package", "kindling"]);
    if profile == Profile::Release {
        command.arg("--release");
    }
    process::run(&mut command)
}

/// Where the pages and the module go; the server looks there.
pub fn assets(profile: Profile) -> PathBuf {
    PathBuf::from("web/dist").join(profile.folder())
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// The server's binary.
pub fn binary(profile: Profile) -> PathBuf {
    target().join(profile.folder()).join(format!("kindling{}", std::env::consts::EXE_SUFFIX))
}

fn root() -> anyhow::Result<PathBuf> {
    // As cargo says it now: another checkout may have built this binary, where both share a target folder.
    let here =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map(PathBuf::from).context("xtask has no folder above it")
}
