//! What happened in a run, bounded: a ring of events, and series of points that thin out as they grow.

use std::collections::VecDeque;

use serde::Serialize;

use crate::coordinator::{Note, NoteKind};

/// Events kept.
const MOST_EVENTS: usize = 2_000;
/// Points kept of each series: when it is full, every second one goes.
const MOST_POINTS: usize = 8_192;

/// An event as the log shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct Event {
    /// Counts up from 1, without gaps.
    #[cfg_attr(test, ts(type = "number"))]
    pub id: u64,
    /// Unix time, in milliseconds.
    #[cfg_attr(test, ts(type = "number"))]
    pub at: u64,
    /// What it is about.
    pub kind: NoteKind,
    /// The worker that it is about.
    #[cfg_attr(test, ts(type = "number | null"))]
    pub worker: Option<u64>,
    /// The shard of the first sample that it is about.
    pub shard: Option<u32>,
    /// What happened and why.
    pub reason: String,
}

/// `[unix milliseconds, samples trained, version, value]`
pub type Point = (u64, u64, u64, f32);

/// One quantity over the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct Series {
    /// What is measured: `train_loss`, `validation_loss`, `validation_accuracy`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// What the first number of a point counts.
    pub clock: String,
    /// `[unix milliseconds, samples trained, version, value]`
    #[cfg_attr(test, ts(type = "[number, number, number, number][]"))]
    pub points: Vec<Point>,
}

#[derive(Default)]
struct Points {
    kept: Vec<Point>,
    /// One of `2^thinned` points is kept.
    thinned: u32,
    offered: u64,
}

impl Points {
    fn push(&mut self, point: Point) {
        let keep = self.offered.is_multiple_of(1 << self.thinned);
        self.offered += 1;
        if !keep {
            return;
        }
        if self.kept.len() >= MOST_POINTS {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.thinned += 1;
        }
        self.kept.push(point);
    }

    fn after(&self, time: u64, most: usize) -> Vec<Point> {
        let start = self.kept.partition_point(|point| point.0 <= time);
        let points = &self.kept[start..];
        let step = points.len().div_ceil(most.max(1)).max(1);
        // From the end, so that the newest point is always there.
        let mut picked: Vec<Point> = points.iter().rev().step_by(step).copied().collect();
        picked.reverse();
        picked
    }
}

/// The history of a run.
#[derive(Default)]
pub(super) struct History {
    events: VecDeque<Event>,
    last_event: u64,
    train_loss: Points,
    validation_loss: Points,
    validation_accuracy: Points,
    /// Training loss over the latest commits, weighted by their samples.
    recent_loss: Option<f32>,
    last_validation: Option<(f32, f32)>,
}

/// Samples over which the shown training loss is averaged.
const LOSS_MEMORY: f32 = 1_000.0;

impl History {
    pub(super) fn event(&mut self, at: u64, note: Note) -> Event {
        self.last_event += 1;
        let worker = note.worker.map(|worker| worker.0);
        let event = Event { id: self.last_event, at, kind: note.kind, worker, shard: note.shard, reason: note.reason };
        if self.events.len() >= MOST_EVENTS {
            // Commits are many and alike: they go before anything that is said once.
            let commit =
                self.events.iter().take(MOST_EVENTS / 2).position(|event| event.kind == NoteKind::CommitAccepted);
            self.events.remove(commit.unwrap_or(0));
        }
        self.events.push_back(event.clone());
        event
    }

    pub(super) fn events_after(&self, id: u64) -> Vec<Event> {
        let id = if id > self.last_event { 0 } else { id };
        self.events.iter().filter(|event| event.id > id).cloned().collect()
    }

    pub(super) fn train_loss(&mut self, at: u64, trained: u64, version: u64, loss: f32, samples: u32) {
        self.train_loss.push((at, trained, version, loss));
        let weight = (samples as f32 / LOSS_MEMORY).min(1.0);
        self.recent_loss = Some(self.recent_loss.map_or(loss, |before| before + weight * (loss - before)));
    }

    pub(super) fn validation(&mut self, at: u64, trained: u64, version: u64, loss: f32, accuracy: f32) {
        self.validation_loss.push((at, trained, version, loss));
        self.validation_accuracy.push((at, trained, version, accuracy));
        self.last_validation = Some((loss, accuracy));
    }

    pub(super) const fn recent_loss(&self) -> Option<f32> {
        self.recent_loss
    }

    /// Loss and accuracy of the last evaluation.
    pub(super) const fn last_validation(&self) -> Option<(f32, f32)> {
        self.last_validation
    }

    pub(super) fn series(&self, after: u64, most: usize) -> Vec<Series> {
        let series = |name: &str, unit: &str, points: &Points| Series {
            name: name.into(),
            unit: unit.into(),
            clock: "unix time of the server, in milliseconds".into(),
            points: points.after(after, most),
        };
        vec![
            series("train_loss", "nats a sample", &self.train_loss),
            series("validation_loss", "nats a sample", &self.validation_loss),
            series("validation_accuracy", "share of samples", &self.validation_accuracy),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_stays_bounded_and_keeps_its_newest_point() {
        let mut points = Points::default();
        for time in 0..100_000 {
            points.push((time, time, time, 0.5));
            assert!(points.kept.len() <= MOST_POINTS);
        }
        assert!(points.kept.len() > MOST_POINTS / 4);
        assert!(points.kept.is_sorted());
        let picked = points.after(0, 100);
        assert!(picked.len() <= 100);
        assert_eq!(picked.last(), points.kept.last());
    }

    #[test]
    fn commits_leave_the_log_before_what_is_said_once() {
        let mut history = History::default();
        history.event(0, Note::run(NoteKind::RunStarted, "start"));
        for _ in 0..3 * MOST_EVENTS {
            history.event(1, Note::run(NoteKind::CommitAccepted, "a commit"));
        }
        let events = history.events_after(0);
        assert_eq!(events.len(), MOST_EVENTS);
        assert_eq!(events[0].kind, NoteKind::RunStarted);
        assert_eq!(events.last().map(|event| event.id), Some(3 * MOST_EVENTS as u64 + 1));
    }
}
