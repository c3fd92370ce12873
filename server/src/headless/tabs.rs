//! Workers in headless browsers: each is a tab of its own, started by a trusted click, watched by what its page says.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::{LOOK_EVERY, WorkerArgs, devtools, find_browser};

/// A refusal that the page does not lift by itself in this time stays.
const REFUSED_FOR_GOOD: Duration = Duration::from_secs(5);

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
pub(super) async fn work(args: &WorkerArgs) -> anyhow::Result<()> {
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

/// Opens the page, waits until it is ready, and clicks its start button: consent is a trusted click.
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

async fn state(page: &devtools::Page) -> anyhow::Result<PageState> {
    Ok(serde_json::from_value(page.evaluate("({ ...document.documentElement?.dataset })").await?)?)
}

/// Waits until one page's run is done.
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
