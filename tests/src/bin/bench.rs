//! `cargo xtask bench`: see [`kindling_tests::bench`].

use std::time::Duration;

use clap::{Parser, Subcommand};
use kindling_shared::params::Codec;
use kindling_tests::bench::{apply, echo, exchange, print, training};

/// Measures how fast it is.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Clone, Copy, Subcommand)]
enum Bench {
    /// Exchanges a second, beside an echo.
    Exchange,
    /// Applying updates, beside axpy.
    Apply,
    /// The worker's loop in the browser, beside the bare loop and tf.js.
    Training,
    /// The baseline of `exchange`.
    #[command(hide = true)]
    Echo,
}

const EFFORT: exchange::Effort = exchange::Effort { rounds: 5, seconds: 2.0 };

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().bench {
        Bench::Exchange => {
            let echo = exchange::EchoProcess::start().await?;
            for size in [exchange::SMALL, exchange::LARGE] {
                for sessions in [1, 2, 8] {
                    for cell in exchange::measure(size, sessions, &[Codec::F32, Codec::Int8], EFFORT, &echo.url).await?
                    {
                        print(&cell)?;
                    }
                }
            }
        }
        Bench::Apply => {
            for size in [exchange::SMALL, exchange::LARGE] {
                for codec in Codec::ALL {
                    print(&apply::measure(size.parameters, codec, 5, Duration::from_millis(300)))?;
                }
            }
        }
        Bench::Training => {
            let folder = tempfile::tempdir()?;
            for window in training::WINDOWS {
                print(&training::measure(window, 5, 6.0, folder.path()).await?)?;
            }
        }
        Bench::Echo => echo::serve().await?,
    }
    Ok(())
}
