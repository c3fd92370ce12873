//! `single`: one worker at a time trains on everything, in order. The baseline for all comparisons.
//!
//! At the end of each lease the worker sends its parameters whole: `c := x`. It never pulls, so an undisturbed run
//! equals a plain local loop. After a loss the next worker goes on from c with a fresh optimizer.

use super::{Commit, Rule, RuleWindow, ServerHalf, WorkerHalf};
use crate::params::{Codec, Layout, Parts};

pub(super) const RULE: Rule = Rule {
    name: "single",
    aliases: &[],
    default_window: RuleWindow::Lease,
    most_workers: Some(1),
    check: |settings| {
        if settings.communication_window.is_some() {
            return Err("rule \"single\" exchanges once a lease: remove communication_window".to_owned());
        }
        if settings.upload_codec != Codec::F32 || settings.download_codec != Codec::F32 {
            return Err(
                "rule \"single\" sends whole parameters, exact: remove upload_codec and download_codec".to_owned()
            );
        }
        Ok(())
    },
    worker: || Box::new(Worker),
    server: || Box::new(Server),
};

struct Worker;

impl WorkerHalf for Worker {
    fn push(&mut self, local: &[f32], _base: &[f32], _steps: u32) -> Vec<f32> {
        local.to_vec()
    }

    fn pulls(&self) -> bool {
        false
    }
}

struct Server;

impl ServerHalf for Server {
    fn apply(&mut self, centre: &mut Parts, _layout: &Layout, commit: &Commit<'_>) {
        centre.set(commit.update);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Encoded;

    #[test]
    fn the_centre_becomes_what_the_worker_has() {
        let mut centre = Parts::new(&[1.0, 2.0]);
        let update = Encoded::new(&(RULE.worker)().push(&[3.0, 4.0], &[1.0, 2.0], 9), Codec::F32);
        let commit = Commit { update: &update, staleness: 0, steps: 9, samples: 9 };
        (RULE.server)().apply(&mut centre, &Layout::default(), &commit);
        assert_eq!(centre.to_vec(), [3.0, 4.0]);
    }
}
