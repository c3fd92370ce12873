//! The evaluator: a thread that judges the centre on the validation part, now and then and at the end.
//!
//! Volunteers may share the machine, so it takes at most a tenth of one core's time, but for the ends of epochs.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use kindling_shared::data::BatchSource;
use kindling_shared::trainer::Evaluator;

use super::status::stop_reason;
use super::{Run, unix_millis};
use crate::coordinator::{Note, NoteKind};

const LARGEST_BATCH: u32 = 128;
/// At least this long between two evaluations that nobody asked for.
const SHORTEST_REST: Duration = Duration::from_secs(2);
/// A rest lasts this many times as long as the evaluation before it.
const REST_FACTOR: u32 = 9;

/// Wakes the evaluator.
#[derive(Default)]
pub(super) struct Wake {
    wanted: Mutex<bool>,
    condition: Condvar,
}

impl Wake {
    /// An evaluation is wanted now.
    pub(super) fn now(&self) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_one();
    }

    /// Rests for `rest`, or until an evaluation is wanted; returns whether one is.
    fn rest(&self, rest: Duration) -> bool {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut wanted, _) =
            self.condition.wait_timeout_while(wanted, rest, |wanted| !*wanted).unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *wanted)
    }
}

/// Starts the thread; it ends with the run.
pub(super) fn spawn(run: &Arc<Run>) -> std::io::Result<()> {
    let run = Arc::downgrade(run);
    std::thread::Builder::new().name("evaluator".into()).spawn(move || evaluate_until_the_end(&run)).map(drop)
}

fn evaluate_until_the_end(run: &Weak<Run>) {
    let Some(first) = run.upgrade() else { return };
    let held_out = &first.dataset.validation;
    let samples = held_out.len() as u32;
    let batch_size = samples.clamp(1, LARGEST_BATCH);
    let mut evaluator = Evaluator::new(&first.plan, &first.layout, &burn::tensor::Device::flex(), batch_size);
    let order = (0..samples).map(|sample| (Arc::clone(held_out), sample)).collect();
    let source = BatchSource::new(order, batch_size, first.plan.data.transforms.clone().into());
    drop(first);
    let mut judged = None;
    let mut rest_until = Instant::now();
    while let Some(run) = run.upgrade() {
        // In slices, so that the thread notices when the run is dropped.
        let rest = rest_until.saturating_duration_since(Instant::now());
        if !run.evaluator.rest(rest.min(SHORTEST_REST)) && Instant::now() < rest_until {
            continue;
        }
        let (version, trained, values, finished) = {
            let core = run.lock();
            let trained = core.coordinator.ledger().samples_trained();
            (core.coordinator.version(), trained, core.centre.values(), core.coordinator.is_finished())
        };
        let began = Instant::now();
        if judged != Some(version) {
            // The parts are let go before the evaluation: what is shared is copied when it changes.
            let values = { values }.to_vec();
            match block_on(evaluator.evaluate(&values, &source)) {
                Ok(found) => {
                    let mut core = run.lock();
                    core.history.validation(unix_millis(), trained, version.number, found.loss, found.accuracy);
                    let reason = format!(
                        "version {}: accuracy {:.1} %, loss {:.4} on {} validation samples",
                        version.number,
                        found.accuracy * 100.0,
                        found.loss,
                        source.samples()
                    );
                    run.note(&mut core, Note::run(NoteKind::Evaluated, reason));
                }
                Err(error) => tracing::error!("evaluation of version {version} failed: {error}"),
            }
            judged = Some(version);
        }
        rest_until = Instant::now() + (began.elapsed() * REST_FACTOR).max(SHORTEST_REST);
        if finished {
            let mut core = run.lock();
            core.finished_at = Some(unix_millis());
            let reason = stop_reason(core.coordinator.ledger());
            run.note(&mut core, Note::run(NoteKind::RunEnded, reason));
            run.ended.send_replace(true);
            return;
        }
    }
}

/// Runs a future of the CPU device, which answers at once.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::yield_now();
    }
}
