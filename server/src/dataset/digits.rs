//! The embedded digits: 1,797 images of 8x8 pixels with 17 grey levels, in 10 classes.
//!
//! "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak, 1998; UCI machine learning repository, CC BY
//! 4.0), as scikit-learn distributes it. See `NOTICE.md`.

use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use kindling_shared::data::Features;

use super::{DataError, Samples};

const BYTES: &[u8] = include_bytes!("../../assets/digits.csv.gz");
const PIXELS: usize = 64;
/// More than the file unpacks to; a decoder without a bound is a trap.
const MOST_BYTES: u64 = 1 << 20;

/// Reads the embedded digits.
pub fn digits() -> Result<Samples, DataError> {
    let wrong = |what: String| DataError::Format { path: PathBuf::from("digits (embedded)"), what };
    let mut text = String::new();
    GzDecoder::new(BYTES).take(MOST_BYTES).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let row: Vec<u8> = line
            .split(',')
            .map(|value| value.trim().parse::<f32>().map(|value| value as u8))
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(format!("line {}: {error}", number + 1)))?;
        match row.split_last() {
            Some((label, pixels)) if pixels.len() == PIXELS => {
                features.extend_from_slice(pixels);
                labels.push(u32::from(*label));
            }
            _ => {
                return Err(wrong(format!("line {} has not {PIXELS} pixels and a label", number + 1)));
            }
        }
    }
    Ok(Samples { sample_shape: vec![1, 8, 8], features: Features::U8(features.into()), labels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_digits_are_the_known_ones() {
        let digits = digits().expect("embedded");
        assert_eq!(digits.len(), 1_797);
        assert_eq!(digits.labels[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let pixels = digits.features.bytes();
        assert_eq!(pixels.len(), 1_797 * 64);
        assert_eq!(pixels[..8], [0, 0, 5, 13, 9, 1, 0, 0]);
        assert_eq!(pixels.iter().max(), Some(&16));
    }
}
