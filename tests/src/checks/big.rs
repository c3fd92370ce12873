//! A network of 80 MB: chunks, the upload budget, and a worker that leaves in the middle of an upload.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use kindling_shared::params::Encoded;
use kindling_shared::protocol::{CommitHeader, CommitId, ToServer};

use super::digits::small_digits;
use super::fashion::worker;
use crate::peer::Peer;
use crate::server::{HANG, Server, exact, number};
use crate::{Measured, Scale};

/// The digits with one wide hidden layer more: `64 n + n + n^2 + n + 10 n + 10` parameters.
fn wide(units: u32) -> String {
    small_digits(2, "communication_window = 8").replace(
        "{ kind = \"linear\", units = 32 }, { kind = \"relu\" }",
        &format!(
            "{{ kind = \"linear\", units = {units} }}, {{ kind = \"relu\" }}, \
             {{ kind = \"linear\", units = {units} }}, {{ kind = \"relu\" }}"
        ),
    )
}

/// Commits that wait for room in the server's upload budget.
fn uploads_waiting(server: &Server) -> anyhow::Result<u64> {
    let metrics = server.text("metrics")?;
    let value = metrics.lines().find_map(|line| line.strip_prefix("kindling_uploads_waiting "));
    value.and_then(|value| value.parse().ok()).context("no such metric")
}

pub async fn big(scale: Scale) -> anyhow::Result<Measured> {
    // 20.1 million parameters; in the short form 1.1 million. The budget holds one commit and a half.
    let (units, budget) = if scale == Scale::Full { (4_450, "120") } else { (1_000, "6") };
    let server = Server::start_with(&[&wide(units)], &["--upload-budget", budget]).await?;
    let parameters = number(&server.status()?, "/parameters");
    let mut leaver = Peer::join(&server, 1).await?;
    let lease = leaver.lease().await?;
    let (base, centre) = leaver.pull().await?;
    let update = Encoded::new(&vec![1e-6; centre.len()], leaver.plan.strategy.upload_codec);
    let chunks = update.chunks();
    let id = CommitId { lease: lease.id, sequence: 0 };
    let header =
        CommitHeader { id, base, steps: 1, samples: 32, loss: 1.0, compute_ms: 1, elements: centre.len() as u64 };
    leaver.send(&ToServer::Commit(header)).await?;
    let (first, rest) = chunks.split_at(chunks.len() / 2);
    for chunk in first {
        leaver.send(&ToServer::Tensor(chunk.clone())).await?;
    }
    // It holds its part of the budget now, so that nobody else's commit fits: both others must come to wait for room.
    let mut tab = worker(&server, &["--backend", "cpu"])?;
    let mut native = worker(&server, &["--native"])?;
    let mut rest = rest[..rest.len() - 1].iter();
    let mut heard = Instant::now();
    let began = Instant::now();
    let waiting = loop {
        let waiting = uploads_waiting(&server)?;
        if waiting >= 2 || began.elapsed() > HANG {
            break waiting;
        }
        // Slow, but not silent: a chunk now and then.
        if heard.elapsed() > Duration::from_secs(15)
            && let Some(chunk) = rest.next()
        {
            leaver.send(&ToServer::Tensor(chunk.clone())).await?;
            heard = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let before = server.status()?["commits"]["accepted"].clone();
    drop(leaver);
    let status = server.finished().await?;
    let codes = (native.wait().await?, tab.wait().await?);
    let workers = server.workers()?;
    let given: Vec<u64> = workers.iter().map(|worker| number(worker, "/samples_accepted")).collect();
    Ok(Measured::all(&[
        (chunks.len() > 1, format!("{parameters} parameters in {} chunks", chunks.len())),
        (
            waiting == 2 && before == 0,
            format!(
                "{waiting} commits waited for room and {before} were accepted while half a commit filled the budget"
            ),
        ),
        (
            given[0] == 0 && given[1] > 0 && given[2] > 0,
            format!("who left gave {}, the others {:?}", given[0], &given[1..]),
        ),
        exact(&status),
        (codes.0.success() && codes.1.success(), format!("workers: {}, {}", codes.0, codes.1)),
    ]))
}
