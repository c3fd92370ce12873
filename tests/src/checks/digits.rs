//! The demo, and small runs of the same data.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::fashion::{ONE_TAB, TWO_TABS, worker};
use crate::server::{HANG, Server, binary, exact, number};
use crate::{Measured, Scale, tab};

/// A run of the digits that a test can wait for: a network of one hidden layer.
pub fn small_digits(epochs: u32, more: &str) -> String {
    format!(
        r#"
name = "digits small"
seed = 7
[data]
format = "digits"
validation = 0.2
transforms = [{{ kind = "scale", by = 0.0625 }}]
shard_samples = 64
[model]
layers = [{{ kind = "flatten" }}, {{ kind = "linear", units = 32 }}, {{ kind = "relu" }}, {{ kind = "linear", units = 10 }}]
[worker]
batch_size = 32
optimizer = {{ kind = "adam", learning_rate = 0.003 }}
[strategy]
{more}
[stop]
epochs = {epochs}
"#
    )
}

/// Windows of one step, so that a run takes long enough to disturb it.
pub const ONE_STEP: &str = "communication_window = 1";

pub async fn clone(scale: Scale) -> anyhow::Result<Measured> {
    if scale == Scale::Full {
        return clean_clone().await;
    }
    let server = Server::start_until_done(&small_digits(8, "")).await?;
    let browser = tab::browser(&[]).await?;
    let one = tab::contribute(&browser, &server).await?;
    let two = tab::contribute(&browser, &server).await?;
    let mut samples = Vec::new();
    for page in [&one, &two] {
        let data = tab::wait_for_phase(page, &["ended"]).await?;
        samples.push(data["samples"].as_str().and_then(|samples| samples.parse::<u64>().ok()).unwrap_or(0));
    }
    browser.close().await;
    let code = server.exit().await?;
    Ok(Measured::all(&[
        (samples.iter().all(|samples| *samples > 0), format!("the tabs gave {samples:?} samples")),
        (samples.iter().sum::<u64>() == 8 * 1_438, "which is every sample of 8 epochs once".into()),
        (code == 0, format!("the server exits {code} by itself")),
    ]))
}

/// The README's first command, from a clone that shares nothing with this tree.
async fn clean_clone() -> anyhow::Result<Measured> {
    let folder = tempfile::tempdir()?;
    let clone = folder.path().join("kindling");
    let source = std::env::current_dir()?;
    let cloned = Command::new("git").args(["clone", "--quiet"]).args([&source, &clone]).status().await?;
    if !cloned.success() {
        bail!("git clone: {cloned}");
    }
    let began = Instant::now();
    let mut demo = Command::new("cargo")
        .args(["xtask", "demo", "--listen", "127.0.0.1:0", "--exit-when-done"])
        .current_dir(&clone)
        .env("CARGO_TARGET_DIR", folder.path().join("target"))
        .env_remove("KINDLING_SERVER")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(demo.stdout.take().context("stdout is piped")?).lines();
    let url = loop {
        let line = lines.next_line().await?.context("the demo ended before it listened")?;
        if let Some(url) = line.strip_prefix("listening on ") {
            break url.to_owned();
        }
    };
    let built = began.elapsed();
    let workers =
        Command::new(binary()?).args(["worker", "--url", &url, "--count", "2", "--backend", "cpu"]).status().await?;
    let status = tokio::time::timeout(HANG, demo.wait()).await??;
    Ok(Measured::all(&[
        (true, format!("listening {} s after the clone", built.as_secs())),
        (workers.success(), format!("two tabs: {workers}")),
        (status.success(), format!("the demo: {status}")),
    ]))
}

pub async fn digits(scale: Scale) -> anyhow::Result<Measured> {
    if scale == Scale::Short {
        return small_with_two_workers().await;
    }
    let server = Server::demo().await?;
    let mut first = worker(&server, ONE_TAB)?;
    server.until("the first commit", |status| number(status, "/version") > 0).await?;
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs(15)).await;
    let mut second = worker(&server, ONE_TAB)?;
    let status = server.finished().await?;
    let took = began.elapsed().as_secs();
    let (first, second) = (first.wait().await?, second.wait().await?);
    let accuracy = status["metrics"]["accuracy"].as_f64().unwrap_or(0.0);
    let commits = number(&status, "/commits/accepted");
    let late = server.workers()?.last().map_or(0, |worker| number(worker, "/samples_accepted"));
    let share = late as f64 / number(&status, "/samples_trained").max(1) as f64;
    Ok(Measured::all(&[
        (accuracy >= 0.96, format!("accuracy {:.2} %", accuracy * 100.0)),
        exact(&status),
        (took >= 90, format!("{took} s")),
        (commits >= 100, format!("{commits} commits")),
        (share >= 0.2, format!("the tab that joined after 15 s gave {:.0} %", share * 100.0)),
        (first.success() && second.success(), format!("workers: {first}, {second}")),
    ]))
}

async fn small_with_two_workers() -> anyhow::Result<Measured> {
    let server = Server::start(&small_digits(25, "")).await?;
    let mut workers = worker(&server, TWO_TABS)?;
    let status = server.finished().await?;
    let accuracy = status["metrics"]["accuracy"].as_f64().unwrap_or(0.0);
    let code = workers.wait().await?;
    Ok(Measured::all(&[
        (accuracy >= 0.92, format!("accuracy {:.2} %", accuracy * 100.0)),
        exact(&status),
        (code.success(), format!("kindling worker: {code}")),
    ]))
}

pub async fn lone(_: Scale) -> anyhow::Result<Measured> {
    let server = Server::start(&small_digits(6, "")).await?;
    let began = server.until("the first evaluation", |status| status["loss"]["validation"].is_f64()).await?;
    let mut lone = worker(&server, ONE_TAB)?;
    let status = server.finished().await?;
    let code = lone.wait().await?;
    let loss = |status: &serde_json::Value| status["loss"]["validation"].as_f64().unwrap_or(f64::NAN);
    let (first, last) = (loss(&began), loss(&status));
    Ok(Measured::all(&[
        (last < 0.6 * first, format!("validation loss from {first:.3} to {last:.3}")),
        exact(&status),
        (code.success(), format!("kindling worker: {code}")),
    ]))
}
