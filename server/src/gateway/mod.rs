//! The gateway: one task for each worker's socket.
//!
//! It shakes hands, decodes and checks frames, keeps the limits, and hands events to the run. It decides nothing about
//! work. Whatever a worker sends is answered, and a refusal says why before the socket closes.

mod budget;
mod incoming;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::http::header::SEC_WEBSOCKET_PROTOCOL;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use kindling_shared::protocol::{
    Refusal, RejectCode, SUBPROTOCOL, SUBPROTOCOL_FAMILY, ToServer, ToWorker, close, limits,
};

use crate::http::Runs;
use crate::run::{OutboxReceiver, Outgoing, Run, outbox};
pub use budget::{Grant, UploadBudget};
use incoming::Incoming;

/// Takes the upgrade of `/ws/worker`.
pub fn accept(runs: Arc<Runs>, headers: &HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    let offered: Vec<String> = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|protocol| protocol.trim().to_owned())
        .collect();
    let upgrade = upgrade
        .max_message_size(limits::MESSAGE_BYTES)
        .max_frame_size(limits::MESSAGE_BYTES)
        .read_buffer_size(limits::READ_BUFFER_BYTES)
        .max_write_buffer_size(limits::OUTBOX_BYTES);
    if offered.iter().any(|protocol| protocol == SUBPROTOCOL) {
        return upgrade.protocols([SUBPROTOCOL]).on_upgrade(move |socket| serve(runs, socket));
    }
    // The browser shows a close reason only of a socket that opened: take the other end's own protocol, then refuse.
    let other = offered.into_iter().find(|protocol| protocol.starts_with(SUBPROTOCOL_FAMILY));
    let spoken = other.clone().unwrap_or_else(|| "no version of it".to_owned());
    let upgrade = if let Some(other) = other { upgrade.protocols([other]) } else { upgrade };
    upgrade.on_upgrade(move |mut socket| async move {
        let reason = format!("this server speaks {SUBPROTOCOL}, the worker {spoken}: reload the page");
        close_socket(&mut socket, close::VERSION_MISMATCH, &reason).await;
    })
}

async fn close_socket(socket: &mut WebSocket, code: u16, reason: &str) {
    // The other end may be gone already: then there is nobody to tell.
    let _ = in_time(socket.send(close_message(code, reason))).await;
}

/// A close reason has at most 123 bytes.
fn short(reason: &str) -> String {
    const MOST: usize = 123;
    let mut end = reason.len().min(MOST);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason[..end].to_owned()
}

async fn serve(runs: Arc<Runs>, mut socket: WebSocket) {
    let first = tokio::time::timeout(limits::HANDSHAKE, socket.recv()).await;
    let hello = match first {
        Err(_) => {
            return close_socket(&mut socket, close::SILENT, "no hello within ten seconds").await;
        }
        Ok(Some(Ok(Message::Binary(bytes)))) => match ToServer::decode(&bytes) {
            Ok(ToServer::Hello(hello)) => hello,
            Ok(_) => {
                return refuse(&mut socket, Refusal::new(RejectCode::Malformed, "say hello first")).await;
            }
            Err(error) => {
                return refuse(&mut socket, Refusal::new(RejectCode::Malformed, error.to_string())).await;
            }
        },
        Ok(Some(Ok(_))) => {
            return refuse(&mut socket, Refusal::new(RejectCode::Malformed, "say hello first")).await;
        }
        Ok(_) => return,
    };
    let Some(run) = runs.find(&hello.run) else {
        let reason = format!("this server hosts no run {:?}", incoming::clean(&hello.run));
        return refuse(&mut socket, Refusal::new(RejectCode::UnknownRun, reason)).await;
    };
    let Ok(hello) = incoming::hello_event(hello) else {
        return refuse(&mut socket, Refusal::new(RejectCode::Stopping, "the server has no randomness")).await;
    };
    let (outbox, receiver) = outbox();
    let connection = run.connect(outbox);
    let (sink, stream) = socket.split();
    run.handle(connection, hello, None);
    let incoming = Incoming::new(Arc::clone(&run), connection);
    let reason = converse(&run, runs.uploads(), sink, stream, receiver, incoming).await;
    run.disconnect(connection, &reason);
}

async fn refuse(socket: &mut WebSocket, refusal: Refusal) {
    let reason = refusal.reason.clone();
    let farewell = ToWorker::Farewell(refusal).encode();
    if socket.send(Message::Binary(farewell)).await.is_ok() {
        close_socket(socket, close::REFUSED, &reason).await;
    }
}

