//! The training rules. A rule is one file with both its halves: what a worker sends at the end of a window and what it
//! does with the answer, and how a commit changes the centre. To add one, write its file and add it to [`RULES`].

mod dynsgd;
mod single;

use crate::params::{Encoded, Layout};
use crate::protocol::{WindowLimit, limits};
use crate::run::{AUTO_WINDOW_SECONDS, StrategySettings, Window};

/// Every rule there is.
pub const RULES: &[Rule] = &[dynsgd::RULE, single::RULE];

/// A rule of training.
pub struct Rule {
    /// Its name in the run file.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// The window where the run file gives none.
    pub default_window: RuleWindow,
    /// The most workers at a time.
    pub most_workers: Option<usize>,
    /// Says what is wrong with settings that make no sense for this rule.
    pub check: fn(&StrategySettings) -> Result<(), String>,
    /// The half that runs at each worker.
    pub worker: fn() -> Box<dyn WorkerHalf>,
    /// The half that runs at the server.
    pub server: fn() -> Box<dyn ServerHalf>,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rule({})", self.name)
    }
}

/// What a rule takes for a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleWindow {
    /// As in the run file.
    Window(Window),
    /// A whole lease.
    Lease,
}

/// The worker's half of a rule.
pub trait WorkerHalf: Send {
    /// The update to send at the end of a window: `local` are the parameters after `steps` local steps that began
    /// from the centre `base`. All vectors have the layout's length.
    fn push(&mut self, local: &[f32], base: &[f32], steps: u32) -> Vec<f32>;

    /// True when the worker takes the newest centre after each exchange; false when it goes on from its own
    /// parameters for as long as nothing is lost.
    fn pulls(&self) -> bool;
}

/// The server's half of a rule.
pub trait ServerHalf: Send {
    /// Changes the centre by an accepted commit, straight from its encoded form.
    fn apply(&mut self, centre: &mut [f32], layout: &Layout, commit: &Commit<'_>);
}

/// An accepted commit, as the server's half sees it.
pub struct Commit<'a> {
    /// What the worker's half sent; as long as the centre.
    pub update: &'a Encoded,
    /// Versions between the commit's base and the centre it is applied to.
    pub staleness: u64,
    /// Local steps of the window.
    pub steps: u32,
    /// Samples of the window.
    pub samples: u32,
}

/// The rule of this name or alias.
pub fn find(name: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.name == name || rule.aliases.contains(&name))
}

impl Rule {
    /// The window of a lease, from the run's settings: `share` is a quarter of a worker's share of what is left of the
    /// epoch, in samples; an `"auto"` window stays below it.
    pub fn window_limit(&self, settings: &StrategySettings, share: u32) -> WindowLimit {
        let window = settings.communication_window.map_or(self.default_window, RuleWindow::Window);
        match window {
            RuleWindow::Lease => WindowLimit::Lease,
            RuleWindow::Window(Window::Steps(steps)) => WindowLimit::Steps(steps.get()),
            RuleWindow::Window(Window::Auto(_)) => {
                WindowLimit::Auto { milliseconds: (AUTO_WINDOW_SECONDS * 1e3) as u32, samples: share }
            }
        }
    }
}

/// The staleness bound with `workers` active workers, in versions.
pub fn staleness_bound(workers: usize) -> u64 {
    (limits::STALENESS_PER_WORKER * workers as u64).max(limits::STALENESS_LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_found_by_its_names_and_no_name_means_two() {
        let mut names: Vec<&str> =
            RULES.iter().flat_map(|rule| rule.aliases.iter().chain([&rule.name])).copied().collect();
        for name in &names {
            assert!(find(name).is_some());
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.iter().map(|rule| 1 + rule.aliases.len()).sum::<usize>());
        assert!(find("no such rule").is_none());
    }
}
