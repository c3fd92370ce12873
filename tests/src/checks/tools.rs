//! Two runs at once, and everything that tells of them.

use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use super::digits::{ONE_STEP, small_digits};
use super::fashion::worker;
use crate::server::{Server, binary, number};
use crate::{Measured, Scale, tab};

/// `kindling status` of a server.
fn status(server: &Server, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let output = Command::new(binary()?).args(["status", &server.url]).args(arguments).output()?;
    Ok((output.status.code(), String::from_utf8(output.stdout)? + &String::from_utf8_lossy(&output.stderr)))
}

/// The value of a metric's line for a run.
fn metric(text: &str, name: &str, run: &str) -> Option<f64> {
    let start = format!("{name}{{run=\"{run}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&start)).and_then(|value| value.parse().ok())
}

pub async fn tools(_: Scale) -> anyhow::Result<Measured> {
    // Neither ends by itself: what is looked at must be looked at while both train.
    let first = small_digits(1_000_000, ONE_STEP).replace("digits small", "first run");
    let second =
        small_digits(1_000_000, "rule = \"agn\"\ncommunication_window = 1").replace("digits small", "second run");
    let mut one = Server::start_with(&[&first, &second], &[]).await?;
    let runs = one.get("runs")?;
    let ids: Vec<&str> = runs.as_array().context("no list")?.iter().filter_map(|run| run["id"].as_str()).collect();
    let listed = ids == ["first-run", "second-run"];
    let browser = tab::browser(&[]).await?;
    let mut dashboards = Vec::new();
    for run in ["first-run", "second-run"] {
        let page = browser.open_page().await?;
        page.navigate(&format!("{}/r/{run}/dashboard", one.url)).await?;
        tab::wait_for_words(&page, "Waiting for the first contributor").await?;
        dashboards.push((run, page));
    }
    let _first = worker(&one, &["--native"])?;
    "second-run".clone_into(&mut one.run);
    let _second = worker(&one, &["--native"])?;
    let mut verdicts = Vec::new();
    for (run, page) in &dashboards {
        let name = run.replace('-', " ");
        let shown = tab::wait_for_words(page, "Learning: ").await?;
        verdicts.push((shown.contains(&name), format!("the dashboard of {run} shows {name:?}")));
    }
    // While both train: every tool must lie between two looks at the API.
    let before: Vec<Value> = ids.iter().map(|id| one.get(&format!("runs/{id}"))).collect::<Result<_, _>>()?;
    let (code, lines) = status(&one, &[])?;
    let (_, json) = status(&one, &["--json", "--run", "second-run"])?;
    let metrics = one.text("metrics")?;
    let after: Vec<Value> = ids.iter().map(|id| one.get(&format!("runs/{id}"))).collect::<Result<_, _>>()?;
    let running = before.iter().chain(&after).all(|run| run["state"] == "running");
    let within = |index: usize, found: Option<f64>| {
        let (low, high) = (number(&before[index], "/samples_trained"), number(&after[index], "/samples_trained"));
        found.is_some_and(|found| low as f64 <= found && found <= high as f64)
    };
    let json: Value = serde_json::from_str(&json).with_context(|| json.clone())?;
    let from_status = json.pointer("/0/samples_trained").and_then(Value::as_f64);
    let scraped: Vec<Option<f64>> =
        ids.iter().map(|id| metric(&metrics, "kindling_samples_trained_total", id)).collect();
    let right_lines = lines.lines().count() == 2 && lines.contains("first-run: running") && lines.contains("rule agn");
    let (unknown_code, unknown) = status(&one, &["--run", "nowhere"])?;
    let ready = one.text("readyz")?;
    let mut facts = vec![
        (listed, format!("runs: {ids:?}")),
        (running, "both were running".to_owned()),
        (code == Some(0) && right_lines, format!("kindling status: {lines:?}")),
        (
            json.as_array().is_some_and(|runs| runs.len() == 1) && within(1, from_status),
            format!("status --json: {from_status:?}"),
        ),
        (within(0, scraped[0]) && within(1, scraped[1]), format!("/metrics: {scraped:?}")),
        (
            unknown_code == Some(1) && unknown.contains("nowhere"),
            format!("an unknown run: {unknown_code:?} {:?}", unknown.trim()),
        ),
        (ready == "ready", format!("/readyz: {ready}")),
    ];
    facts.extend(verdicts);
    for run in ["first-run", "second-run"] {
        run.clone_into(&mut one.run);
        one.until("a closed epoch", |status| number(status, "/epoch") >= 1).await?;
        facts.push(events_tell_the_truth(&one)?);
    }
    browser.close().await;
    Ok(Measured::all(&facts))
}

/// The events that are kept: their ids grow, and they name every epoch that the status has closed.
fn events_tell_the_truth(server: &Server) -> anyhow::Result<(bool, String)> {
    let before = number(&server.status()?, "/epoch");
    let events = server.events()?;
    let after = number(&server.status()?, "/epoch");
    let ids: Vec<u64> = events.iter().map(|event| number(event, "/id")).collect();
    let closed = events.iter().filter(|event| event["kind"] == "epoch_closed").count() as u64;
    let right = ids.is_sorted() && closed > 0 && before <= closed && closed <= after;
    let words =
        format!("{}: {} events kept, {closed} epochs closed (status: {before} to {after})", server.run, events.len());
    Ok((right, words))
}
