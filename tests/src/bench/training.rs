//! The worker's loop in the browser, with exchange, beside the bare training loop of the same module and beside tf.js.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use kindling::headless::devtools::Browser;
use kindling::runfile;
use serde::Serialize;
use serde_json::Value;

use super::Rounds;
use crate::server::{HANG, Server, number};
use crate::tab;

/// Local steps between two exchanges, as the run file writes them.
pub const WINDOWS: [&str; 3] = ["10", "50", "\"auto\""];
/// As many as Fashion-MNIST has: of few, most leases would be shorter than a window.
const SAMPLES: u32 = 60_000;
/// Steps before tf.js is measured.
const WARM_STEPS: u32 = 200;

/// One window's loop.
#[derive(Clone, Debug, Serialize)]
pub struct Training {
    /// Always `training`.
    pub bench: &'static str,
    /// The communication window, as the run file writes it.
    pub window: &'static str,
    /// Steps a second of the worker, exchanges included.
    pub worker: Rounds,
    /// Of the bare loop: same module, data, weights, optimizer and batch.
    pub bare: Rounds,
    /// Of tf.js on its wasm backend with SIMD.
    pub tfjs: Rounds,
    /// Median of the worker over the bare loop's.
    pub worker_over_bare: f64,
    /// Median of the bare loop over tf.js'.
    pub bare_over_tfjs: f64,
}

fn run_file(window: &str) -> String {
    format!(
        r#"
name = "loop"
seed = 7
[data]
format = "idx"
train = {{ features = "${{KINDLING_BENCH}}/x", labels = "${{KINDLING_BENCH}}/y" }}
validation = 0.05
transforms = [{{ kind = "scale", by = 0.00392156862745098 }}]
[model]
layers = [{{ kind = "flatten" }}, {{ kind = "linear", units = 256 }}, {{ kind = "relu" }}, {{ kind = "linear", units = 10 }}]
[worker]
batch_size = 32
optimizer = {{ kind = "adam", learning_rate = 0.001 }}
[strategy]
communication_window = {window}
[stop]
epochs = 1000000
"#
    )
}

/// Measures a window in `rounds` rounds of so many seconds each.
pub async fn measure(window: &'static str, rounds: usize, seconds: f64, folder: &Path) -> anyhow::Result<Training> {
    super::write_data(SAMPLES, 28, 28, folder)?;
    let server = Server::start_in(&[&run_file(window)], &[], &[("KINDLING_BENCH", folder)]).await?;
    let baseline = serve_baseline().await?;
    let browser = tab::browser(&[]).await?;
    let (mut worker, mut bare, mut tfjs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        worker.push(worker_loop(&browser, &server, seconds).await?);
        bare.push(bare_loop(&browser, &server, window, seconds, folder).await?);
        tfjs.push(tfjs_loop(&browser, &baseline, window, seconds).await?);
    }
    browser.close().await;
    let (worker, bare, tfjs) = (Rounds::of(worker), Rounds::of(bare), Rounds::of(tfjs));
    Ok(Training {
        bench: "training",
        window,
        worker_over_bare: worker.median / bare.median,
        bare_over_tfjs: bare.median / tfjs.median,
        worker,
        bare,
        tfjs,
    })
}

/// One round without tf.js: the worker's steps a second, and the bare loop's.
pub async fn once(window: &'static str, seconds: f64, folder: &Path) -> anyhow::Result<(f64, f64)> {
    super::write_data(SAMPLES, 28, 28, folder)?;
    let server = Server::start_in(&[&run_file(window)], &[], &[("KINDLING_BENCH", folder)]).await?;
    let browser = tab::browser(&[]).await?;
    let worker = worker_loop(&browser, &server, seconds).await?;
    let bare = bare_loop(&browser, &server, window, seconds, folder).await?;
    browser.close().await;
    Ok((worker, bare))
}

