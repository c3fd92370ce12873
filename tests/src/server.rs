//! The real binary under test, on a free port of this machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Only a hang takes this long.
pub const HANG: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The server's binary, as xtask built it.
pub fn binary() -> anyhow::Result<PathBuf> {
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
    folder: TempDir,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// Hosts the run of this run-file text.
    pub async fn start(run_file: &str) -> anyhow::Result<Self> {
        Self::start_with(&[run_file], &[]).await
    }

    /// The same, with `--exit-when-done`: it is gone when the run is.
    pub async fn start_until_done(run_file: &str) -> anyhow::Result<Self> {
        Self::start_with(&[run_file], &["--exit-when-done"]).await
    }

    /// Hosts several runs, with more arguments for `kindling serve`.
    pub async fn start_with(run_files: &[&str], arguments: &[&str]) -> anyhow::Result<Self> {
        Self::start_in(run_files, arguments, &[]).await
    }

    /// The same, with environment variables that the run files name.
    pub async fn start_in(
        run_files: &[&str],
        arguments: &[&str],
        environment: &[(&str, &Path)],
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut paths = Vec::new();
        for (index, text) in run_files.iter().enumerate() {
            let path = folder.path().join(format!("run-{index}.toml"));
            std::fs::write(&path, text)?;
            paths.push(path);
        }
        Self::spawn(&paths, arguments, environment, folder).await
    }

    /// Hosts the embedded demo.
    pub async fn demo() -> anyhow::Result<Self> {
        Self::spawn(&[], &[], &[], tempfile::tempdir()?).await
    }

    /// Hosts a run file where it is.
    pub async fn host(run_file: &Path) -> anyhow::Result<Self> {
        Self::spawn(&[std::path::absolute(run_file)?], &[], &[], tempfile::tempdir()?).await
    }

    async fn spawn(
        run_files: &[PathBuf],
        arguments: &[&str],
        environment: &[(&str, &Path)],
        folder: TempDir,
    ) -> anyhow::Result<Self> {
        let mut child = Command::new(binary()?)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .args(run_files)
            .envs(environment.iter().copied())
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(HANG, lines.next_line()).await??.context("the server printed nothing")?;
        let url =
            first.strip_prefix("listening on ").with_context(|| format!("the first line is {first:?}"))?.to_owned();
        let mut server = Self { child, url, run: String::new(), folder, lines };
        let runs = server.get("runs")?;
        runs.pointer("/0/id").and_then(Value::as_str).context("no run")?.clone_into(&mut server.run);
        Ok(server)
    }

    /// The folder of the finished run's results, as the server prints it on its next line.
    pub async fn results(&mut self) -> anyhow::Result<PathBuf> {
        let line = tokio::time::timeout(HANG, self.lines.next_line()).await??.context("the server ended")?;
        Ok(self.folder.path().join(line))
    }

    /// The server's process.
    pub fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    /// `GET /api/v1/{path}` as JSON.
    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        Ok(ureq::get(&format!("{}/api/v1/{path}", self.url)).call()?.body_mut().read_json()?)
    }

    /// The bytes at `/api/v1/{path}`.
    pub fn bytes(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        Ok(ureq::get(&format!("{}/api/v1/{path}", self.url)).call()?.body_mut().read_to_vec()?)
    }

    /// The events that the run keeps, as its event stream gives them to a newcomer.
    pub fn events(&self) -> anyhow::Result<Vec<Value>> {
        let url = format!("{}/api/v1/runs/{}/events", self.url, self.run);
        let mut stream = std::io::BufReader::new(ureq::get(&url).call()?.into_body().into_reader());
        let (mut events, mut line, mut log) = (Vec::new(), String::new(), false);
        // The first state comes behind all that is kept.
        while std::io::BufRead::read_line(&mut stream, &mut line)? > 0 {
            match line.trim_end().split_once(": ").or_else(|| line.trim_end().split_once(':')) {
                Some(("event", "state")) => break,
                Some(("event", kind)) => log = kind == "log",
                Some(("data", data)) if log => events.push(serde_json::from_str(data)?),
                _ => {}
            }
            line.clear();
        }
        Ok(events)
    }

    /// The text at `/{path}`.
    pub fn text(&self, path: &str) -> anyhow::Result<String> {
        Ok(ureq::get(&format!("{}/{path}", self.url)).call()?.body_mut().read_to_string()?)
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
