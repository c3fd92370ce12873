//! The upload budget: bytes of commits that may be in memory at a time, over all runs and workers.
//!
//! A commit's chunks are read from their socket only when the budget has room for all of it; until then the worker's
//! network holds them back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits of the semaphore are of this many bytes.
const UNIT: usize = 1_024;

/// A part of the budget; dropped, it is free again.
pub struct Grant(#[expect(dead_code, reason = "held, and given back when it is dropped")] Option<OwnedSemaphorePermit>);

/// The budget. Whoever asks first gets first.
#[derive(Clone)]
pub struct UploadBudget {
    free: Arc<Semaphore>,
    units: u32,
    waiting: Arc<AtomicUsize>,
}

/// Counts a commit among the waiting ones for as long as it lives.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl UploadBudget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        let units = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize)) as u32;
        Self { free: Arc::new(Semaphore::new(units as usize)), units, waiting: Arc::default() }
    }

    /// Waits for room for so many bytes. A commit larger than the whole budget waits until it is alone.
    pub async fn grant(&self, bytes: usize) -> Grant {
        let units = self.units_of(bytes);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(Arc::clone(&self.waiting));
        // The semaphore is never closed.
        Grant(Arc::clone(&self.free).acquire_many_owned(units).await.ok())
    }

    /// The same, where there is room at once.
    pub fn try_grant(&self, bytes: usize) -> Option<Grant> {
        let units = self.units_of(bytes);
        Arc::clone(&self.free).try_acquire_many_owned(units).ok().map(|permit| Grant(Some(permit)))
    }

    /// Commits that wait for room.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn units_of(&self, bytes: usize) -> u32 {
        bytes.div_ceil(UNIT).min(self.units as usize) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_granted_is_never_more_than_the_budget_and_comes_back() {
        let budget = UploadBudget::new(10_000);
        let first = budget.try_grant(6_000).expect("room");
        assert!(budget.try_grant(6_000).is_none());
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.grant(6_000).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        assert_eq!(budget.waiting(), 1);
        drop(first);
        let second = waiting.await.expect("granted");
        assert_eq!(budget.waiting(), 0);
        assert!(budget.try_grant(1 << 40).is_none(), "one larger than the budget waits until it is alone");
        drop(second);
        assert!(budget.try_grant(1 << 40).is_some());
    }
}
