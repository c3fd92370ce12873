//! The pages: npm packages and Vite.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::{Profile, assets, process, stamp};

const FOLDER: &str = "web";

/// Installs what the lock file names, unless that was done already.
pub fn install() -> anyhow::Result<()> {
    check_node()?;
    let lock = Path::new("web/package-lock.json");
    let made_from = stamp::hash(&[lock])?;
    stamp::unless_done(Path::new("web/node_modules/.kindling-stamp"), &made_from, || {
        npm(&["ci", "--no-audit", "--no-fund"]).context("the pages' packages cannot be installed: is there a network?")
    })
}

/// Node ^20.19 or >= 22.12: what Vite needs.
fn check_node() -> anyhow::Result<()> {
    let version = process::output(Command::new("node").arg("--version"))
        .context("Node.js is needed for the pages: install version 20.19 or newer, see the README")?;
    let mut numbers = version.trim().trim_start_matches('v').split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let fits = match major {
        20 => minor >= 19,
        22 => minor >= 12,
        major => major > 22,
    };
    if !fits {
        bail!("Node.js {} is too old for the pages: install 20.19, 22.12 or newer", version.trim());
    }
    Ok(())
}

/// Builds the pages into the assets of `profile`, unless nothing has changed.
pub fn build(profile: Profile) -> anyhow::Result<()> {
    let out = assets(profile);
    std::fs::create_dir_all(&out)?;
    let inputs = [
        "web/src",
        "web/public",
        "web/index.html",
        "web/dashboard.html",
        "web/vite.config.ts",
        "web/fonts.ts",
        "web/tsconfig.json",
        "web/package.json",
        "web/package-lock.json",
    ];
    let made_from = stamp::hash(&inputs.map(Path::new))?;
    stamp::unless_done(&out.join(".stamp"), &made_from, || {
        let hashed = out.join("assets");
        if hashed.is_dir() {
            std::fs::remove_dir_all(hashed)?;
        }
        let mut command = npm_command(FOLDER);
        command.args(["run", "build"]).env("KINDLING_WEB_OUT", format!("dist/{}", profile.folder()));
        process::run(&mut command)
    })
}

/// Runs npm in the pages' folder.
pub fn npm(arguments: &[&str]) -> anyhow::Result<()> {
    npm_in(FOLDER, arguments)
}

/// Runs npm in a folder with a package.json.
pub fn npm_in(folder: &str, arguments: &[&str]) -> anyhow::Result<()> {
    process::run(npm_command(folder).args(arguments))
}

fn npm_command(folder: &str) -> Command {
    let mut command = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    command.current_dir(folder);
    command
}
