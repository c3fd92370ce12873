//! Stamps: what a step was made from. A step whose inputs have not changed is not done again.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// The hash of files and folders, names included.
pub fn hash(paths: &[&Path]) -> anyhow::Result<String> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in paths {
        collect(path, &mut files)?;
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        hash.update(file.to_string_lossy().as_bytes());
        hash.update([0]);
        hash.update(Sha256::digest(std::fs::read(&file)?));
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
    } else if path.is_file() {
        files.push(path.to_owned());
    }
    Ok(())
}

/// Does `work` unless `stamp` says that it was done with this hash.
pub fn unless_done(stamp: &Path, hash: &str, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    if std::fs::read_to_string(stamp).is_ok_and(|found| found == hash) {
        return Ok(());
    }
    work()?;
    Ok(std::fs::write(stamp, hash)?)
}
