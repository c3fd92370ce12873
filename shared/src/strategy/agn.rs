//! `agn`: accumulated gradient normalisation.
//!
//! A worker sends the mean of its window's steps, so that windows of different lengths weigh the same:
//! `r = (x - b) / k`, `c += r`. Hermans 2017, "On Scalable Deep Learning and Parallelizing Gradient Descent", section
//! 3.3, equation 3.8, and dist-keras' `ADAG`. With a window of one step it equals `downpour`.

use super::{Commit, Rule, RuleWindow, ServerHalf, WorkerHalf, refuse_auto, steps};
use crate::params::{Layout, Parts};

pub(super) const RULE: Rule = Rule {
    name: "agn",
    aliases: &["adag", "ADAG"],
    default_window: RuleWindow::Window(steps(12)),
    most_workers: None,
    check: |settings| refuse_auto("agn", settings),
    worker: || Box::new(Worker),
    server: || Box::new(Server),
};

struct Worker;

impl WorkerHalf for Worker {
    fn push(&mut self, local: &[f32], base: &[f32], steps: u32) -> Vec<f32> {
        let share = 1.0 / steps.max(1) as f32;
        local.iter().zip(base).map(|(x, b)| (x - b) * share).collect()
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
    use crate::strategy::{downpour, quadratic};

    #[test]
    fn two_workers_and_three_exchanges_give_the_centre_computed_by_hand() {
        // As in `quadratic`, with the mean of two steps. A and B commit -0.095: c = 0.81 after both.
        // A pulled 0.905, goes to 0.733 05, commits -0.085 975: c = 0.724 025.
        assert!((quadratic(&RULE) - 0.724_025).abs() < 1e-6);
    }

    #[test]
    fn with_windows_of_one_step_it_is_downpour() {
        let (local, base) = ([0.9, -0.3, 7.0], [1.0, 0.5, 7.5]);
        assert_eq!((RULE.worker)().push(&local, &base, 1), (downpour::RULE.worker)().push(&local, &base, 1));
    }
}
