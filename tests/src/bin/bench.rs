//! `cargo xtask bench`: see [`kindling_tests::bench`].

use std::time::Duration;

use clap::{Parser, Subcommand};
use kindling_shared::params::Codec;
use kindling_tests::bench::{apply, echo, exchange, print, training};

/// The server's, so that the baseline has it too.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures how fast it is.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Clone, Subcommand)]
enum Bench {
    /// Exchanges a second, beside an echo.
    Exchange {
        /// Only with so many sessions: 1, 2 or 8.
        #[arg(long, value_parser = one_of(SESSIONS))]
        sessions: Option<usize>,
        /// Only with a model of this size: 203530 or 5000000.
        #[arg(long, value_parser = one_of(SIZES.map(|size| size.parameters)))]
        parameters: Option<usize>,
    },
    /// Applying updates, beside axpy.
    Apply,
    /// The worker's loop in the browser, beside the bare loop and tf.js.
    Training {
        /// Only with this window: 10, 50 or "auto".
        #[arg(long, value_parser = training::WINDOWS)]
        window: Option<String>,
    },
    /// The baseline of `exchange`.
    #[command(hide = true)]
    Echo,
}

const SIZES: [exchange::Size; 2] = [exchange::SMALL, exchange::LARGE];
const SESSIONS: [usize; 3] = [1, 2, 8];

/// Reads one of these numbers.
fn one_of<const N: usize>(numbers: [usize; N]) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| {
        let found = numbers.into_iter().find(|number| number.to_string() == text);
        found.ok_or_else(|| format!("choose one of {numbers:?}"))
    }
}

const EFFORT: exchange::Effort = exchange::Effort { rounds: 5, seconds: 2.0 };

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().bench {
        Bench::Exchange { sessions, parameters } => {
            let echo = exchange::EchoProcess::start().await?;
            for size in SIZES.into_iter().filter(|size| parameters.is_none_or(|only| only == size.parameters)) {
                for count in SESSIONS.into_iter().filter(|count| sessions.is_none_or(|only| only == *count)) {
                    for codec in [Codec::F32, Codec::Int8] {
                        print(&exchange::measure(size, count, codec, EFFORT, echo.baseline()).await?)?;
                    }
                }
            }
        }
        Bench::Apply => {
            for size in SIZES {
                for codec in Codec::ALL {
                    print(&apply::measure(size.parameters, codec, 5, Duration::from_millis(300)))?;
                }
            }
        }
        Bench::Training { window: only } => {
            let folder = tempfile::tempdir()?;
            for window in
                training::WINDOWS.into_iter().filter(|window| only.as_deref().is_none_or(|only| only == *window))
            {
                print(&training::measure(window, 5, 3.0, folder.path()).await?)?;
            }
        }
        Bench::Echo => echo::serve().await?,
    }
    Ok(())
}
