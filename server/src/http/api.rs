//! The JSON API under `/api/v1`.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use kindling_shared::protocol::ShardHash;
use serde::{Deserialize, Serialize};

use super::{ApiError, Runs};
use crate::coordinator::{EpochView, WorkerView};
use crate::run::{Run, RunState, RunStatus, Series};

/// One line of `GET runs`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct RunListing {
    /// The run's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: RunState,
}

/// The body of `GET runs/{id}/metrics`.
#[derive(Debug, Serialize)]
pub struct Metrics {
    /// Every series.
    pub series: Vec<Series>,
}

#[derive(Debug, Deserialize)]
pub struct MetricsQuery {
    #[serde(default)]
    after: u64,
    #[serde(default = "default_points")]
    points: usize,
}

const fn default_points() -> usize {
    1_000
}

pub(super) fn find(runs: &Runs, id: &str) -> Result<Arc<Run>, ApiError> {
    let unknown = || {
        ApiError::not_found("unknown_run", format!("this server hosts no run {id:?}"), "GET /api/v1/runs lists them")
    };
    if id.is_empty() { Err(unknown()) } else { runs.find(id).ok_or_else(unknown) }
}

pub(super) async fn runs(State(runs): State<Arc<Runs>>) -> Json<Vec<RunListing>> {
    let listing = |run: &Arc<Run>| {
        let status = run.status();
        RunListing { id: status.id, name: status.name, state: status.state }
    };
    Json(runs.all().iter().map(listing).collect())
}

pub(super) async fn run(State(runs): State<Arc<Runs>>, Path(id): Path<String>) -> Result<Json<RunStatus>, ApiError> {
    Ok(Json(find(&runs, &id)?.status()))
}

pub(super) async fn metrics(
    State(runs): State<Arc<Runs>>,
    Path(id): Path<String>,
    query: Result<Query<MetricsQuery>, QueryRejection>,
) -> Result<Json<Metrics>, ApiError> {
    let Query(query) = query.map_err(|error| {
        let hint = "after is unix time in milliseconds, points a count: both are whole numbers";
        ApiError::bad_request("bad_query", error.body_text(), hint)
    })?;
    Ok(Json(Metrics { series: find(&runs, &id)?.series(query.after, query.points) }))
}

pub(super) async fn workers(
    State(runs): State<Arc<Runs>>,
    Path(id): Path<String>,
) -> Result<Json<Vec<WorkerView>>, ApiError> {
    Ok(Json(find(&runs, &id)?.workers()))
}

pub(super) async fn epoch(State(runs): State<Arc<Runs>>, Path(id): Path<String>) -> Result<Json<EpochView>, ApiError> {
    Ok(Json(find(&runs, &id)?.epoch()))
}

/// The newest centre.
pub(super) async fn model(State(runs): State<Arc<Runs>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let bytes = find(&runs, &id)?.model().map_err(|error| ApiError::internal(error.to_string()))?;
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{id}.safetensors\"")),
    ];
    Ok((headers, bytes).into_response())
}

/// A shard never changes: its address is the hash of its bytes.
pub(super) async fn shard(
    State(runs): State<Arc<Runs>>,
    Path((id, hash)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let run = find(&runs, &id)?;
    let shard = ShardHash::parse(&hash).and_then(|hash| run.dataset().shard(&hash)).ok_or_else(|| {
        ApiError::not_found("unknown_shard", "this run has no shard with that hash", "leases name the hashes")
    })?;
    run.count_traffic(0, shard.bytes.len() as u64);
    let headers = [(CONTENT_TYPE, "application/octet-stream"), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    Ok((headers, shard.bytes.clone()).into_response())
}
