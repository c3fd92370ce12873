//! The worker's loop in the browser, with exchange, beside the bare training loop of the same module and beside tf.js.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use kindling::headless::devtools::{Browser, Page};
use kindling::runfile;
use serde::Serialize;

use super::Rounds;
use crate::server::{HANG, Server, number};
use crate::tab;

/// Local steps between two exchanges, as the run file writes them.
pub const WINDOWS: [&str; 3] = ["10", "50", "\"auto\""];
/// As many as Fashion-MNIST has: of few, most leases would be shorter than a window.
const SAMPLES: u32 = 60_000;
/// A machine's own speed changes within seconds: in a round worker and bare loop take so many short turns.
const TURNS: usize = 4;
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
    /// The worker over the bare loop.
    pub worker_over_bare: Rounds,
    /// The bare loop over tf.js.
    pub bare_over_tfjs: Rounds,
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

/// Measures a window in `rounds` rounds; a turn of worker or bare loop lasts so many seconds.
pub async fn measure(window: &'static str, rounds: usize, seconds: f64, folder: &Path) -> anyhow::Result<Training> {
    super::write_data(SAMPLES, 28, 28, folder)?;
    let server = Server::start_in(&[&run_file(window)], &[], &[("KINDLING_BENCH", folder)]).await?;
    let baseline = serve_baseline().await?;
    let browser = tab::browser(&[]).await?;
    let pair = Pair::open(&browser, &server, window, folder).await?;
    let (mut worker, mut bare, mut tfjs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let round = pair.round(TURNS, seconds).await?;
        worker.push(round.worker);
        bare.push(round.bare);
        tfjs.push(tfjs_loop(&browser, &baseline, window, 2.0 * seconds).await?);
    }
    browser.close().await;
    Ok(Training {
        bench: "training",
        window,
        worker_over_bare: Rounds::of_ratios(&worker, &bare),
        bare_over_tfjs: Rounds::of_ratios(&bare, &tfjs),
        worker: Rounds::of(worker),
        bare: Rounds::of(bare),
        tfjs: Rounds::of(tfjs),
    })
}

/// One short round without tf.js.
pub async fn once(window: &'static str, seconds: f64, folder: &Path) -> anyhow::Result<Round> {
    super::write_data(SAMPLES, 28, 28, folder)?;
    let server = Server::start_in(&[&run_file(window)], &[], &[("KINDLING_BENCH", folder)]).await?;
    let browser = tab::browser(&[]).await?;
    let round = Pair::open(&browser, &server, window, folder).await?.round(1, seconds).await?;
    browser.close().await;
    Ok(round)
}

/// Steps a second in one round.
pub struct Round {
    /// Of the worker, exchanges included.
    pub worker: f64,
    /// Of the bare loop.
    pub bare: f64,
}

/// Two pages of one browser that take turns: a tab that contributes, and the bare loop.
struct Pair<'a> {
    server: &'a Server,
    worker: Page,
    bare: Page,
}

impl<'a> Pair<'a> {
    /// Opens both. The worker trains an epoch, in which it fetches its shards and finds its speed, and pauses.
    async fn open(browser: &Browser, server: &'a Server, window: &str, folder: &Path) -> anyhow::Result<Self> {
        let bare = bare_page(browser, server, window, folder).await?;
        let worker = tab::contribute(browser, server).await?;
        let pair = Self { server, worker, bare };
        server.until("an epoch", |status| number(status, "/samples_trained") > u64::from(SAMPLES)).await?;
        pair.press_pause(&["paused"]).await?;
        Ok(pair)
    }

    async fn round(&self, turns: usize, seconds: f64) -> anyhow::Result<Round> {
        let (mut steps, mut time, mut bare) = (0.0, 0.0, 0.0);
        for _ in 0..turns {
            let (more_steps, more_time) = self.worker_turn(seconds).await?;
            steps += more_steps;
            time += more_time;
            let rate = self.bare.evaluate(&format!("bare.run({})", seconds * 1e3)).await?;
            bare += rate.as_f64().with_context(|| format!("no rate: {rate}"))?;
        }
        Ok(Round { worker: steps / time, bare: bare / turns as f64 })
    }

    /// The worker's steps, as the ledger counts them, and the seconds that they took: from commit to commit, as far as a
    /// look at the server sees them.
    async fn worker_turn(&self, seconds: f64) -> anyhow::Result<(f64, f64)> {
        const BATCH: f64 = 32.0;
        self.press_pause(&["training", "exchanging"]).await?;
        let (first, began) = self.next_commit().await?;
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        let (last, ended) = self.next_commit().await?;
        self.press_pause(&["paused"]).await?;
        Ok(((last - first) as f64 / BATCH, (ended - began).as_secs_f64()))
    }

    /// Waits for one more commit; returns the samples trained by then, and when it was.
    async fn next_commit(&self) -> anyhow::Result<(u64, Instant)> {
        let version = number(&self.server.status()?, "/version");
        let status = self.server.until("one more commit", |status| number(status, "/version") > version).await?;
        Ok((number(&status, "/samples_trained"), Instant::now()))
    }

    /// Presses the button that pauses and resumes, and waits until it has.
    async fn press_pause(&self, phases: &[&str]) -> anyhow::Result<()> {
        self.worker.evaluate("document.querySelector('#pause').click()").await?;
        tab::wait_for_phase(&self.worker, phases).await?;
        Ok(())
    }
}

fn steps_of(window: &str) -> u32 {
    // An "auto" window lasts about two seconds: as many steps as that, in the order of magnitude.
    window.parse().unwrap_or(500)
}

/// A page with the bare loop as `bare`, an epoch old as the worker is.
async fn bare_page(browser: &Browser, server: &Server, window: &str, folder: &Path) -> anyhow::Result<Page> {
    let path = folder.join("run.toml");
    std::fs::write(&path, run_file(window).replace("${KINDLING_BENCH}", &folder.display().to_string()))?;
    let run = runfile::load(&path)?;
    let plan = serde_json::to_string(&serde_json::to_string(&run.plan)?)?;
    let hashes: Vec<String> = run.dataset.shards.iter().map(|shard| shard.hash.to_string()).collect();
    let hashes = serde_json::to_string(&hashes)?;
    let page = tab::open(browser, server).await?;
    let (root, id, steps) = (&server.url, &server.run, steps_of(window));
    let script = format!(
        "(async () => {{
            const module = await import('{root}/wasm/kindling_client.js');
            const wasm = await module.default({{ module_or_path: '{root}/wasm/kindling_client_bg.wasm' }});
            wasm.__wasm_call_ctors();
            const fetched = {hashes}.map((hash) => fetch('{root}/api/v1/runs/{id}/shards/' + hash));
            const buffers = await Promise.all(fetched.map(async (answer) => (await answer).arrayBuffer()));
            const shards = buffers.map((buffer) => new Uint8Array(buffer));
            globalThis.bare = await module.BareLoop.begin({plan}, shards, {steps});
        }})()"
    );
    page.evaluate(&script).await?;
    Ok(page)
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
