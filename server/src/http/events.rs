//! Server-sent events: the log as it grows, and the run's state about once a second while it changes.
//!
//! `event: log` carries an [`Event`] with its `id:`; a reconnecting browser sends `Last-Event-ID` and gets what it
//! missed, as far as it is kept. `event: state` carries a [`LiveState`] and has no id: the next one replaces it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::Stream;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{ApiError, Runs, api};
use crate::coordinator::{EpochView, WorkerView};
use crate::run::{Event, Run, RunStatus, unix_millis};

const STATE_EVERY: Duration = Duration::from_secs(1);
/// Messages prepared for a watcher that reads slowly.
const QUEUE: usize = 64;
const LAST_EVENT_ID: &str = "last-event-id";
/// Workers in a live state: the API has the rest.
const MOST_WORKERS: usize = 200;

/// What `event: state` carries.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct LiveState {
    /// The run.
    pub status: RunStatus,
    /// Its open epoch, shard by shard.
    pub epoch: EpochView,
    /// Its workers: connected ones first, then the newest.
    pub workers: Vec<WorkerView>,
    /// Unix time of the server, in milliseconds: a watcher's clock may be wrong.
    #[cfg_attr(test, ts(type = "number"))]
    pub server_time: u64,
}

impl LiveState {
    fn of(run: &Run) -> Self {
        let mut workers = run.workers();
        workers.sort_by_key(|worker| (!worker.connected, std::cmp::Reverse(worker.id)));
        workers.truncate(MOST_WORKERS);
        Self { status: run.status(), epoch: run.epoch(), workers, server_time: unix_millis() }
    }

    /// Whether nothing but the time differs.
    fn says_the_same(&self, other: &Self) -> bool {
        self.status == other.status && self.epoch == other.epoch && self.workers == other.workers
    }
}

pub(super) async fn stream(
    State(runs): State<Arc<Runs>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, ApiError> {
    let run = api::find(&runs, &id)?;
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok()).unwrap_or(0);
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(watch(run, last, sender));
    Ok(Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::default()))
}

/// Sends until the watcher is gone.
async fn watch(run: Arc<Run>, mut last: u64, sender: mpsc::Sender<Result<sse::Event, Infallible>>) {
    let mut events = run.subscribe();
    let mut tick = tokio::time::interval(STATE_EVERY);
    let mut shown = None;
    if !catch_up(&run, &mut last, &sender).await {
        return;
    }
    loop {
        let alive = tokio::select! {
            event = events.recv() => match event {
                Ok(event) if event.id <= last => true,
                Ok(event) => {
                    last = event.id;
                    send(&sender, log(&event)).await
                }
                Err(RecvError::Lagged(_)) => catch_up(&run, &mut last, &sender).await,
                Err(RecvError::Closed) => false,
            },
            _ = tick.tick() => {
                let state = LiveState::of(&run);
                let changed = shown.as_ref().is_none_or(|shown: &LiveState| !state.says_the_same(shown));
                let alive = !changed || send(&sender, sse::Event::default().event("state").json_data(&state)).await;
                shown = Some(state);
                alive && !sender.is_closed()
            }
        };
        if !alive {
            return;
        }
    }
}

async fn catch_up(run: &Run, last: &mut u64, sender: &mpsc::Sender<Result<sse::Event, Infallible>>) -> bool {
    for event in run.events_after(std::mem::take(last)) {
        *last = event.id;
        if !send(sender, log(&event)).await {
            return false;
        }
    }
    true
}

fn log(event: &Event) -> Result<sse::Event, axum::Error> {
    sse::Event::default().event("log").id(event.id.to_string()).json_data(event)
}

async fn send(sender: &mpsc::Sender<Result<sse::Event, Infallible>>, event: Result<sse::Event, axum::Error>) -> bool {
    match event {
        Ok(event) => sender.send(Ok(event)).await.is_ok(),
        Err(error) => {
            tracing::error!("an event cannot be written: {error}");
            true
        }
    }
}
