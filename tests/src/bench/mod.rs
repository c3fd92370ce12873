//! `cargo xtask bench`: how fast it is, as ratios measured in one run. Every result is a line of JSON.
//!
//! A figure of one machine means nothing on another: each of ours stands beside a baseline that was measured in turns
//! with it, and what is judged is the ratio.

pub mod apply;
pub mod echo;
pub mod exchange;
pub mod process;
pub mod training;

use serde::Serialize;

/// Median and spread of some rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Rounds {
    /// The middle one.
    pub median: f64,
    /// The lowest.
    pub least: f64,
    /// The highest.
    pub most: f64,
}

impl Rounds {
    /// Of at least one round.
    pub fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let at = |index: usize| rounds.get(index).copied().unwrap_or(f64::NAN);
        Self { median: at(rounds.len() / 2), least: at(0), most: at(rounds.len().saturating_sub(1)) }
    }
}

/// Prints a result as a line of JSON.
pub fn print(result: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(result)?);
    Ok(())
}
