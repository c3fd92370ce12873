//! The training rules. A rule is one file with both its halves: what a worker sends at the end of a window and what it
//! does with the answer, and how a commit changes the centre. To add one, write its file and add it to [`RULES`].

mod agn;
mod downpour;
mod dynsgd;
mod single;

use crate::params::{Encoded, Layout, Parts};
use crate::protocol::{WindowLimit, limits};
use crate::run::{AUTO_WINDOW_SECONDS, StrategySettings, Window};

/// Every rule there is.
pub const RULES: &[Rule] = &[agn::RULE, downpour::RULE, dynsgd::RULE, single::RULE];

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
    /// The update to send at the end of a window: `local` are the parameters after `steps` local steps whose
    /// progress counts from the centre `base`. All vectors have the layout's length.
    fn push(&mut self, local: &[f32], base: &[f32], steps: u32) -> Vec<f32>;

    /// True when the worker takes the newest centre after each exchange; false when it goes on from its own
    /// parameters for as long as nothing is lost.
    fn pulls(&self) -> bool;
}

/// The server's half of a rule.
pub trait ServerHalf: Send {
    /// Changes the centre by an accepted commit, straight from its encoded form.
    fn apply(&mut self, centre: &mut Parts, layout: &Layout, commit: &Commit<'_>);
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
    /// The window of a lease, from the run's settings. An `"auto"` window has at most `most` samples.
    pub fn window_limit(&self, settings: &StrategySettings, most: u32) -> WindowLimit {
        let window = settings.communication_window.map_or(self.default_window, RuleWindow::Window);
        match window {
            RuleWindow::Lease => WindowLimit::Lease,
            RuleWindow::Window(Window::Steps(steps)) => WindowLimit::Steps(steps.get()),
            RuleWindow::Window(Window::Auto(_)) => {
                WindowLimit::Auto { milliseconds: (AUTO_WINDOW_SECONDS * 1e3) as u32, samples: most }
            }
        }
    }
}

/// A window of so many steps, at least one.
const fn steps(steps: u32) -> Window {
    match std::num::NonZeroU32::new(steps) {
        Some(steps) => Window::Steps(steps),
        None => Window::Steps(std::num::NonZeroU32::MIN),
    }
}

/// `local - base`, element by element.
fn difference(local: &[f32], base: &[f32]) -> Vec<f32> {
    local.iter().zip(base).map(|(x, b)| x - b).collect()
}

/// For rules that count steps: in a window of seconds they make no sense.
fn refuse_auto(rule: &str, settings: &StrategySettings) -> Result<(), String> {
    match settings.communication_window {
        Some(Window::Auto(_)) => Err(format!(
            "communication_window = \"auto\" belongs to rules that average: rule {rule:?} wants a number of steps, 5 to 50"
        )),
        _ => Ok(()),
    }
}

/// The staleness bound with `workers` active workers, in versions.
pub fn staleness_bound(workers: usize) -> u64 {
    (limits::STALENESS_PER_WORKER * workers as u64).max(limits::STALENESS_LEAST)
}

/// Two workers and three exchanges on f(x) = x^2 / 2 from c = 1 at learning rate 0.1, two local steps a window (x goes
/// to 0.81 x): A and B pull, A commits and pulls, B commits (one version late), A commits (one version late).
#[cfg(test)]
fn quadratic(rule: &Rule) -> f32 {
    use crate::params::Codec;
    let (mut worker, mut server, layout) = ((rule.worker)(), (rule.server)(), Layout::default());
    let mut centre = Parts::new(&[1.0]);
    let mut second_base = 1.0;
    for (exchange, staleness) in [0, 1, 1].into_iter().enumerate() {
        let base = if exchange == 2 { second_base } else { 1.0 };
        let update = Encoded::new(&worker.push(&[base * 0.81], &[base], 2), Codec::F32);
        server.apply(&mut centre, &layout, &Commit { update: &update, staleness, steps: 2, samples: 2 });
        if exchange == 0 {
            second_base = centre.to_vec()[0];
        }
    }
    centre.to_vec()[0]
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
