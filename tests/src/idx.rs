//! IDX files, for tests that need some.

/// An IDX file of unsigned bytes: its sides, then its bytes.
pub fn idx(sides: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0, 8, sides.len() as u8];
    out.extend(sides.iter().flat_map(|side| side.to_be_bytes()));
    out.extend_from_slice(bytes);
    out
}