/// Carries messages both ways until the socket is gone; returns why.
async fn converse(
    run: &Run,
    uploads: &UploadBudget,
    mut sink: SplitSink<WebSocket, Message>,
    mut stream: SplitStream<WebSocket>,
    mut receiver: OutboxReceiver,
    mut incoming: Incoming,
) -> String {
    let mut heard = Instant::now();
    let mut ping = tokio::time::interval(limits::PING_EVERY);
    ping.tick().await;
    let mut pings = 0_u64;
    // While a commit waits for its part of the budget nothing is read.
    let mut waiting: Option<BoxFuture<Grant>> = None;
    loop {
        tokio::select! {
            grant = granted(&mut waiting) => {
                waiting = None;
                heard = Instant::now();
                incoming.granted(grant);
            }
            message = stream.next(), if waiting.is_none() => match message {
                Some(Ok(Message::Binary(bytes))) => {
                    heard = Instant::now();
                    run.count_traffic(bytes.len() as u64, 0);
                    incoming.frame(&bytes);
                    if let Some(bytes) = incoming.wants() {
                        match uploads.try_grant(bytes) {
                            Some(grant) => incoming.granted(grant),
                            None => {
                                incoming.keep_lease();
                                waiting = Some(uploads.grant(bytes).boxed());
                            }
                        }
                    }
                }
                Some(Ok(Message::Close(frame))) => {
                    let reason = frame.map(|frame| incoming::clean(frame.reason.as_str())).filter(|reason| !reason.is_empty());
                    return reason.unwrap_or_else(|| "it closed its socket".into());
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return incoming::clean(&format!("its socket failed: {error}")),
                None => return "its socket is gone".into(),
            },
            outgoing = receiver.recv() => {
                let Some(outgoing) = outgoing else { return "it does not take its messages away".into() };
                let began = Instant::now();
                match send_queued(run, &mut sink, outgoing, &mut receiver).await {
                    // Nothing was read meanwhile: a large snapshot on a slow line is not the worker's silence.
                    Ok(None) => heard += began.elapsed(),
                    Ok(Some((code, reason))) => {
                        say_goodbye(&mut sink, &mut stream, code, &reason).await;
                        return reason;
                    }
                    Err(reason) => return reason,
                }
            }
            _ = ping.tick() => {
                if incoming.is_late() {
                    say_goodbye(&mut sink, &mut stream, close::SILENT, "the upload is too slow").await;
                    return "its upload was too slow".into();
                }
                if waiting.is_some() {
                    incoming.keep_lease();
                } else if heard.elapsed() > limits::DEAD_AFTER {
                    say_goodbye(&mut sink, &mut stream, close::SILENT, "no answer to pings").await;
                    return format!("it said nothing for {} seconds", limits::DEAD_AFTER.as_secs());
                }
                pings += 1;
                if let Err(reason) = send_ping(run, &mut sink, pings).await {
                    return reason;
                }
            }
        }
    }
}

/// The grant that is waited for; without one, never.
async fn granted(waiting: &mut Option<BoxFuture<'_, Grant>>) -> Grant {
    match waiting {
        Some(waiting) => waiting.await,
        None => std::future::pending().await,
    }
}

/// Code and reason of a close.
type Goodbye = (u16, String);

async fn send_ping(run: &Run, sink: &mut SplitSink<WebSocket, Message>, nonce: u64) -> Result<(), String> {
    feed_frame(run, sink, ToWorker::Ping(nonce).encode()).await?;
    in_time(sink.flush()).await
}

/// Sends a message and whatever waits behind it, in as few writes as that takes. Returns the close that ends it all.
async fn send_queued(
    run: &Run,
    sink: &mut SplitSink<WebSocket, Message>,
    first: Outgoing,
    receiver: &mut OutboxReceiver,
) -> Result<Option<Goodbye>, String> {
    let mut next = Some(first);
    while let Some(outgoing) = next.take() {
        match outgoing {
            Outgoing::Frame(bytes) => {
                feed_frame(run, sink, bytes).await?;
                next = receiver.try_recv().ok();
            }
            // What is so large gains nothing by waiting for more; pings and deadlines get their turn after it.
            Outgoing::Snapshot => {
                for frame in run.snapshot() {
                    feed_frame(run, sink, frame).await?;
                }
            }
            Outgoing::Close(code, reason) => return Ok(Some((code, reason))),
        }
    }
    in_time(sink.flush()).await?;
    Ok(None)
}

fn close_message(code: u16, reason: &str) -> Message {
    Message::Close(Some(CloseFrame { code, reason: short(reason).into() }))
}

async fn feed_frame(run: &Run, sink: &mut SplitSink<WebSocket, Message>, bytes: Bytes) -> Result<(), String> {
    run.count_traffic(0, bytes.len() as u64);
    in_time(sink.feed(Message::Binary(bytes))).await
}

/// What is written must be taken in time.
async fn in_time(writing: impl Future<Output = Result<(), axum::Error>>) -> Result<(), String> {
    match tokio::time::timeout(limits::WRITE_TIMEOUT, writing).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(incoming::clean(&format!("its socket failed: {error}"))),
        Err(_) => Err(format!("it took no message for {} seconds", limits::WRITE_TIMEOUT.as_secs())),
    }
}

/// Closes. The other end's last messages are read away: a reset would take the farewell with it. It may also be gone
/// already: then there is nobody to tell.
async fn say_goodbye(
    sink: &mut SplitSink<WebSocket, Message>,
    stream: &mut SplitStream<WebSocket>,
    code: u16,
    reason: &str,
) {
    const LONGEST_DRAIN: Duration = Duration::from_secs(2);
    let _ = in_time(sink.send(close_message(code, reason))).await;
    let _ = tokio::time::timeout(LONGEST_DRAIN, async { while let Some(Ok(_)) = stream.next().await {} }).await;
}
