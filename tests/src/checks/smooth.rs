//! The page stays smooth while its worker trains, and nobody's memory grows.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use kindling::headless::devtools::Page;
use serde_json::{Value, json};

use super::digits::small_digits;
use crate::bench::process::resident_mib;
use crate::server::{Server, number};
use crate::{Measured, Scale, tab};

/// Counts tasks of more than 50 ms, as the browser defines a long task.
const OBSERVER: &str = "globalThis.longTasks = []; \
    new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((entry) => Math.round(entry.duration)))) \
    .observe({ type: 'longtask' })";

/// Long tasks of a page over a while, in milliseconds each.
async fn long_tasks(page: &Page, over: Duration) -> anyhow::Result<Vec<u64>> {
    page.evaluate("longTasks.length = 0").await?;
    tokio::time::sleep(over).await;
    let found = page.evaluate("longTasks").await?;
    Ok(found.as_array().context("no list")?.iter().filter_map(Value::as_u64).collect())
}

/// Blocks the page for 80 ms; whether the observer saw it.
async fn sees_a_block(page: &Page) -> anyhow::Result<bool> {
    let block = "new Promise((seen) => setTimeout(() => { \
        const until = performance.now() + 80; while (performance.now() < until); setTimeout(() => seen(longTasks.length), 300); \
        }, 0))";
    page.evaluate("longTasks.length = 0").await?;
    Ok(page.evaluate(block).await?.as_u64().is_some_and(|count| count > 0))
}

pub async fn smooth(scale: Scale) -> anyhow::Result<Measured> {
    let seconds = Duration::from_secs(if scale == Scale::Full { 60 } else { 2 });
    let server = Server::start(&small_digits(1_000_000, "")).await?;
    let browser = tab::browser(&[]).await?;
    let page = tab::open(&browser, &server).await?;
    page.evaluate(OBSERVER).await?;
    let proven = sees_a_block(&page).await?;
    let idle = long_tasks(&page, seconds).await?;
    page.click("#start").await?;
    tab::wait_for_phase(&page, &["training"]).await?;
    let before = number(&server.status()?, "/samples_trained");
    let training = long_tasks(&page, seconds).await?;
    let trained = number(&server.status()?, "/samples_trained") - before;
    let proven = proven && sees_a_block(&page).await?;
    browser.close().await;
    let mut facts = vec![
        (proven, "the observer sees an injected block of 80 ms, before and after".to_owned()),
        (trained > 0, format!("{trained} samples trained meanwhile")),
    ];
    let words = format!("long tasks in {} s: {training:?} while training, {idle:?} idle", seconds.as_secs());
    // How long something takes is judged at full length alone, on a machine that does nothing else.
    facts.push((scale == Scale::Short || training.len() <= idle.len(), words));
    Ok(Measured::all(&facts))
}

/// Memory of module, page, its two Web Workers and server, in MiB.
#[derive(Clone, Copy, Debug)]
struct Memory {
    wasm: f64,
    page: f64,
    worker: f64,
    socket: f64,
    server: f64,
}

impl Memory {
    async fn of(page: &Page, worker: &Page, socket: &Page, server: &Server) -> anyhow::Result<Self> {
        const MIB: f64 = 1_048_576.0;
        let data = tab::data(page).await?;
        let wasm = data["memory"].as_str().and_then(|bytes| bytes.parse::<f64>().ok()).context("no memory")?;
        let id = server.process_id().context("the server is gone")?;
        Ok(Self {
            wasm: wasm / MIB,
            page: heap(page).await? / MIB,
            worker: heap(worker).await? / MIB,
            socket: heap(socket).await? / MIB,
            server: resident_mib(id)?,
        })
    }
}

/// Bytes of a JavaScript heap that are in use, garbage not counted.
async fn heap(page: &Page) -> anyhow::Result<f64> {
    page.call("HeapProfiler.collectGarbage", json!({})).await?;
    page.call("Runtime.getHeapUsage", json!({})).await?["usedSize"].as_f64().context("no heap usage")
}

/// Waits until so many more local steps are in the ledger.
async fn steps(server: &Server, more: u64) -> anyhow::Result<u64> {
    const BATCH: u64 = 32;
    let start = number(&server.status()?, "/samples_trained");
    let reached = |status: &Value| number(status, "/samples_trained") >= start + more * BATCH;
    let status = server.until("more local steps", reached).await?;
    Ok((number(&status, "/samples_trained") - start) / BATCH)
}

pub async fn memory(scale: Scale) -> anyhow::Result<Measured> {
    let (warm, length) = if scale == Scale::Full { (1_500, 5_000) } else { (300, 300) };
    let server = Server::start(&small_digits(1_000_000, "communication_window = 10")).await?;
    let browser = tab::browser(&[]).await?;
    let page = tab::open(&browser, &server).await?;
    let (worker, clicked) = tokio::join!(browser.worker_of(&page), page.click("#start"));
    clicked?;
    let worker = worker?;
    let socket = browser.worker_of(&worker).await?;
    steps(&server, warm).await?;
    let before = Memory::of(&page, &worker, &socket, &server).await?;
    let began = Instant::now();
    let taken = steps(&server, length).await?;
    let after = Memory::of(&page, &worker, &socket, &server).await?;
    browser.close().await;
    let grown = |name: &str, before: f64, after: f64, most: f64| {
        (after - before <= most, format!("{name} from {before:.1} to {after:.1} MiB (at most {most} more)"))
    };
    Ok(Measured::all(&[
        (taken >= length, format!("{taken} steps in {} s", began.elapsed().as_secs())),
        grown("wasm", before.wasm, after.wasm, 0.0),
        grown("the page's heap", before.page, after.page, 2.0),
        grown("the worker's heap", before.worker, after.worker, 1.0),
        grown("its socket's heap", before.socket, after.socket, 1.0),
        grown("the server", before.server, after.server, 8.0),
    ]))
}
