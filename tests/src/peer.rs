//! A worker that speaks the protocol by hand: for what no well-behaved session does.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use kindling_shared::model::infer_layout;
use kindling_shared::params::{Assembler, Encoded, Layout};
use kindling_shared::protocol::{
    Backend, Capabilities, CommitHeader, CommitId, Hello, Lease, Resume, SUBPROTOCOL, ToServer, ToWorker, Verdict,
    Version,
};
use kindling_shared::run::RunPlan;
use kindling_shared::trainer::Trainer;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use crate::server::{HANG, Server};

/// A connected, admitted worker.
pub struct Peer {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The run.
    pub plan: RunPlan,
    /// Its layout.
    pub layout: Arc<Layout>,
    /// Its number.
    pub worker: u64,
}

/// Opens a socket with this subprotocol.
pub async fn connect(server: &Server, subprotocol: &str) -> anyhow::Result<WebSocketStream<MaybeTlsStream<TcpStream>>> {
    let mut request = format!("{}/ws/worker", server.url.replace("http", "ws")).into_client_request()?;
    request.headers_mut().insert("sec-websocket-protocol", subprotocol.parse()?);
    let without_nagle = true;
    Ok(connect_async_with_config(request, None, without_nagle).await?.0)
}

/// The hello of a fresh contributor on the CPU.
pub fn hello(contributor: u8, resume: Option<Resume>) -> ToServer {
    let capabilities = Capabilities { backend: Backend::Cpu, adapter: "test".into(), software: false };
    ToServer::Hello(Hello { run: String::new(), contributor: [contributor; 32], resume, capabilities })
}

impl Peer {
    /// Joins and passes the self-test.
    pub async fn join(server: &Server, contributor: u8) -> anyhow::Result<Self> {
        let mut socket = connect(server, SUBPROTOCOL).await?;
        socket.send(Message::Binary(hello(contributor, None).encode())).await?;
        let ToWorker::Welcome(welcome) = receive(&mut socket).await? else { bail!("no welcome") };
        let plan: RunPlan = serde_json::from_str(&welcome.plan)?;
        let layout = infer_layout(&plan.model, &plan.data.sample_shape, plan.data.classes)?;
        let ToWorker::SelfTest(seed) = receive(&mut socket).await? else { bail!("no self-test") };
        let mut trainer = Trainer::new(&plan, &layout, &burn::tensor::Device::flex());
        let answer = trainer.self_test(seed).await?;
        socket.send(Message::Binary(ToServer::SelfTestAnswer(answer).encode())).await?;
        let ToWorker::Admitted(()) = receive(&mut socket).await? else { bail!("not admitted") };
        Ok(Self { socket, plan, layout: Arc::new(layout), worker: welcome.worker.0 })
    }

    /// The socket, for whoever wants to speak on it alone.
    pub fn into_socket(self) -> WebSocketStream<MaybeTlsStream<TcpStream>> {
        self.socket
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: &ToServer) -> anyhow::Result<()> {
        Ok(self.socket.send(Message::Binary(frame.encode())).await?)
    }

    /// The next frame that is no ping.
    pub async fn receive(&mut self) -> anyhow::Result<ToWorker> {
        receive(&mut self.socket).await
    }

    /// Asks for a lease and waits for it.
    pub async fn lease(&mut self) -> anyhow::Result<Lease> {
        self.send(&ToServer::LeaseRequest(())).await?;
        loop {
            match self.receive().await? {
                ToWorker::Lease(lease) => return Ok(lease),
                ToWorker::NoWork(_) => {}
                other => bail!("expected a lease, got {other:?}"),
            }
        }
    }

    /// Takes the newest centre.
    pub async fn pull(&mut self) -> anyhow::Result<(Version, Vec<f32>)> {
        self.send(&ToServer::Pull(())).await?;
        let ToWorker::Snapshot(header) = self.receive().await? else { bail!("no snapshot") };
        let mut assembler = Assembler::new(header.elements, self.plan.strategy.download_codec);
        while !assembler.is_complete() {
            let ToWorker::Tensor(chunk) = self.receive().await? else { bail!("no chunk") };
            assembler.push(chunk)?;
        }
        Ok((header.version, assembler.finish().to_vec()))
    }

    /// Commits a delta over the next samples of a lease.
    pub async fn commit(
        &mut self,
        id: CommitId,
        base: Version,
        samples: u32,
        delta: &[f32],
    ) -> anyhow::Result<Verdict> {
        let encoded = Encoded::new(delta, self.plan.strategy.upload_codec);
        let elements = encoded.elements() as u64;
        let header = CommitHeader { id, base, steps: 1, samples, loss: 1.0, compute_ms: 1, elements };
        self.send(&ToServer::Commit(header)).await?;
        for chunk in encoded.chunks() {
            self.send(&ToServer::Tensor(chunk.clone())).await?;
        }
        match self.receive().await? {
            ToWorker::Verdict(verdict) => Ok(verdict),
            other => bail!("expected a verdict, got {other:?}"),
        }
    }
}

/// The next frame that is no ping.
pub async fn receive(socket: &mut WebSocketStream<MaybeTlsStream<TcpStream>>) -> anyhow::Result<ToWorker> {
    loop {
        let message = tokio::time::timeout(HANG, socket.next()).await?.context("the socket is gone")??;
        match message {
            Message::Binary(bytes) => match ToWorker::decode(&bytes)? {
                ToWorker::Ping(nonce) => socket.send(Message::Binary(ToServer::Pong(nonce).encode())).await?,
                frame => return Ok(frame),
            },
            Message::Close(frame) => bail!("closed: {frame:?}"),
            _ => {}
        }
    }
}

/// Samples of a lease.
pub fn samples(lease: &Lease) -> u32 {
    lease.ranges.iter().map(kindling_shared::protocol::SampleRange::len).sum()
}
