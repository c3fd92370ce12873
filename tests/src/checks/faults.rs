//! Tabs that are killed, frozen, reloaded and duplicated.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::digits::{ONE_STEP, small_digits};
use crate::process::{below, is_alive, renderers, signal};
use crate::server::{HANG, Server, exact, number};
use crate::{Measured, Scale, tab};

fn worker_of(workers: &[Value], id: u64) -> &Value {
    workers.iter().find(|worker| worker["id"] == id).unwrap_or(&Value::Null)
}

/// Waits until worker `id` has a commit in the ledger and a lease in its hands.
async fn in_mid_lease(server: &Server, id: u64) -> anyhow::Result<()> {
    let reached = |workers: &[Value]| {
        let worker = worker_of(workers, id);
        number(worker, "/commits_accepted") > 0 && number(worker, "/samples_leased") > 0
    };
    server.until_workers("a worker in the middle of a lease", reached).await.map(drop)
}

pub async fn killed(_: Scale) -> anyhow::Result<Measured> {
    let server = Server::start(&small_digits(24, ONE_STEP)).await?;
    let doomed = tab::browser(&[]).await?;
    tab::contribute(&doomed, &server).await?;
    in_mid_lease(&server, 1).await?;
    signal("KILL", &renderers(&doomed)?)?;
    let survivor = tab::browser(&[]).await?;
    tab::contribute(&survivor, &server).await?;
    let status = server.finished().await?;
    let workers = server.workers()?;
    let (dead, alive) =
        (number(worker_of(&workers, 1), "/samples_accepted"), number(worker_of(&workers, 2), "/samples_accepted"));
    doomed.close().await;
    survivor.close().await;
    Ok(Measured::all(&[
        exact(&status),
        (dead > 0 && alive > 0, format!("the killed tab gave {dead}, the other {alive}")),
    ]))
}

/// `kindling worker` dies by SIGKILL: it can tidy nothing up, and its browsers must go all the same.
pub async fn orphans(_: Scale) -> anyhow::Result<Measured> {
    let server = Server::start(&small_digits(1_000, "")).await?;
    let mut worker = super::fashion::worker(&server, &["--backend", "cpu"])?;
    in_mid_lease(&server, 1).await?;
    let browsers = below(worker.id().context("the worker is gone")?)?;
    worker.kill().await?;
    let began = Instant::now();
    while browsers.iter().any(|(id, _)| is_alive(*id)) && began.elapsed() < HANG {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let left: Vec<&str> =
        browsers.iter().filter(|(id, _)| is_alive(*id)).map(|(_, command)| command.as_str()).collect();
    Ok(Measured::all(&[
        (browsers.len() > 1, format!("{} processes of its browser ran", browsers.len())),
        (left.is_empty(), format!("left over: {left:?}")),
    ]))
}

/// Stops worker 1 while it holds a lease: between two leases there is no deadline to pass.
async fn freeze_in_mid_lease(server: &Server, processes: &[u32]) -> anyhow::Result<()> {
    loop {
        signal("STOP", processes)?;
        // What it had sent before is taken by now.
        server.until_workers("worker 1", |workers| !worker_of(workers, 1).is_null()).await?;
        if number(worker_of(&server.workers()?, 1), "/samples_leased") > 0 {
            return Ok(());
        }
        signal("CONT", processes)?;
        in_mid_lease(server, 1).await?;
    }
}

pub async fn frozen(_: Scale) -> anyhow::Result<Measured> {
    let server = Server::start(&small_digits(24, ONE_STEP)).await?;
    let ice = tab::browser(&[]).await?;
    tab::contribute(&ice, &server).await?;
    in_mid_lease(&server, 1).await?;
    let stopped = renderers(&ice)?;
    freeze_in_mid_lease(&server, &stopped).await?;
    let warm = tab::browser(&[]).await?;
    tab::contribute(&warm, &server).await?;
    let returned = server
        .until_workers("the deadline of the frozen tab", |workers| {
            number(worker_of(workers, 1), "/samples_leased") == 0
        })
        .await?;
    let before = number(worker_of(&returned, 1), "/samples_accepted");
    signal("CONT", &stopped)?;
    let status = server.finished().await?;
    ice.close().await;
    warm.close().await;
    let returned = server.get(&format!("runs/{}/workers", server.run))?;
    let other = number(worker_of(returned.as_array().map_or(&[], Vec::as_slice), 2), "/samples_accepted");
    Ok(Measured::all(&[
        exact(&status),
        (before > 0 && other > 0, format!("the frozen tab had given {before}, the other gave {other}")),
    ]))
}

pub async fn reload(_: Scale) -> anyhow::Result<Measured> {
    let server = Server::start(&small_digits(24, ONE_STEP)).await?;
    let browser = tab::browser(&[]).await?;
    let page = tab::contribute(&browser, &server).await?;
    in_mid_lease(&server, 1).await?;
    let key = page.evaluate("localStorage.getItem('kindling.contributor')").await?;
    page.call("Page.reload", json!({})).await?;
    tab::wait_for_phase(&page, &["ready"]).await?;
    page.click("#start").await?;
    let status = server.finished().await?;
    let workers = server.workers()?;
    let same = page.evaluate("localStorage.getItem('kindling.contributor')").await? == key;
    browser.close().await;
    Ok(Measured::all(&[
        (workers.len() == 1, format!("{} worker", workers.len())),
        (same && key.is_string(), format!("same contributor: {same}")),
        exact(&status),
    ]))
}

pub async fn twin(_: Scale) -> anyhow::Result<Measured> {
    let server = Server::start(&small_digits(48, ONE_STEP)).await?;
    let browser = tab::browser(&[]).await?;
    let page = tab::contribute(&browser, &server).await?;
    in_mid_lease(&server, 1).await?;
    // A window that a page opens itself gets a copy of its session storage, as a duplicated tab does.
    let open = "void window.open(location.href, '_blank')";
    page.call("Runtime.evaluate", json!({ "expression": open, "userGesture": true })).await?;
    let twin = browser.attach_to_new_page(&page).await?;
    tab::wait_for_phase(&twin, &["ready"]).await?;
    let copied = twin.evaluate("sessionStorage.getItem('kindling.worker') !== null").await?;
    twin.click("#start").await?;
    server
        .until_workers("the second worker's first commit", |workers| {
            number(worker_of(workers, 2), "/commits_accepted") > 0
        })
        .await?;
    let status = server.finished().await?;
    let workers = server.workers()?;
    let contributors = workers.iter().map(|worker| worker["contributor"].to_string());
    let same = contributors.collect::<std::collections::BTreeSet<_>>().len() == 1;
    browser.close().await;
    Ok(Measured::all(&[
        (copied == true, format!("the twin holds a copy of the worker's identity: {copied}")),
        (workers.len() == 2, format!("{} workers", workers.len())),
        (same, format!("of one contributor: {same}")),
        exact(&status),
    ]))
}
