//! The report of `cargo xtask verify`: a row for each bullet, the newest measurement of each.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::checks::{CHECKS, Check};

/// Where it is written.
pub const PATH: &str = "docs/verification.md";
const HEAD: &str = "# Verification\n\nWritten by `cargo xtask verify [ID]`: every acceptance bullet at full length, each \
as it was measured last.\n\n| id | expected | measured | result | s |\n|---|---|---|---|---|\n";

/// Puts a bullet's new row in the place of its old one; the others stay as they are.
pub fn record(check: &Check, measured: &str) -> std::io::Result<()> {
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    std::fs::write(PATH, replaced(&written, check, measured))
}

fn replaced(written: &str, check: &Check, measured: &str) -> String {
    let id_of = |line: &str| line.strip_prefix("| ").and_then(|rest| rest.split(' ').next()).map(str::to_owned);
    let mut rows: BTreeMap<String, String> =
        written.lines().filter_map(|line| Some((id_of(line)?, line.to_owned()))).collect();
    rows.insert(check.id.to_owned(), format!("| {} | {} | {measured} |", check.id, check.expected));
    CHECKS.iter().filter_map(|check| rows.get(check.id)).fold(HEAD.to_owned(), |mut report, row| {
        // Writing into a string cannot fail.
        let _ = writeln!(report, "{row}");
        report
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_measurement_takes_the_place_of_the_old_one_and_the_order_is_the_issues() {
        let [first, second] = [&CHECKS[0], &CHECKS[1]];
        let report = replaced("", second, "old | fail | 1");
        let report = replaced(&report, first, "good | pass | 2");
        let report = replaced(&report, second, "new | pass | 3");
        let rows: Vec<&str> = report.lines().skip(6).collect();
        assert_eq!(rows.len(), 2);
        assert!(rows[0].contains(first.id) && rows[0].ends_with("good | pass | 2 |"));
        assert!(rows[1].contains(second.id) && rows[1].ends_with("new | pass | 3 |"));
    }
}
