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

use crate::gateway::UploadBudget;
use crate::http::{Runs, missing_assets, router};
use crate::run::{Run, RunState};
use crate::runfile::{self, LoadedRun};
use crate::store::Store;

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
    /// Where results are written.
    #[arg(long, default_value = "kindling-data", value_name = "DIR")]
    data_dir: PathBuf,
    /// Train a finished run anew; its results are kept beside.
    #[arg(long)]
    fresh: bool,
    /// Open the page in this machine's browser.
    #[arg(long)]
    open: bool,
    /// Mebibytes of commits that may be in memory at a time, over all runs and workers.
    #[arg(long, default_value_t = 512, value_name = "MIB", value_parser = clap::value_parser!(usize))]
    upload_budget: usize,
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
    let store = Store::new(args.data_dir.clone());
    let runs = Arc::new(Runs::new(load_runs(&args, &store)?, UploadBudget::new(args.upload_budget << 20)));
    let listener = TcpListener::bind(args.listen).await.with_context(|| {
        format!("cannot listen on {}: choose another address or port with --listen ADDR:PORT", args.listen)
    })?;
    for run in runs.all() {
        store.make_way(&run.plan().id)?;
    }
    let url = format!("http://{}", listener.local_addr()?);
    println!("listening on {url}");
    if args.open
        && let Err(error) = open::that_detached(&url)
    {
        tracing::warn!("no browser opens {url}: {error}");
    }
    let ticking = tokio::spawn(tick(Arc::clone(&runs)));
    let (stop, stopped) = watch::channel(false);
    let exit_when_done = args.exit_when_done;
    let ending = tokio::spawn(end(Arc::clone(&runs), store, exit_when_done, stop));
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

fn load_runs(args: &ServeArgs, store: &Store) -> anyhow::Result<Vec<Arc<Run>>> {
    let loaded: Vec<LoadedRun> = if args.runs.is_empty() {
        vec![runfile::embedded_digits()?]
    } else {
        args.runs.iter().map(|file| runfile::load(file)).collect::<Result<_, _>>()?
    };
    for (index, run) in loaded.iter().enumerate() {
        if loaded[..index].iter().any(|other| other.plan.id == run.plan.id) {
            bail!("two run files have a name that makes the id {:?}: rename one of them", run.plan.id);
        }
    }
    for run in &loaded {
        store.refuse_finished(&run.plan.id, args.fresh)?;
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
async fn end(runs: Arc<Runs>, store: Store, exit_when_done: bool, stop: watch::Sender<bool>) -> anyhow::Result<()> {
    let done = async {
        let ended = futures_util::future::join_all(runs.all().iter().map(|run| keep_results(run, &store))).await;
        if !exit_when_done {
            std::future::pending::<()>().await;
        }
        ended.into_iter().collect::<anyhow::Result<()>>()
    };
    tokio::select! {
        result = done => {
            stop.send_replace(true);
            result
        }
        signal = signal() => {
            for run in runs.all() {
                run.restarting(BACK_IN_MS);
            }
            stop.send_replace(true);
            signal?;
            if exit_when_done { bail!("stopped before every run was finished") }
            Ok(())
        }
    }
}

/// Waits for the end of a run, writes what it gave, and says where.
async fn keep_results(run: &Arc<Run>, store: &Store) -> anyhow::Result<()> {
    run.ended().await;
    let status = run.status();
    if status.state == RunState::Failed {
        let what = format!("run {:?} failed: {}", status.id, status.stop_reason.unwrap_or_default());
        tracing::error!("{what}");
        bail!(what);
    }
    let (run, store) = (Arc::clone(run), store.clone());
    let written = tokio::task::spawn_blocking(move || store.write_results(&run)).await?;
    match written {
        Ok(folder) => {
            println!("{}", folder.display());
            Ok(())
        }
        Err(error) => {
            // The server goes on: the model can still be fetched from it.
            tracing::error!("{error:#}");
            Err(error)
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
