//! HTTP: the pages, the API, shards and events. See the table of routes in `docs/architecture.md`.

mod api;
mod assets;
mod error;
mod events;
mod metrics;

use std::sync::Arc;

use axum::Router;
use axum::extract::{State, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;

pub use api::RunListing;
pub use assets::missing_assets;
pub use error::{ApiError, ErrorBody, ErrorDetail};
pub use events::LiveState;

use crate::gateway::{self, UploadBudget};
use crate::run::Run;

/// The runs that a server hosts.
pub struct Runs {
    runs: Vec<Arc<Run>>,
    uploads: UploadBudget,
}

impl Runs {
    /// These runs, whose ids differ; commits of all of them share the upload budget.
    pub const fn new(runs: Vec<Arc<Run>>, uploads: UploadBudget) -> Self {
        Self { runs, uploads }
    }

    /// What bounds the memory of commits on their way.
    pub const fn uploads(&self) -> &UploadBudget {
        &self.uploads
    }

    /// The run with this id; the first one for an empty id.
    pub fn find(&self, id: &str) -> Option<Arc<Run>> {
        self.runs.iter().find(|run| id.is_empty() || run.plan().id == id).cloned()
    }

    /// All of them.
    pub fn all(&self) -> &[Arc<Run>] {
        &self.runs
    }
}

/// Everything that the server answers.
pub fn router(runs: Arc<Runs>) -> Router {
    let api = Router::new()
        .route("/runs", get(api::runs))
        .route("/runs/{id}", get(api::run))
        .route("/runs/{id}/metrics", get(api::metrics))
        .route("/runs/{id}/workers", get(api::workers))
        .route("/runs/{id}/epoch", get(api::epoch))
        .route("/runs/{id}/events", get(events::stream))
        .route("/runs/{id}/shards/{hash}", get(api::shard))
        .route("/runs/{id}/model.safetensors", get(api::model))
        .fallback(error::no_such_route);
    Router::new()
        .route("/", get(assets::contribute))
        .route("/dashboard", get(assets::dashboard))
        .route("/r/{id}", get(assets::contribute_to))
        .route("/r/{id}/dashboard", get(assets::dashboard_of))
        .route("/ws/worker", get(worker_socket))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics::metrics))
        .nest("/api/v1", api)
        .fallback(assets::file)
        .with_state(runs)
}

async fn worker_socket(State(runs): State<Arc<Runs>>, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    gateway::accept(runs, &headers, upgrade)
}

/// The runs are loaded before anybody is listened to: only the pages can be missing.
async fn ready() -> (StatusCode, String) {
    let missing = missing_assets();
    if missing.is_empty() {
        (StatusCode::OK, "ready".to_owned())
    } else {
        let what = format!("this binary has no pages ({} missing): `cargo xtask build` makes them", missing.join(", "));
        (StatusCode::SERVICE_UNAVAILABLE, what)
    }
}
