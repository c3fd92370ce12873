//! `downpour`: asynchronous SGD as in `DistBelief`.
//!
//! Every commit counts whole, however late: `c += x - b`. Dean et al. 2012, "Large Scale Distributed Deep Networks",
//! section 4.1, and dist-keras' `DOWNPOUR`. With many workers or long windows the sum of their deltas overshoots and
//! the run diverges: that is the rule's known nature.

use super::{Commit, Rule, RuleWindow, ServerHalf, WorkerHalf, difference, refuse_auto, steps};
use crate::params::{Layout, Parts};

pub(super) const RULE: Rule = Rule {
    name: "downpour",
    aliases: &["DOWNPOUR"],
    default_window: RuleWindow::Window(steps(5)),
    most_workers: None,
    check: |settings| refuse_auto("downpour", settings),
    worker: || Box::new(Worker),
    server: || Box::new(Server),
};

struct Worker;

impl WorkerHalf for Worker {
    fn push(&mut self, local: &[f32], base: &[f32], _steps: u32) -> Vec<f32> {
        difference(local, base)
    }

    fn pulls(&self) -> bool {
        true
    }
}

struct Server;

impl ServerHalf for Server {
    fn apply(&mut self, centre: &mut Parts, _layout: &Layout, commit: &Commit<'_>) {
        centre.add_scaled(commit.update, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::quadratic;

    #[test]
    fn two_workers_and_three_exchanges_give_the_centre_computed_by_hand() {
        // As in `quadratic`: A commits -0.19, B commits -0.19, A (from 0.81) commits -0.1539.
        // c = 1 - 0.19 - 0.19 - 0.1539 = 0.4661.
        assert!((quadratic(&RULE) - 0.466_1).abs() < 1e-6);
    }
}
