//! `kindling worker`: contribute from headless browsers on this machine. For labs and CI: no display, an exit code.

#[cfg(unix)]
pub mod devtools;
mod find;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use serde::Deserialize;

pub use find::find_browser;

/// A refusal that the page does not lift by itself in this time stays.
const REFUSED_FOR_GOOD: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Contributes from headless browsers.
#[derive(Args, Debug)]
#[command(after_help = "Example: kindling worker --url http://127.0.0.1:7878 --count 2")]
pub struct WorkerArgs {
    /// The server's address, as `kindling serve` prints it.
    #[arg(long)]
    url: String,
    /// The run to contribute to; without it the server's first.
    #[arg(long, default_value = "")]
    run: String,
    /// Number of workers: each is a tab of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    count: u32,
    /// Where to train; `webgpu` fails where there is no adapter, `auto` goes to the CPU instead.
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    backend: BackendChoice,
    /// The browser to start; without it `KINDLING_BROWSER`, or a Chromium or Chrome that is found.
    #[arg(long, value_name = "PATH")]
    browser: Option<PathBuf>,
    /// Seconds to wait for a server that cannot be reached.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    max_wait: u64,
    /// Start the browser without its sandbox. As root it has none anyway.
    #[arg(long)]
    no_sandbox: bool,
    /// One more argument for the browser; may be repeated.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    browser_arg: Vec<String>,
}

/// Where to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendChoice {
    /// WebGPU where there is an adapter, else the CPU.
    Auto,
    /// WebGPU or nothing.
    Webgpu,
    /// The CPU.
    Cpu,
}

impl BackendChoice {
    /// As the page reads it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Webgpu => "webgpu",
            Self::Cpu => "cpu",
        }
    }
}

/// What the page says of itself, in the `data-` attributes of its root element.
#[derive(Debug, Default, Deserialize)]
struct PageState {
    phase: Option<String>,
    reason: Option<String>,
    samples: Option<String>,
    /// `true` while the page tries again by itself.
    retry: Option<String>,
}

/// Contributes until the run is done.
#[cfg(unix)]
pub async fn work(args: WorkerArgs) -> anyhow::Result<()> {
    let browser_path = match &args.browser {
        Some(path) => path.clone(),
        None => find_browser().context("no browser")?,
    };
    let mut options = devtools::Options::new(browser_path);
    options.no_sandbox = args.no_sandbox;
    options.arguments.clone_from(&args.browser_arg);
    let browser = devtools::Browser::launch(options).await?;
    let root = args.url.trim_end_matches('/');
    let path = if args.run.is_empty() { String::new() } else { format!("r/{}", args.run) };
    let url = format!("{root}/{path}#backend={}", args.backend.name());
    let max_wait = Duration::from_secs(args.max_wait);
    let pages: Vec<devtools::Page> = {
        let mut pages = Vec::new();
        for _ in 0..args.count {
            let page = browser.open_page().await?;
            start(&page, &url, max_wait).await?;
            pages.push(page);
        }
        pages
    };
    tracing::info!("{} workers contribute to {root}", pages.len());
    let watched = pages.iter().enumerate().map(|(index, page)| watch(index, page, max_wait));
    let result = tokio::select! {
        result = futures_util::future::try_join_all(watched) => result.map(drop),
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted before the run was done")),
    };
    browser.close().await;
    result
}

/// Contributes until the run is done.
#[cfg(not(unix))]
pub async fn work(_args: WorkerArgs) -> anyhow::Result<()> {
    bail!("headless workers need a Unix system: open the address in a browser instead")
}

/// Opens the page, waits until it is ready, and clicks its start button: consent is a trusted click.
#[cfg(unix)]
async fn start(page: &devtools::Page, url: &str, max_wait: Duration) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        match page.navigate(url).await {
            Ok(()) => break,
            Err(error) if began.elapsed() >= max_wait => {
                return Err(error.context(format!("no server at {url} for {} seconds", max_wait.as_secs())));
            }
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
    loop {
        match state(page).await?.phase.as_deref() {
            Some("ready") => return page.click("#start").await,
            Some("ended" | "finished") => return Ok(()),
            Some("unknown") => bail!("the server hosts no such run: {url}"),
            Some("blocked") => bail!("this browser cannot train: {}", state(page).await?.reason.unwrap_or_default()),
            _ if began.elapsed() >= max_wait => {
                bail!("the page at {url} does not become ready: is it Kindling's?")
            }
            _ => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

#[cfg(unix)]
async fn state(page: &devtools::Page) -> anyhow::Result<PageState> {
    Ok(serde_json::from_value(page.evaluate("({ ...document.documentElement?.dataset })").await?)?)
}

/// Waits until one page's run is done.
#[cfg(unix)]
async fn watch(index: usize, page: &devtools::Page, max_wait: Duration) -> anyhow::Result<()> {
    let mut reached = Instant::now();
    let mut last = String::new();
    loop {
        let state = state(page).await.with_context(|| format!("worker {}: its tab is gone", index + 1))?;
        let phase = state.phase.unwrap_or_default();
        let reason = state.reason.unwrap_or_default();
        match phase.as_str() {
            "ended" | "finished" => return Ok(()),
            "blocked" | "failed" => bail!("worker {}: {reason}", index + 1),
            "refused" if state.retry.as_deref() != Some("true") && reached.elapsed() > REFUSED_FOR_GOOD => {
                bail!("worker {}: {reason}", index + 1)
            }
            "refused" | "offline" | "connecting" if reached.elapsed() > max_wait => {
                bail!(
                    "worker {}: the server cannot be reached for {} seconds: {reason}",
                    index + 1,
                    max_wait.as_secs()
                );
            }
            "refused" | "offline" | "connecting" => {}
            _ => reached = Instant::now(),
        }
        if phase != last {
            let samples = state.samples.unwrap_or_default();
            tracing::debug!("worker {}: {phase} {reason} ({samples} samples)", index + 1);
            last = phase;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
