//! The binary `kindling`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use kindling::{data, headless, serve, status};
use tracing_subscriber::EnvFilter;

#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Train one model together by opening a URL.
#[derive(Parser)]
#[command(version, after_help = "Example: kindling serve\nThen open the address that it prints in two tabs.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Host runs: parameter server, data and pages.
    Serve(serve::ServeArgs),
    /// Contribute from this machine, in headless browsers or natively.
    Worker(headless::WorkerArgs),
    /// Show the runs of a server.
    Status(status::StatusArgs),
    /// Get and check data.
    Data(data::DataArgs),
}

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("KINDLING_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    // A wrong call exits 2, by clap's own convention.
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Serve(args) => serve::serve(args).await,
            Command::Worker(args) => headless::work(args).await,
            Command::Status(args) => status::show(&args),
            Command::Data(args) => data::run(&args),
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// One line: what, where, what to do.
fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("kindling: {error:#}");
    ExitCode::FAILURE
}
