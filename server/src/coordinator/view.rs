//! What people and programs may see of a coordinator's state.

use std::collections::BTreeMap;

use kindling_shared::protocol::{Backend, Refusal, RejectCode, limits};
use serde::Serialize;

use super::{Coordinator, Millis};

/// How many commits were accepted and rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct CommitCounts {
    /// Commits that changed the centre.
    #[cfg_attr(test, ts(type = "number"))]
    pub accepted: u64,
    /// Commits that changed nothing.
    #[cfg_attr(test, ts(type = "number"))]
    pub rejected: u64,
    /// The rejected ones by their code.
    #[cfg_attr(test, ts(type = "Record<string, number>"))]
    pub by_code: BTreeMap<RejectCode, u64>,
}

/// Staleness of all accepted commits, in versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct StalenessView {
    /// Half of the commits were not staler.
    #[cfg_attr(test, ts(type = "number"))]
    pub p50: u64,
    /// 99 % were not staler.
    #[cfg_attr(test, ts(type = "number"))]
    pub p99: u64,
    /// The stalest.
    #[cfg_attr(test, ts(type = "number"))]
    pub max: u64,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct WorkerView {
    /// Its number.
    #[cfg_attr(test, ts(type = "number"))]
    pub id: u64,
    /// The first eight digits of its contributor's hash: tells contributors apart, and reveals nothing.
    pub contributor: String,
    /// True while its socket is open.
    pub connected: bool,
    /// True once its device passed the self-test.
    pub admitted: bool,
    /// Where it trains.
    pub backend: Backend,
    /// Its adapter's name.
    pub adapter: String,
    /// True for an emulated GPU.
    pub software: bool,
    /// Samples a second, as the server sees them arrive.
    pub samples_per_second: Option<f64>,
    /// Samples in its accepted commits.
    #[cfg_attr(test, ts(type = "number"))]
    pub samples_accepted: u64,
    /// Commits accepted.
    #[cfg_attr(test, ts(type = "number"))]
    pub commits_accepted: u64,
    /// Commits rejected.
    #[cfg_attr(test, ts(type = "number"))]
    pub commits_rejected: u64,
    /// Staleness of its last accepted commit, in versions.
    #[cfg_attr(test, ts(type = "number | null"))]
    pub staleness: Option<u64>,
    /// Its last training loss.
    pub loss: Option<f32>,
    /// Samples of its lease that are not covered yet.
    pub samples_leased: u32,
    /// Seconds since it was last heard of; 0 while that is less than a ping's interval ago.
    #[cfg_attr(test, ts(type = "number"))]
    pub silent_seconds: u64,
    /// Seconds from the server's start to its joining.
    #[cfg_attr(test, ts(type = "number"))]
    pub joined_at_seconds: u64,
    /// Why it was last refused something.
    pub last_refusal: Option<Refusal>,
}

impl Coordinator {
    /// Commits so far.
    pub const fn commit_counts(&self) -> &CommitCounts {
        &self.counts
    }

    /// Staleness so far.
    pub fn staleness(&self) -> StalenessView {
        let total: u64 = self.staleness.values().sum();
        let quantile = |percent: u64| {
            let mut below = 0;
            let rank = (total * percent).div_ceil(100);
            for (staleness, count) in &self.staleness {
                below += count;
                if below >= rank {
                    return *staleness;
                }
            }
            0
        };
        let max = self.staleness.keys().next_back().copied().unwrap_or(0);
        StalenessView { p50: quantile(50), p99: quantile(99), max }
    }

    /// Every worker that ever joined, by its number.
    pub fn workers(&self, now: Millis) -> Vec<WorkerView> {
        let silent = |since: Millis| now.saturating_sub(since) / 1_000;
        let ordinary = limits::PING_EVERY.as_secs();
        let view = |(id, member): (&kindling_shared::protocol::WorkerId, &super::Member)| WorkerView {
            id: id.0,
            contributor: member.contributor.0[..4].iter().map(|byte| format!("{byte:02x}")).collect(),
            connected: member.connection.is_some(),
            admitted: member.admitted,
            backend: member.capabilities.backend,
            adapter: member.capabilities.adapter.clone(),
            software: member.capabilities.software,
            samples_per_second: member.speed,
            samples_accepted: member.credit,
            commits_accepted: member.accepted,
            commits_rejected: member.rejected,
            staleness: member.staleness,
            loss: member.loss,
            samples_leased: member
                .lease
                .and_then(|lease| self.leases.get(&lease))
                .map_or(0, super::leases::LeaseState::remaining),
            silent_seconds: Some(silent(member.heard_at)).filter(|seconds| *seconds > ordinary).unwrap_or(0),
            joined_at_seconds: member.joined_at / 1_000,
            last_refusal: member.last_refusal.clone(),
        };
        self.members.iter().map(view).collect()
    }
}
