//! `kindling serve`: load the runs, listen, and stop when told to or when done.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::serve::ListenerExt as _;
use clap::Args;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::http::{Runs, missing_assets, router};
use crate::run::{Run, RunState};
use crate::runfile::{self, LoadedRun};

/// Late leases are looked for this often.
const TICK: Duration = Duration::from_millis(500);
/// Open sockets get this long to take the goodbye.
const GOODBYE: Duration = Duration::from_secs(3);
/// What workers are told of when to come back after a stop.
const BACK_IN_MS: u32 = 3_000;

/// Hosts runs.
#[derive(Args, Debug)]
#[command(after_help = "Example: kindling serve digits.toml --listen 127.0.0.1:7878")]
pub struct ServeArgs {
    /// Run files; without one, the embedded digits demo.
    #[arg(value_name = "RUN.toml")]
    runs: Vec<PathBuf>,
    /// Address and port; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:7878", value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Exit when every run is finished.
    #[arg(long)]
    exit_when_done: bool,
}

/// Serves until it is stopped; with `--exit-when-done`, until every run is finished.
pub async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let missing = missing_assets();
    if !missing.is_empty() {
        tracing::warn!(
            "this binary has no pages ({} missing): build them with `cargo xtask build`",
            missing.join(", ")
        );
    }
    let runs = Arc::new(Runs::new(load_runs(&args.runs)?));
    let listener = TcpListener::bind(args.listen).await.with_context(|| {
        format!("cannot listen on {}: choose another address or port with --listen ADDR:PORT", args.listen)
    })?;
    println!("listening on http://{}", listener.local_addr()?);
    let ticking = tokio::spawn(tick(Arc::clone(&runs)));
    let (stop, stopped) = watch::channel(false);
    let exit_when_done = args.exit_when_done;
    let ending = tokio::spawn(end(Arc::clone(&runs), exit_when_done, stop));
    let graceful = {
        let mut stopped = stopped.clone();
        async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        }
    };
    let server = axum::serve(listener.tap_io(without_delay), router(runs)).with_graceful_shutdown(graceful);
    let mut stopped = stopped;
    tokio::select! {
        result = server => result.context("the server failed")?,
        // Watchers' event streams never end by themselves.
        () = async {
            let _ = stopped.wait_for(|stopped| *stopped).await;
            tokio::time::sleep(GOODBYE).await;
        } => {}
    }
    ticking.abort();
    ending.await.context("the task that watches for the end failed")?
}

/// Exchanges are small messages that wait for their answer: Nagle's algorithm would hold them for 40 ms.
fn without_delay(socket: &mut TcpStream) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::warn!("TCP_NODELAY cannot be set, exchanges will be slow: {error}");
    }
}

fn load_runs(files: &[PathBuf]) -> anyhow::Result<Vec<Arc<Run>>> {
    let loaded: Vec<LoadedRun> = if files.is_empty() {
        vec![runfile::embedded_digits()?]
    } else {
        files.iter().map(|file| runfile::load(file)).collect::<Result<_, _>>()?
    };
    for (index, run) in loaded.iter().enumerate() {
        if loaded[..index].iter().any(|other| other.plan.id == run.plan.id) {
            bail!("two run files have a name that makes the id {:?}: rename one of them", run.plan.id);
        }
    }
    loaded.into_iter().map(|run| Run::new(run, 0)).collect()
}

async fn tick(runs: Arc<Runs>) {
    let mut interval = tokio::time::interval(TICK);
    loop {
        interval.tick().await;
        for run in runs.all() {
            run.tick();
        }
    }
}

/// Waits for the end: a signal, or (where asked for) the end of every run.
async fn end(runs: Arc<Runs>, exit_when_done: bool, stop: watch::Sender<bool>) -> anyhow::Result<()> {
    let done = async {
        for run in runs.all() {
            run.ended().await;
        }
        if !exit_when_done {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = done => {
            stop.send_replace(true);
            let failed = runs.all().iter().map(|run| run.status()).find(|status| status.state == RunState::Failed);
            if let Some(status) = failed {
                bail!("run {:?} failed: {}", status.id, status.stop_reason.unwrap_or_default());
            }
            Ok(())
        }
        signal = signal() => {
            for run in runs.all() {
                run.restarting(BACK_IN_MS);
            }
            stop.send_replace(true);
            signal?;
            if exit_when_done { bail!("stopped before the run was finished") }
            Ok(())
        }
    }
}

#[cfg(unix)]
async fn signal() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        result = tokio::signal::ctrl_c() => Ok(result?),
    }
}

#[cfg(not(unix))]
async fn signal() -> anyhow::Result<()> {
    Ok(tokio::signal::ctrl_c().await?)
}
