//! A native worker's WebSocket: a task of its own, which reads and writes independently.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use kindling_shared::protocol::{SUBPROTOCOL, limits};
use kindling_shared::session::Input;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

/// The other end gets this long to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// An input, and the socket that it came from.
pub(super) struct Tagged {
    /// Absent: not from a socket.
    pub(super) socket: Option<u64>,
    pub(super) input: Input,
}

/// An open or opening socket. Dropped, it sends what was queued and closes.
pub(super) struct Socket {
    outgoing: mpsc::Sender<Bytes>,
    task: JoinHandle<()>,
}

impl Socket {
    /// Begins to open socket number `number` to the server at `root`.
    pub(super) fn open(root: &str, number: u64, inputs: mpsc::Sender<Tagged>) -> Self {
        let (outgoing, queued) = mpsc::channel(limits::WORKER_QUEUE);
        let url = format!("{}/ws/worker", root.replacen("http", "ws", 1));
        let task = tokio::spawn(async move {
            let (code, reason) = match connect(&url).await {
                Ok(socket) => converse(socket, number, &inputs, queued).await,
                Err(error) => (0, format!("{error:#}")),
            };
            tell(&inputs, number, Input::Disconnected { code, reason }).await;
        });
        Self { outgoing, task }
    }

    /// False when the network is far behind.
    pub(super) fn send(&self, bytes: Bytes) -> bool {
        // A socket that is gone says so itself.
        !matches!(self.outgoing.try_send(bytes), Err(mpsc::error::TrySendError::Full(_)))
    }

    /// Waits until what was queued has left.
    pub(super) async fn close(self) {
        drop(self.outgoing);
        let _ = tokio::time::timeout(2 * GOODBYE, self.task).await;
    }
}

async fn connect(url: &str) -> anyhow::Result<WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>> {
    let mut request = url.into_client_request()?;
    request.headers_mut().insert("sec-websocket-protocol", SUBPROTOCOL.parse()?);
    let without_nagle = true;
    let (socket, _) = connect_async_with_config(request, None, without_nagle).await.context(url.to_owned())?;
    Ok(socket)
}

/// Carries messages both ways; returns close code and reason when it is over.
async fn converse(
    socket: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
    number: u64,
    inputs: &mpsc::Sender<Tagged>,
    mut queued: mpsc::Receiver<Bytes>,
) -> (u16, String) {
    tell(inputs, number, Input::Connected).await;
    let (mut sink, mut stream) = socket.split();
    let writing = async {
        while let Some(bytes) = queued.recv().await {
            sink.send(Message::Binary(bytes)).await?;
        }
        sink.close().await
    };
    let reading = async {
        loop {
            match stream.next().await {
                Some(Ok(Message::Binary(bytes))) => tell(inputs, number, Input::Frame(bytes)).await,
                Some(Ok(Message::Close(frame))) => {
                    return frame.map_or((0, String::new()), |frame| (frame.code.into(), frame.reason.to_string()));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return (0, error.to_string()),
                None => return (0, "the connection is gone".to_owned()),
            }
        }
    };
    tokio::pin!(writing, reading);
    tokio::select! {
        closed = &mut reading => closed,
        written = &mut writing => match written {
            Ok(()) => tokio::time::timeout(GOODBYE, reading).await.unwrap_or((0, String::new())),
            // The server may have said why it closes before the network broke.
            Err(error) => tokio::time::timeout(GOODBYE, reading).await.unwrap_or((0, error.to_string())),
        },
    }
}

async fn tell(inputs: &mpsc::Sender<Tagged>, number: u64, input: Input) {
    // Without a loop that takes from the queue there is nobody to tell.
    let _ = inputs.send(Tagged { socket: Some(number), input }).await;
}
