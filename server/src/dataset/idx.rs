//! IDX files (the format of MNIST), plain or gzip'd: unsigned bytes for features, unsigned bytes for labels.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::bufread::GzDecoder;
use kindling_shared::data::Features;

use super::{DataError, Samples};

/// Bytes that one file may unpack to.
const MOST_BYTES: u64 = 8 << 30;
const UNSIGNED_BYTE: u8 = 0x08;

struct Array {
    dimensions: Vec<usize>,
    bytes: Vec<u8>,
}

/// Reads a pair of IDX files. Images `[n, height, width]` become samples of shape `[1, height, width]`.
pub fn read_idx(features: &Path, labels: &Path) -> Result<Samples, DataError> {
    let images = read_array(features)?;
    let classes = read_array(labels)?;
    let (count, sample_shape) = match *images.dimensions.as_slice() {
        [count, height, width] => (count, vec![1, height, width]),
        [count, size] => (count, vec![size]),
        ref other => {
            let what =
                format!("features need 2 or 3 dimensions, this file has {other:?}; are features and labels swapped?");
            return Err(DataError::Format { path: features.to_owned(), what });
        }
    };
    if classes.dimensions.len() != 1 {
        let what = format!("labels need 1 dimension, this file has {:?}", classes.dimensions);
        return Err(DataError::Format { path: labels.to_owned(), what });
    }
    if classes.dimensions[0] != count {
        let what = format!("{} labels for the {count} samples of {}", classes.dimensions[0], features.display());
        return Err(DataError::Format { path: labels.to_owned(), what });
    }
    let labels = classes.bytes.into_iter().map(u32::from).collect();
    Ok(Samples { sample_shape, features: Features::U8(images.bytes.into()), labels })
}

fn read_array(path: &Path) -> Result<Array, DataError> {
    let wrong = |what: String| DataError::Format { path: path.to_owned(), what };
    let bytes = unpack(path)?;
    let header = bytes.first_chunk::<4>().ok_or_else(|| wrong("too short for an IDX file".into()))?;
    let [0, 0, kind, rank] = *header else {
        return Err(wrong("not an IDX file: it does not begin with two zero bytes".into()));
    };
    if kind != UNSIGNED_BYTE {
        return Err(wrong(format!("its elements are of type 0x{kind:02x}; only unsigned bytes (0x08) are read")));
    }
    let start = 4 + 4 * usize::from(rank);
    let sides = bytes.get(4..start).ok_or_else(|| wrong("truncated inside its header".into()))?;
    let dimensions: Vec<usize> =
        sides.as_chunks::<4>().0.iter().map(|side| u32::from_be_bytes(*side) as usize).collect();
    let expected = dimensions.iter().try_fold(1_usize, |size, &side| size.checked_mul(side));
    let found = bytes.len() - start;
    if expected != Some(found) {
        let expected = expected.map_or_else(|| "too many".to_owned(), |size| size.to_string());
        let what = format!(
            "truncated or damaged: its header {dimensions:?} promises {expected} bytes, {found} follow; get the file again"
        );
        return Err(wrong(what));
    }
    Ok(Array { dimensions, bytes: bytes[start..].to_vec() })
}

/// The file's bytes, unpacked where they begin like gzip.
fn unpack(path: &Path) -> Result<Vec<u8>, DataError> {
    let unreadable = |error| DataError::Unreadable { path: path.to_owned(), error };
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut bytes = Vec::new();
    let packed = std::io::BufRead::fill_buf(&mut file).map_err(unreadable)?.starts_with(&[0x1f, 0x8b]);
    let read = if packed {
        GzDecoder::new(file).take(MOST_BYTES).read_to_end(&mut bytes)
    } else {
        file.take(MOST_BYTES).read_to_end(&mut bytes)
    };
    read.map_err(|error| DataError::Format {
        path: path.to_owned(),
        what: format!("truncated or damaged: {error}; get the file again"),
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn idx(dimensions: &[u32], bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![0, 0, UNSIGNED_BYTE, dimensions.len() as u8];
        out.extend(dimensions.iter().flat_map(|side| side.to_be_bytes()));
        out.extend_from_slice(bytes);
        out
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("packs");
        encoder.finish().expect("packs")
    }

    fn read(features: &[u8], labels: &[u8]) -> Result<Samples, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let (x, y) = (folder.path().join("x"), folder.path().join("y"));
        std::fs::write(&x, features).expect("writes");
        std::fs::write(&y, labels).expect("writes");
        read_idx(&x, &y).map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
    }

    #[test]
    fn plain_and_packed_files_give_the_same_samples() {
        let (x, y) = (idx(&[2, 1, 3], &[1, 2, 3, 4, 5, 6]), idx(&[2], &[7, 8]));
        let plain = read(&x, &y).expect("reads");
        assert_eq!(plain.sample_shape, [1, 1, 3]);
        assert_eq!(plain.labels, [7, 8]);
        assert_eq!(read(&gzip(&x), &gzip(&y)), Ok(plain));
    }

    #[test]
    fn bad_files_are_named_with_what_is_wrong() {
        let (x, y) = (idx(&[2, 1, 3], &[1, 2, 3, 4, 5, 6]), idx(&[2], &[7, 8]));
        let packed = gzip(&x);
        let cases: [(&[u8], &[u8], &str); 6] = [
            (&x[..x.len() - 1], &y, "x: truncated or damaged: its header [2, 1, 3] promises 6 bytes, 5 follow"),
            (&packed[..packed.len() - 9], &y, "x: truncated or damaged"),
            (&x[..9], &y, "x: truncated inside its header"),
            (b"hello world", &y, "x: not an IDX file"),
            (&x, &idx(&[3], &[1, 2, 3]), "y: 3 labels for the 2 samples of x"),
            (&y, &x, "x: features need 2 or 3 dimensions, this file has [2]; are features and labels swapped?"),
        ];
        for (features, labels, expected) in cases {
            let error = read(features, labels).expect_err(expected);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
