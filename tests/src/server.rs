//! The real binary under test, on a free port of this machine.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Only a hang takes this long.
pub const HANG: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The server's binary, as xtask built it.
pub fn binary() -> anyhow::Result<std::path::PathBuf> {
    let path = std::env::var_os("KINDLING_SERVER").context("run this by `cargo xtask test` or `verify`")?;
    Ok(path.into())
}

/// A running server with one run.
pub struct Server {
    child: Child,
    /// `http://127.0.0.1:PORT`
    pub url: String,
    /// The run's id.
    pub run: String,
    _folder: TempDir,
}

impl Server {
    /// Hosts the run of this run-file text.
    pub async fn start(run_file: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("run.toml");
        std::fs::write(&path, run_file)?;
        Self::spawn(Some(&path), folder, false).await
    }

    /// The same, with `--exit-when-done`: it is gone when the run is.
    pub async fn start_until_done(run_file: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("run.toml");
        std::fs::write(&path, run_file)?;
        Self::spawn(Some(&path), folder, true).await
    }

    /// Hosts the embedded demo.
    pub async fn demo() -> anyhow::Result<Self> {
        Self::spawn(None, tempfile::tempdir()?, false).await
    }

    async fn spawn(run_file: Option<&Path>, folder: TempDir, exit_when_done: bool) -> anyhow::Result<Self> {
        let mut child = Command::new(binary()?)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(exit_when_done.then_some("--exit-when-done"))
            .args(run_file)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(HANG, lines.next_line()).await??.context("the server printed nothing")?;
        let url =
            first.strip_prefix("listening on ").with_context(|| format!("the first line is {first:?}"))?.to_owned();
        let mut server = Self { child, url, run: String::new(), _folder: folder };
        let runs = server.get("runs")?;
        runs.pointer("/0/id").and_then(Value::as_str).context("no run")?.clone_into(&mut server.run);
        Ok(server)
    }

    /// `GET /api/v1/{path}` as JSON.
    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        Ok(ureq::get(&format!("{}/api/v1/{path}", self.url)).call()?.body_mut().read_json()?)
    }

    /// The bytes at `/api/v1/{path}`.
    pub fn bytes(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        Ok(ureq::get(&format!("{}/api/v1/{path}", self.url)).call()?.body_mut().read_to_vec()?)
    }

    /// The run's status.
    pub fn status(&self) -> anyhow::Result<Value> {
        self.get(&format!("runs/{}", self.run))
    }

    /// The run's workers.
    pub fn workers(&self) -> anyhow::Result<Vec<Value>> {
        let workers = self.get(&format!("runs/{}/workers", self.run))?;
        Ok(workers.as_array().cloned().unwrap_or_default())
    }

    /// Waits until `reached` says so of the run's status.
    pub async fn until(&self, what: &str, reached: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let began = Instant::now();
        loop {
            let status = self.status()?;
            if reached(&status) {
                return Ok(status);
            }
            if began.elapsed() > HANG {
                bail!("waited {} s for: {what}; the run is {status}", HANG.as_secs());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until `reached` says so of the run's workers.
    pub async fn until_workers(&self, what: &str, reached: impl Fn(&[Value]) -> bool) -> anyhow::Result<Vec<Value>> {
        let began = Instant::now();
        loop {
            let workers = self.workers()?;
            if reached(&workers) {
                return Ok(workers);
            }
            if began.elapsed() > HANG {
                bail!("waited {} s for: {what}; the workers are {workers:?}", HANG.as_secs());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits for the end of the run; returns its last status.
    pub async fn finished(&self) -> anyhow::Result<Value> {
        self.until("the end of the run", |status| status["state"] == "finished").await
    }

    /// Waits for the process to exit by itself; returns its code.
    pub async fn exit(mut self) -> anyhow::Result<i32> {
        let status = tokio::time::timeout(HANG, self.child.wait()).await??;
        status.code().context("the server was killed")
    }
}

/// A whole number of a status.
pub fn number(status: &Value, key: &str) -> u64 {
    status.pointer(key).and_then(Value::as_u64).unwrap_or(0)
}

/// Whether the ledger is exact: every sample counted once an epoch, none in flight.
pub fn exact(status: &Value) -> (bool, String) {
    let expected = number(status, "/epochs") * number(status, "/train_samples");
    let trained = number(status, "/samples_trained");
    let in_flight = number(status, "/samples_in_flight");
    (
        trained == expected && in_flight == 0,
        format!("samples_trained {trained} of exactly {expected}, {in_flight} in flight"),
    )
}
