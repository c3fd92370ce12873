//! `/metrics`: every run's numbers for Prometheus, as of the moment of the scrape.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{ApiError, Runs};
use crate::run::RunStatus;

const FORM: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;
type FloatGauge = Gauge<f64, AtomicU64>;

pub(super) async fn metrics(State(runs): State<Arc<Runs>>) -> Result<Response, ApiError> {
    let statuses: Vec<RunStatus> = runs.all().iter().map(|run| run.status()).collect();
    let mut text = String::new();
    encode(&mut text, &registry(&statuses, runs.uploads().waiting()))
        .map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(([(CONTENT_TYPE, FORM)], text).into_response())
}

fn registry(runs: &[RunStatus], uploads_waiting: usize) -> Registry {
    let mut registry = Registry::with_prefix("kindling");
    let waiting = Gauge::<i64>::default();
    waiting.set(uploads_waiting as i64);
    registry.register("uploads_waiting", "Commits of all runs that wait for room in the upload budget", waiting);
    let mut counter = |name: &str, help: &str, values: &dyn Fn(&RunStatus) -> Vec<(Labels, u64)>| {
        let family = Family::<Labels, Counter>::default();
        for (labels, value) in runs.iter().flat_map(values) {
            family.get_or_create(&labels).inc_by(value);
        }
        registry.register(name, help, family);
    };
    counter("samples_trained", "Samples that accepted commits covered", &|run| one(run, run.samples_trained));
    counter("samples_refused", "Samples given up because no result over them could be used", &|run| {
        one(run, run.samples_refused)
    });
    counter("commits_accepted", "Commits that changed the centre", &|run| one(run, run.commits.accepted));
    counter("commits_rejected", "Commits that changed nothing, by the code of their refusal", &|run| {
        let code = |code: &kindling_shared::protocol::RejectCode| {
            serde_json::to_value(code).ok().and_then(|code| code.as_str().map(str::to_owned)).unwrap_or_default()
        };
        let labelled = |(reject, count): (&kindling_shared::protocol::RejectCode, &u64)| {
            (vec![("run", run.id.clone()), ("code", code(reject))], *count)
        };
        run.commits.by_code.iter().map(labelled).collect()
    });
    counter("received_bytes", "Bytes from workers", &|run| one(run, run.traffic.bytes_in));
    counter("sent_bytes", "Bytes to workers and as shards", &|run| one(run, run.traffic.bytes_out));
    let mut gauge = |name: &str, help: &str, values: &dyn Fn(&RunStatus) -> Vec<(Labels, f64)>| {
        let family = Family::<Labels, FloatGauge>::default();
        for (labels, value) in runs.iter().flat_map(values) {
            family.get_or_create(&labels).set(value);
        }
        registry.register(name, help, family);
    };
    gauge("workers_active", "Workers that are connected and passed the self-test", &|run| {
        one(run, run.workers_active as f64)
    });
    gauge("samples_in_flight", "Samples out with workers", &|run| one(run, run.samples_in_flight as f64));
    gauge("version", "The centre's version number", &|run| one(run, run.version as f64));
    gauge("epoch", "The oldest open epoch, from 0", &|run| one(run, f64::from(run.epoch)));
    gauge("epochs", "Passes over the training part", &|run| one(run, f64::from(run.epochs)));
    gauge("finished", "1 when the run has ended", &|run| one(run, f64::from(u8::from(run.finished_at.is_some()))));
    gauge("staleness_versions", "Staleness of accepted commits", &|run| {
        let staleness = [("0.5", run.staleness.p50), ("0.99", run.staleness.p99), ("1", run.staleness.max)];
        let labelled = |(quantile, value): (&str, u64)| {
            (vec![("run", run.id.clone()), ("quantile", quantile.to_owned())], value as f64)
        };
        staleness.into_iter().map(labelled).collect()
    });
    gauge("loss_nats", "Loss a sample", &|run| {
        let parts = [("train", run.loss.train), ("validation", run.loss.validation)];
        let labelled = |(part, loss): (&str, Option<f32>)| {
            loss.map(|loss| (vec![("run", run.id.clone()), ("part", part.to_owned())], f64::from(loss)))
        };
        parts.into_iter().filter_map(labelled).collect()
    });
    gauge("accuracy_ratio", "Share of validation samples that are classified rightly", &|run| {
        run.metrics.accuracy.map_or_else(Vec::new, |accuracy| one(run, f64::from(accuracy)))
    });
    registry
}

/// One value, labelled by its run alone.
fn one<V>(run: &RunStatus, value: V) -> Vec<(Labels, V)> {
    vec![(vec![("run", run.id.clone())], value)]
}
