//! `cargo xtask verify`: every acceptance bullet by its id, at full length.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use kindling_tests::checks::{CHECKS, Check};
use kindling_tests::{Measured, Scale, report};

/// Checks acceptance bullets.
#[derive(Parser)]
struct Arguments {
    /// Only the bullet with this id.
    id: Option<String>,
    /// The short form that the tests run.
    #[arg(long)]
    short: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let chosen: Vec<&Check> =
        CHECKS.iter().filter(|check| arguments.id.as_ref().is_none_or(|id| check.id == id)).collect();
    if chosen.is_empty() {
        let ids: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
        eprintln!("no such bullet: known are {}", ids.join(", "));
        return ExitCode::from(2);
    }
    let scale = if arguments.short { Scale::Short } else { Scale::Full };
    let mut missed = 0;
    for check in chosen {
        let began = Instant::now();
        let measured = (check.measure)(scale)
            .await
            .unwrap_or_else(|error| Measured { pass: false, words: format!("error: {error:#}") });
        let result = if measured.pass { "pass" } else { "fail" };
        missed += u32::from(!measured.pass);
        let seconds = began.elapsed().as_secs();
        println!("{} {result} ({seconds} s)\n  expected: {}\n  measured: {}", check.id, check.expected, measured.words);
        let words = measured.words.replace('|', "\\|").replace('\n', " ");
        if scale == Scale::Full
            && let Err(error) = report::record(check, &format!("{words} | {result} | {seconds}"))
        {
            eprintln!("{} cannot be written: {error}", report::PATH);
            return ExitCode::FAILURE;
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
