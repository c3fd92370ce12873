//! `kindling worker`: contribute from this machine without a display. For labs and CI: an exit code says how it went.

#[cfg(unix)]
pub mod devtools;
mod find;
mod native;
mod socket;
#[cfg(unix)]
mod tabs;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};

pub use find::find_browser;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Contributes from headless browsers, or natively.
#[derive(Args, Debug)]
#[command(after_help = "Example: kindling worker --url http://127.0.0.1:7878 --count 2")]
pub struct WorkerArgs {
    /// The server's address, as `kindling serve` prints it.
    #[arg(long)]
    url: String,
    /// The run to contribute to; without it the server's first.
    #[arg(long, default_value = "")]
    run: String,
    /// Number of workers: each is a tab, or with --native a thread, of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    count: u32,
    /// Where to train; `webgpu` fails where there is no adapter, `auto` goes to the CPU instead.
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    backend: BackendChoice,
    /// Train in this process instead of in browsers: on the CPU, and faster.
    #[arg(long, conflicts_with_all = ["browser", "no_sandbox", "browser_arg"])]
    native: bool,
    /// The browser to start; without it `KINDLING_BROWSER`, or a Chromium or Chrome that is found.
    #[arg(long, value_name = "PATH")]
    browser: Option<PathBuf>,
    /// Seconds to wait for a server that cannot be reached.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    max_wait: u64,
    /// Start the browser without its sandbox. As root it has none anyway.
    #[arg(long)]
    no_sandbox: bool,
    /// One more argument for the browser; may be repeated.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    browser_arg: Vec<String>,
}

/// Where to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendChoice {
    /// WebGPU where there is an adapter, else the CPU.
    Auto,
    /// WebGPU or nothing.
    Webgpu,
    /// The CPU.
    Cpu,
}

impl BackendChoice {
    /// As the page reads it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Webgpu => "webgpu",
            Self::Cpu => "cpu",
        }
    }
}

/// Contributes until the run is done.
pub async fn work(args: WorkerArgs) -> anyhow::Result<()> {
    if args.native {
        if args.backend == BackendChoice::Webgpu {
            bail!("a native worker trains on the CPU: leave --native or --backend webgpu out");
        }
        return native::work(&args).await;
    }
    in_browsers(&args).await
}

#[cfg(unix)]
async fn in_browsers(args: &WorkerArgs) -> anyhow::Result<()> {
    tabs::work(args).await
}

#[cfg(not(unix))]
async fn in_browsers(_args: &WorkerArgs) -> anyhow::Result<()> {
    bail!("headless browsers need a Unix system: use --native, or open the address in a browser")
}
