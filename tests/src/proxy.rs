//! A proxy that lets HTTP through and answers 403 to every WebSocket, as some networks do.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

const MOST_HEAD_BYTES: usize = 64 * 1024;

/// Starts the proxy in front of `server` (`http://ADDR`); returns its own address as a URL.
pub async fn without_websockets(server: &str) -> anyhow::Result<String> {
    let target: SocketAddr = server.trim_start_matches("http://").parse()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            // A connection that breaks is the browser's to notice.
            tokio::spawn(async move { drop(forward(client, target).await) });
        }
    });
    Ok(url)
}

async fn forward(mut client: TcpStream, target: SocketAddr) -> anyhow::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MOST_HEAD_BYTES {
        if client.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    if String::from_utf8_lossy(&head).to_ascii_lowercase().contains("upgrade: websocket") {
        client.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await?;
        return Ok(());
    }
    // One request a connection, so that every head is looked at.
    let head = String::from_utf8_lossy(&head).replace("Connection: keep-alive", "Connection: close");
    let mut server = TcpStream::connect(target).await?;
    server.write_all(head.as_bytes()).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