/// Steps a second of a tab, as the ledger counts them.
async fn worker_loop(browser: &Browser, server: &Server, seconds: f64) -> anyhow::Result<f64> {
    const BATCH: f64 = 32.0;
    let page = tab::contribute(browser, server).await?;
    let start = number(&server.status()?, "/samples_trained");
    // In the first epoch the shards are fetched, and the first windows find the device's speed.
    let epoch = |status: &Value| number(status, "/samples_trained") > start + u64::from(SAMPLES);
    let warm = server.until("an epoch", epoch).await?;
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let version = number(&server.status()?, "/version");
    // From commit to commit: a window at work counts on neither side.
    let last = server.until("one more commit", |status| number(status, "/version") > version).await?;
    let samples = number(&last, "/samples_trained") - number(&warm, "/samples_trained");
    let rate = samples as f64 / BATCH / began.elapsed().as_secs_f64();
    page.close().await?;
    Ok(rate)
}

fn steps_of(window: &str) -> u32 {
    // An "auto" window lasts about two seconds: as many steps as that, in the order of magnitude.
    window.parse().unwrap_or(500)
}

async fn bare_loop(
    browser: &Browser,
    server: &Server,
    window: &str,
    seconds: f64,
    folder: &Path,
) -> anyhow::Result<f64> {
    let path = folder.join("run.toml");
    std::fs::write(&path, run_file(window).replace("${KINDLING_BENCH}", &folder.display().to_string()))?;
    let run = runfile::load(&path)?;
    let plan = serde_json::to_string(&serde_json::to_string(&run.plan)?)?;
    let hash = run.dataset.shards.first().context("no shard")?.hash;
    let page = tab::open(browser, server).await?;
    let (root, id, steps, milliseconds) = (&server.url, &server.run, steps_of(window), seconds * 1e3);
    let script = format!(
        "(async () => {{
            const module = await import('{root}/wasm/kindling_client.js');
            const wasm = await module.default({{ module_or_path: '{root}/wasm/kindling_client_bg.wasm' }});
            wasm.__wasm_call_ctors();
            const shard = await (await fetch('{root}/api/v1/runs/{id}/shards/{hash}')).arrayBuffer();
            return module.bare_loop({plan}, new Uint8Array(shard), {steps}, {milliseconds});
        }})()"
    );
    let rate = page.evaluate(&script).await?;
    page.close().await?;
    rate.as_f64().with_context(|| format!("no rate: {rate}"))
}

async fn tfjs_loop(browser: &Browser, baseline: &str, window: &str, seconds: f64) -> anyhow::Result<f64> {
    let page = browser.open_page().await?;
    page.navigate(&format!("{baseline}/loop.html")).await?;
    let began = Instant::now();
    // While the page loads there is nothing to evaluate in.
    while page.evaluate("typeof bareLoop").await.ok() != Some("function".into()) {
        if began.elapsed() > HANG {
            bail!("{baseline}/loop.html does not load");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let backend = page.evaluate("ready").await?;
    if backend["backend"] != "wasm" || backend["simd"] != true {
        bail!("tf.js must run on wasm with SIMD to be a fair baseline, it runs on {backend}");
    }
    let (steps, milliseconds) = (steps_of(window), seconds * 1e3);
    let found = page.evaluate(&format!("bareLoop({steps}, {milliseconds}, {WARM_STEPS})")).await?;
    page.close().await?;
    let loss = |key: &str| found[key].as_f64().with_context(|| format!("tf.js diverges: {found}"));
    if found["leaked"] != 0 || loss("loss")? >= loss("first")? {
        bail!("tf.js leaks tensors or does not learn: {found}");
    }
    found["rate"].as_f64().with_context(|| format!("no rate: {found}"))
}

/// Hosts the page of the baseline; ends with the program.
async fn serve_baseline() -> anyhow::Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-web");
    if !folder.join("node_modules").is_dir() {
        bail!("tf.js is missing: run this by `cargo xtask bench`");
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let router = Router::new().fallback(move |uri: Uri| file(folder.clone(), uri));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}

/// A file of the baseline's folder.
async fn file(folder: PathBuf, uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html",
        Some("js") => "text/javascript",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    };
    match tokio::fs::read(folder.join(path)).await {
        Ok(bytes) if !path.contains("..") => ([(CONTENT_TYPE, kind)], bytes).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}
