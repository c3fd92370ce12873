//! Running ahead: a window begins while the centre that it should begin from is still on its way.
//!
//! Where a worker takes the newest centre after each exchange, it would stand still for as long as the exchange takes.
//! Instead it goes on from its own parameters x for a few steps; when the centre c arrives, its parameters are moved by
//! c - x. So a window's progress is added to the centre that it is counted from, and only the gradients of its first
//! steps are taken beside it. (After the idea of Shen et al. 2019, "Faster Distributed Deep Net Training: Computation
//! and Communication Decoupled Stochastic Gradient Descent"; the bound and the move between two steps are ours.)

use futures_channel::oneshot;

use crate::trainer::{Between, Pacer};

/// A window runs ahead for at most one part in so many of its steps: staleness is counted from the centre that arrives.
const PART: u32 = 4;
/// Steps between two looks at what has arrived: a breath costs a fraction of a step.
const LOOK_EVERY: u32 = 4;

/// The centre that a window waits for.
#[derive(Debug)]
pub struct LateCentre {
    /// Steps that may be taken without it.
    steps: u32,
    shift: oneshot::Receiver<Vec<f32>>,
}

/// The other end: where the parameters stood that the window went on from, and whom to tell of the centre.
pub(super) struct Awaited {
    from: Vec<f32>,
    shift: oneshot::Sender<Vec<f32>>,
}

/// Steps that a window of so many may run ahead.
pub(super) const fn steps_ahead(steps: u32) -> u32 {
    steps / PART
}

/// A centre that is awaited by a window of so many steps, which goes on from the parameters `from`.
pub(super) fn await_centre(from: Vec<f32>, steps: u32) -> (Awaited, LateCentre) {
    let (sender, receiver) = oneshot::channel();
    (Awaited { from, shift: sender }, LateCentre { steps: steps_ahead(steps), shift: receiver })
}

impl Awaited {
    /// The centre is there.
    pub(super) fn arrived(self, centre: &[f32]) {
        let shift = centre.iter().zip(&self.from).map(|(centre, from)| centre - from).collect();
        // A window that was abandoned in between waits for nothing.
        let _ = self.shift.send(shift);
    }
}

impl LateCentre {
    /// By how much the parameters are to be moved, once that is known.
    pub fn shift(&mut self) -> Option<Vec<f32>> {
        self.shift.try_recv().ok().flatten()
    }
}

/// Another pacer, and the wait for the centre.
pub(super) struct Ahead<'a, P, N> {
    pub(super) pacer: &'a mut P,
    pub(super) late: Option<LateCentre>,
    /// The shell's clock, in milliseconds.
    pub(super) now: N,
    /// Milliseconds spent waiting.
    pub(super) waited: f64,
}

impl<P: Pacer, N: Fn() -> f64> Pacer for Ahead<'_, P, N> {
    async fn between_steps(&mut self) -> Between {
        let between = self.pacer.between_steps().await;
        let Some(late) = self.late.as_mut().filter(|_| matches!(between, Between::GoOn)) else {
            return between;
        };
        late.steps = late.steps.saturating_sub(1);
        let shift = if late.steps > 0 {
            match late.shift.try_recv() {
                Ok(None) => {
                    if late.steps.is_multiple_of(LOOK_EVERY) {
                        self.pacer.breathe_soon();
                    }
                    return Between::GoOn;
                }
                Ok(shift) => shift,
                Err(oneshot::Canceled) => None,
            }
        } else {
            let began = (self.now)();
            let shift = (&mut late.shift).await.ok();
            self.waited += (self.now)() - began;
            shift
        };
        self.late = None;
        shift.map_or(Between::Abandon, Between::Move)
    }

    fn breathe_soon(&mut self) {
        self.pacer.breathe_soon();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[derive(Default)]
    struct Counting {
        breaths: u32,
    }

    impl Pacer for Counting {
        async fn between_steps(&mut self) -> Between {
            Between::GoOn
        }

        fn breathe_soon(&mut self) {
            self.breaths += 1;
        }
    }

    fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Takes steps of a window of 20 until the pacer waits; returns how many it took, and what came after the wait.
    fn until_it_waits(while_it_waits: impl FnOnce(Awaited)) -> (u32, Poll<Between>, f64) {
        let (awaited, late) = await_centre(vec![1.0, 2.0], 20);
        let (clock, mut counting) = (Cell::new(10.0), Counting::default());
        let mut ahead = Ahead { pacer: &mut counting, late: Some(late), now: || clock.get(), waited: 0.0 };
        let mut steps = 1;
        while matches!(poll(ahead.between_steps()), Poll::Ready(Between::GoOn)) && steps < 20 {
            steps += 1;
        }
        // The step that waits is asked again: the toy waits by being asked.
        ahead.late.as_mut().expect("still waits").steps = 1;
        let (clock, mut waiting) = (&clock, Box::pin(ahead.between_steps()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        clock.set(clock.get() + 7.0);
        while_it_waits(awaited);
        let answer = waiting.as_mut().poll(&mut context);
        drop(waiting);
        let waited = ahead.waited;
        assert!(matches!(poll(ahead.between_steps()), Poll::Ready(Between::GoOn)), "once");
        assert!(counting.breaths > 0, "the exchange gets its turn");
        (steps, answer, waited)
    }

    #[test]
    fn a_window_takes_a_quarter_of_its_steps_waits_and_is_moved_once() {
        let (steps, answer, waited) = until_it_waits(|awaited| awaited.arrived(&[1.5, 1.0]));
        assert_eq!(steps, 5);
        assert!(matches!(answer, Poll::Ready(Between::Move(shift)) if shift == [0.5, -1.0]));
        assert_eq!(waited, 7.0, "the wait is no compute");
    }

    #[test]
    fn a_window_whose_centre_is_not_awaited_any_more_is_abandoned() {
        let (_, answer, _) = until_it_waits(drop);
        assert!(matches!(answer, Poll::Ready(Between::Abandon)));
    }

    #[test]
    fn a_centre_that_comes_early_moves_the_window_at_once() {
        let (awaited, late) = await_centre(vec![1.0], 20);
        let mut counting = Counting::default();
        let mut ahead = Ahead { pacer: &mut counting, late: Some(late), now: || 0.0, waited: 0.0 };
        assert!(matches!(poll(ahead.between_steps()), Poll::Ready(Between::GoOn)));
        awaited.arrived(&[3.0]);
        assert!(matches!(poll(ahead.between_steps()), Poll::Ready(Between::Move(shift)) if shift == [2.0]));
        assert_eq!((steps_ahead(20), steps_ahead(3)), (5, 0));
    }
}
