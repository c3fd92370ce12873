//! Whole-system tests: the real binary, real Chromium, bad clients.
//!
//! [`checks`] holds one function for each acceptance bullet. `cargo test` runs their short form, the binary
//! `acceptance` (`cargo xtask verify`) the full one. Nothing here waits for a time to pass, but where a time is what
//! is measured: it waits for what the API says, with an upper limit that only a hang reaches.

pub mod bench;
pub mod checks;
pub mod idx;
pub mod peer;
pub mod plain_loop;
pub mod process;
pub mod proxy;
pub mod python;
pub mod report;
pub mod server;
pub mod tab;

/// How much of a check is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// In every test run.
    Short,
    /// As the acceptance bullet says.
    Full,
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Whether it is as expected.
    pub pass: bool,
    /// What was measured, in words and numbers.
    pub words: String,
}

impl Measured {
    /// Of several facts: all must hold.
    pub fn all(facts: &[(bool, String)]) -> Self {
        let word = |(pass, words): &(bool, String)| {
            if *pass { words.clone() } else { format!("NOT: {words}") }
        };
        Self { pass: facts.iter().all(|fact| fact.0), words: facts.iter().map(word).collect::<Vec<_>>().join("; ") }
    }
}
