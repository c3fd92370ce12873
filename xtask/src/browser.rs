//! A browser for the tests: the one that is there, or Debian's.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::find::find_browser;
use crate::process;

/// The browser for the tests; installs one where that is allowed and possible.
pub fn ensure(install: bool) -> anyhow::Result<PathBuf> {
    let missing = match find_browser() {
        Ok(path) => return Ok(path),
        Err(missing) => missing,
    };
    let root = process::output(Command::new("id").arg("-u")).is_ok_and(|uid| uid.trim() == "0");
    let line = if root { "apt-get install -y chromium" } else { "sudo apt-get install -y chromium" };
    if !Path::new("/etc/debian_version").exists() {
        return Err(missing.context("the tests need a real browser"));
    }
    if !install {
        bail!("the tests need a real browser: {line}");
    }
    println!("no browser found: {line}");
    let apt = |arguments: &[&str]| {
        let mut command = if root { Command::new("apt-get") } else { Command::new("sudo") };
        if !root {
            command.arg("apt-get");
        }
        process::run(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update", "-qq"])?;
    apt(&["install", "-y", "-qq", "chromium"]).with_context(|| format!("install a browser by hand: {line}"))?;
    find_browser()
}
