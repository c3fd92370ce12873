//! Where a browser may be.

use std::path::{Path, PathBuf};

use anyhow::bail;

const NAMES: [&str; 5] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
const ELSEWHERE: [&str; 3] = [
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/snap/bin/chromium",
];

/// `KINDLING_BROWSER`, or a Chromium or Chrome on PATH or in a usual place.
pub fn find_browser() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("KINDLING_BROWSER") {
        let path = PathBuf::from(path);
        if path.is_file() {
            return Ok(path);
        }
        bail!("KINDLING_BROWSER names {}, which is not there", path.display());
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&on_path)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .chain(ELSEWHERE.map(PathBuf::from))
        .find(|path: &PathBuf| Path::is_file(path));
    match found {
        Some(path) => Ok(path),
        None => bail!("no Chromium or Chrome found: install one, or set KINDLING_BROWSER or --browser to its path"),
    }
}
