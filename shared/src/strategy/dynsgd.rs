//! `dynsgd`: staleness-aware asynchronous SGD.
//!
//! A commit that is t versions late counts for 1/(t + 1) of itself: `c += (x - b) / (t + 1)`. Jiang et al. 2017,
//! "Heterogeneity-aware distributed parameter servers", and dist-keras' `DynSGD`. Staleness is counted in versions.

use super::{Commit, Rule, RuleWindow, ServerHalf, WorkerHalf, difference};
use crate::params::{Layout, Parts};
use crate::run::Window;

pub(super) const RULE: Rule = Rule {
    name: "dynsgd",
    aliases: &["DynSGD"],
    default_window: RuleWindow::Window(Window::AUTO),
    most_workers: None,
    check: |_| Ok(()),
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
        centre.add_scaled(commit.update, 1.0 / (commit.staleness as f32 + 1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::quadratic;

    #[test]
    fn two_workers_and_three_exchanges_give_the_centre_computed_by_hand() {
        // As in `quadratic`. A commits -0.19 at t = 0: c = 0.81. B commits -0.19 at t = 1: c = 0.81 - 0.095 = 0.715.
        // A pulled 0.81, commits -0.1539 at t = 1: c = 0.715 - 0.07695 = 0.63805.
        assert!((quadratic(&RULE) - 0.638_05).abs() < 1e-6);
    }
}
