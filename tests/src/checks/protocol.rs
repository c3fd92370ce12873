//! What a worker that is late, or of another version, is told.

use futures_util::StreamExt as _;
use kindling_shared::protocol::{Advice, CommitId, RejectCode, Verdict, close};
use tokio_tungstenite::tungstenite::Message;

use super::digits::small_digits;
use crate::peer::{self, Peer};
use crate::server::{HANG, Server};
use crate::{Measured, Scale};

pub async fn stale(_: Scale) -> anyhow::Result<Measured> {
    let server = Server::start(&small_digits(50, "")).await?;
    let (mut slow, mut fast) = (Peer::join(&server, 1).await?, Peer::join(&server, 2).await?);
    let held = slow.lease().await?;
    let (base, centre) = slow.pull().await?;
    let delta = vec![1e-6; centre.len()];
    let bound = kindling_shared::strategy::staleness_bound(2);
    let mut commits = 0;
    while commits <= bound {
        let lease = fast.lease().await?;
        for sequence in 0..peer::samples(&lease) / 32 {
            let (base, _) = fast.pull().await?;
            fast.commit(CommitId { lease: lease.id, sequence }, base, 32, &delta).await?;
            commits += 1;
        }
    }
    let first = slow.commit(CommitId { lease: held.id, sequence: 0 }, base, 32, &delta).await?;
    let (newest, _) = slow.pull().await?;
    let second = slow.commit(CommitId { lease: held.id, sequence: 1 }, newest, 32, &delta).await?;
    let refused = matches!(&first, Verdict::Rejected { refusal, .. }
        if refusal.code == RejectCode::Stale && refusal.advice == Advice::Pull);
    let accepted = matches!(&second, Verdict::Accepted { staleness: 0, .. });
    let rejected = server.status()?["commits"]["rejected"].clone();
    Ok(Measured::all(&[
        (refused, format!("{commits} versions late (bound {bound}): {first:?}")),
        (accepted, format!("after the pull: {second:?}")),
        (rejected == 1, format!("{rejected} commit rejected in all")),
    ]))
}

pub async fn versions(_: Scale) -> anyhow::Result<Measured> {
    let server = Server::start(&small_digits(2, "")).await?;
    let mut socket = peer::connect(&server, "kindling.v2").await?;
    let message = tokio::time::timeout(HANG, socket.next()).await?;
    let (code, reason) = match message {
        Some(Ok(Message::Close(Some(frame)))) => (u16::from(frame.code), frame.reason.to_string()),
        other => (0, format!("{other:?}")),
    };
    let readable = reason.contains("kindling.v1") && reason.contains("kindling.v2") && reason.contains("reload");
    Ok(Measured::all(&[(code == close::VERSION_MISMATCH, format!("close code {code}")), (readable, reason)]))
}
