//! `cargo xtask bench`: how fast it is, as ratios measured in one run. Every result is a line of JSON.
//!
//! A figure of one machine means nothing on another: each of ours stands beside a baseline that was measured in turns
//! with it, and what is judged is the ratio.

pub mod apply;
pub mod echo;
pub mod exchange;
pub mod process;
pub mod training;

use std::path::Path;

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

/// Writes so many images of a pattern as IDX files: nobody learns from them here.
pub fn write_data(samples: u32, height: u32, width: u32, folder: &Path) -> anyhow::Result<()> {
    let mut images = vec![0, 0, 8, 3];
    for side in [samples, height, width] {
        images.extend(side.to_be_bytes());
    }
    images.extend((0..samples * height * width).map(|index| (index % 251) as u8));
    let mut labels = vec![0, 0, 8, 1];
    labels.extend(samples.to_be_bytes());
    labels.extend((0..samples).map(|index| (index % 10) as u8));
    std::fs::write(folder.join("x"), images)?;
    Ok(std::fs::write(folder.join("y"), labels)?)
}
