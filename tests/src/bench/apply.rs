//! How fast an update changes the centre straight from its encoded form, beside a plain axpy over the same vector.

use std::hint::black_box;
use std::time::{Duration, Instant};

use kindling_shared::params::{Codec, Encoded};
use serde::Serialize;

use super::Rounds;

/// One codec on one vector.
#[derive(Clone, Debug, Serialize)]
pub struct Apply {
    /// Always `apply`.
    pub bench: &'static str,
    /// Length of the vector.
    pub parameters: usize,
    /// The update's codec.
    pub codec: Codec,
    /// Bytes read and written, in GB/s: the update, and the centre twice.
    pub gb_per_second: Rounds,
    /// The same of `y += a x` on two f32 vectors.
    pub axpy_gb_per_second: Rounds,
    /// Ours over axpy's.
    pub ratio: Rounds,
}

/// Measures a codec on a vector, in turns with axpy.
pub fn measure(parameters: usize, codec: Codec, rounds: usize, each: Duration) -> Apply {
    let values: Vec<f32> = (0..parameters).map(|index| (index as f32).sin() * 1e-6).collect();
    let update = Encoded::new(&values, codec);
    let mut centre = vec![1.0_f32; parameters];
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let axpy = repeat(each, || {
            for (y, x) in centre.iter_mut().zip(&values) {
                *y += 0.5 * x;
            }
            black_box(&mut centre);
        });
        theirs.push((12 * parameters) as f64 / axpy / 1e9);
        let apply = repeat(each, || {
            update.add_scaled_to(0, black_box(&mut centre), 0.5);
        });
        ours.push((update.bytes() + 8 * parameters) as f64 / apply / 1e9);
    }
    let ratio = Rounds::of_ratios(&ours, &theirs);
    let (gb_per_second, axpy_gb_per_second) = (Rounds::of(ours), Rounds::of(theirs));
    Apply { bench: "apply", parameters, codec, gb_per_second, axpy_gb_per_second, ratio }
}

/// Seconds of one call, over as many as the time allows.
fn repeat(time: Duration, mut call: impl FnMut()) -> f64 {
    call();
    let began = Instant::now();
    let mut calls = 0;
    while began.elapsed() < time {
        call();
        calls += 1;
    }
    began.elapsed().as_secs_f64() / f64::from(calls)
}
