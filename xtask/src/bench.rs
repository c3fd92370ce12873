//! The benchmarks: optimised builds, and the packages of the baselines.

use std::path::Path;

use anyhow::bail;

use crate::process::{self, cargo};
use crate::{Profile, binary, browser, build, stamp, web};

/// Each with whether it needs the module, the pages and a browser.
const BENCHES: [(&str, bool); 3] = [("apply", false), ("exchange", false), ("training", true)];
const BASELINES: &str = "tests/bench-web";

/// One benchmark, of which `only` may choose a part, or all of them.
pub fn bench(name: Option<&str>, only: &[String], install: bool) -> anyhow::Result<()> {
    let chosen: Vec<_> = BENCHES.into_iter().filter(|(known, _)| name.is_none_or(|name| name == *known)).collect();
    if chosen.is_empty() {
        bail!("no such benchmark: there are {}", BENCHES.map(|(name, _)| name).join(", "));
    }
    let in_browser = chosen.iter().any(|(_, in_browser)| *in_browser);
    if in_browser {
        build(Profile::Release)?;
        baselines()?;
    } else {
        process::run(cargo().args(["build", "--release", "--package", "kindling"]))?;
    }
    for (name, in_browser) in chosen {
        let mut command = cargo();
        command
            .args(["run", "--release", "--quiet", "--package", "kindling-tests", "--bin", "bench", "--", name])
            .args(only)
            .env("KINDLING_SERVER", std::path::absolute(binary(Profile::Release))?);
        if in_browser {
            command.env("KINDLING_BROWSER", browser::ensure(install)?);
        }
        process::run(&mut command)?;
    }
    Ok(())
}

/// What is measured against, from npm: a package of its own, so that nobody else needs it.
fn baselines() -> anyhow::Result<()> {
    let lock = Path::new(BASELINES).join("package-lock.json");
    let made_from = stamp::hash(&[lock.as_path()])?;
    let done = Path::new(BASELINES).join("node_modules/.kindling-stamp");
    stamp::unless_done(&done, &made_from, || web::npm_in(BASELINES, &["ci", "--no-audit", "--no-fund"]))
}
