//! The baseline of `exchange`: a bare axum WebSocket that sends every message back.

use anyhow::Context as _;
use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::routing::get;
use axum::serve::ListenerExt as _;
use kindling_shared::protocol::limits;
use tokio::net::{TcpListener, TcpStream};

/// Serves until it is killed; prints its address first.
pub async fn serve() -> anyhow::Result<()> {
    let (url, echoing) = start().await?;
    println!("{url}");
    echoing.await
}

/// An echo at its address, for as long as the future is polled.
pub async fn start() -> anyhow::Result<(String, impl Future<Output = anyhow::Result<()>>)> {
    let accept = |upgrade: WebSocketUpgrade| async move {
        let upgrade = upgrade.max_message_size(limits::MESSAGE_BYTES).max_frame_size(limits::MESSAGE_BYTES);
        upgrade.read_buffer_size(limits::READ_BUFFER_BYTES).on_upgrade(echo)
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("ws://{}/", listener.local_addr()?);
    let without_delay = |socket: &mut TcpStream| {
        // Without it the baseline is slower than it need be: that must not pass unseen.
        socket.set_nodelay(true).expect("TCP_NODELAY can be set");
    };
    let router = Router::new().route("/", get(accept));
    Ok((url, async move { axum::serve(listener.tap_io(without_delay), router).await.context("echo") }))
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if matches!(message, Message::Binary(_)) && socket.send(message).await.is_err() {
            return;
        }
    }
}
