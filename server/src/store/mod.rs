//! The data folder: what outlives the process.
//!
//! `runs/ID/` holds the results of a finished run. It appears whole or not at all: it is written beside and renamed.

mod results;

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

pub use results::{ModelCard, TensorEntry, ValidationResult};

use crate::run::Run;

/// The data folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The data folder at this place; it is made when something is written.
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where a run's results are, or will be.
    pub fn results_of(&self, run: &str) -> PathBuf {
        self.folder.join("runs").join(run)
    }

    /// Refuses to train what is finished, unless it is to be trained anew.
    pub fn refuse_finished(&self, run: &str, fresh: bool) -> anyhow::Result<()> {
        let results = self.results_of(run);
        if results.exists() && !fresh {
            bail!(
                "run {run:?} is finished, its model is in {}: --fresh trains it anew and keeps these results beside",
                results.display()
            );
        }
        Ok(())
    }

    /// Moves the results of a run before aside, when there are some.
    pub fn make_way(&self, run: &str) -> anyhow::Result<()> {
        let results = self.results_of(run);
        if !results.exists() {
            return Ok(());
        }
        let aside = (1..u32::MAX)
            .map(|number| self.results_of(&format!("{run}.{number}")))
            .find(|path| !path.exists())
            .context("no free name")?;
        std::fs::rename(&results, &aside)
            .with_context(|| format!("{} cannot be moved to {}", results.display(), aside.display()))?;
        tracing::info!("the results of the run before are in {}", aside.display());
        Ok(())
    }

    /// Writes the results of a run that has ended; returns their folder.
    pub fn write_results(&self, run: &Run) -> anyhow::Result<PathBuf> {
        let results = self.results_of(&run.plan().id);
        let partial = self.folder.join("runs").join(format!(".{}.partial", run.plan().id));
        write_whole(&partial, &results, |folder| results::write(run, folder))
            .with_context(|| format!("the results cannot be written to {}", results.display()))?;
        Ok(results)
    }
}

/// Fills a folder aside, makes it durable, and renames it to its place.
fn write_whole(partial: &Path, whole: &Path, fill: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    if partial.exists() {
        std::fs::remove_dir_all(partial)?;
    }
    std::fs::create_dir_all(partial)?;
    fill(partial)?;
    for entry in std::fs::read_dir(partial)? {
        File::open(entry?.path())?.sync_all()?;
    }
    sync_folder(partial)?;
    std::fs::rename(partial, whole)?;
    whole.parent().map_or(Ok(()), sync_folder)
}

/// What was written into or renamed within a folder is durable behind this. Only Unix opens folders.
fn sync_folder(folder: &Path) -> anyhow::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_results_are_kept_and_fresh_moves_them_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::new(folder.path().to_owned());
        store.refuse_finished("digits", false).expect("nothing is there");
        for round in 0..2 {
            let results = store.results_of("digits");
            std::fs::create_dir_all(&results).expect("makes");
            std::fs::write(results.join("model.json"), format!("{round}")).expect("writes");
            let refused = store.refuse_finished("digits", false).expect_err("it is finished").to_string();
            assert!(refused.contains("--fresh") && refused.contains("digits"), "{refused}");
            store.refuse_finished("digits", true).expect("is to be trained anew");
            store.make_way("digits").expect("steps aside");
            assert!(!results.exists());
        }
        let kept = |name: &str| std::fs::read_to_string(store.results_of(name).join("model.json")).expect("is kept");
        assert_eq!((kept("digits.1"), kept("digits.2")), ("0".into(), "1".into()));
    }

    #[test]
    fn results_that_fail_half_way_leave_nothing_in_their_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let (partial, whole) = (folder.path().join(".x.partial"), folder.path().join("x"));
        write_whole(&partial, &whole, |_| bail!("no room")).expect_err("fails");
        assert!(!whole.exists());
        write_whole(&partial, &whole, |folder| Ok(std::fs::write(folder.join("model.json"), "{}")?)).expect("writes");
        assert!(whole.join("model.json").exists() && !partial.exists());
    }
}
