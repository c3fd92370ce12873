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

use kindling_shared::random::Stream;
use serde::Serialize;

use crate::idx::idx;

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
    /// Ours over theirs, round by round: what slows the machine for a while slows both.
    pub fn of_ratios(ours: &[f64], theirs: &[f64]) -> Self {
        Self::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect())
    }

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

/// Writes so many images as IDX files: noise over a pattern of each class, one label in sixteen wrong. As with real data
/// a network learns from it for long and is never sure: a step's time depends on its weights.
pub fn write_data(samples: u32, height: u32, width: u32, folder: &Path) -> anyhow::Result<()> {
    const CLASSES: u32 = 10;
    let pixels = height * width;
    let mut random = Stream::new(7, "bench data", &[]);
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for sample in 0..samples {
        let class = sample % CLASSES;
        let noise = random.below(u32::MAX);
        images.extend((0..pixels).map(|pixel| {
            let hashed = (noise ^ pixel).wrapping_mul(0x9E37_79B1) >> 25;
            ((pixel * (class + 3) % 128) + hashed) as u8
        }));
        let wrong = random.below(16) == 0;
        labels.push(if wrong { random.below(CLASSES) } else { class } as u8);
    }
    std::fs::write(folder.join("x"), idx(&[samples, height, width], &images))?;
    Ok(std::fs::write(folder.join("y"), idx(&[samples], &labels))?)
}
