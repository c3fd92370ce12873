//! Exchanges a second: sessions push prepared deltas and take the centre back, beside an echo of the same bytes.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use futures_util::future::try_join;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use kindling_shared::params::{Codec, Encoded};
use kindling_shared::protocol::{CommitHeader, CommitId, Lease, RejectCode, ToServer, ToWorker, Verdict, Version};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use super::{Rounds, process};
use crate::peer::{self, Peer};
use crate::server::Server;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// How long and how often is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds; ours and the echo take turns.
    pub rounds: usize,
    /// Of each round.
    pub seconds: f64,
}

/// A model of an exact size, on images that are small: there must be so many that no epoch ends meanwhile, or a session
/// would wait for work that another one holds which has stopped until its next round.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Parameters of the model.
    pub parameters: usize,
    height: u32,
    width: u32,
    units: u32,
}

/// As many as the MLP of the Fashion-MNIST example has.
pub const SMALL: Size = Size { parameters: 203_530, height: 2, width: 2, units: 13_568 };
/// Five million parameters exactly.
pub const LARGE: Size = Size { parameters: 5_000_000, height: 4, width: 5, units: 161_290 };

/// One cell of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Always `exchange`.
    pub bench: &'static str,
    /// Length of the vector.
    pub parameters: usize,
    /// Codec of both ways.
    pub codec: Codec,
    /// Sessions at a time.
    pub sessions: usize,
    /// Exchanges a second of all sessions together: those whose commit was accepted.
    pub rate: Rounds,
    /// The same of the echo.
    pub echo: Rounds,
    /// Ours over the echo's.
    pub ratio: Rounds,
    /// Milliseconds of CPU that the server took for an exchange.
    pub server_cpu_ms: f64,
    /// The same of the echo.
    pub echo_cpu_ms: f64,
    /// The most memory that the server ever had, in MiB.
    pub server_peak_mib: f64,
    /// Exchanges whose commit came too late: they took time, and count nowhere else.
    pub stale: u64,
}

/// More than can be exchanged in all rounds.
const SAMPLES: u32 = 1 << 18;

fn run_file(size: Size, codec: Codec) -> anyhow::Result<String> {
    let codec = serde_json::to_string(&codec)?;
    Ok(format!(
        r#"
name = "exchange"
[data]
format = "idx"
train = {{ features = "${{KINDLING_BENCH}}/x", labels = "${{KINDLING_BENCH}}/y" }}
validation = 0.0001
[model]
layers = [{{ kind = "flatten" }}, {{ kind = "linear", units = {} }}, {{ kind = "relu" }}, {{ kind = "linear", units = 10 }}]
[worker]
batch_size = 1
[strategy]
upload_codec = {codec}
download_codec = {codec}
[stop]
epochs = 1000000
"#,
        size.units
    ))
}

/// A running echo.
#[derive(Clone, Copy, Debug)]
pub struct Baseline<'a> {
    /// Its address.
    pub url: &'a str,
    /// Its process.
    pub id: u32,
}

/// Measures a codec with so many sessions on a model of this size, in turns with the echo.
pub async fn measure(
    size: Size,
    sessions: usize,
    codec: Codec,
    effort: Effort,
    echo: Baseline<'_>,
) -> anyhow::Result<Cell> {
    let folder = tempfile::tempdir()?;
    super::write_data(SAMPLES, size.height, size.width, folder.path())?;
    let server = Server::start_in(&[&run_file(size, codec)?], &[], &[("KINDLING_BENCH", folder.path())]).await?;
    let delta: Vec<f32> = (0..size.parameters).map(|index| ((index as f32).sin() + 0.1) * 1e-6).collect();
    let update = Encoded::new(&delta, codec);
    let chunks: Vec<Bytes> = update.chunks().iter().map(|chunk| ToServer::Tensor(chunk.clone()).encode()).collect();
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for index in 0..sessions {
        ours.push(Session::join(&server, index as u8 + 1, &chunks).await?);
        theirs.push(Echo::connect(echo.url, &chunks).await?);
    }
    let id = server.process_id().context("the server is gone")?;
    let (mut served, mut echoed) = (Tally::of(id), Tally::of(echo.id));
    for _ in 0..effort.rounds {
        echoed.round(&mut theirs, effort.seconds).await?;
        served.round(&mut ours, effort.seconds).await?;
    }
    let status = server.status()?;
    let counted = ["/commits/accepted", "/commits/rejected"].map(|count| crate::server::number(&status, count));
    if counted != [served.exchanges, served.stale] {
        bail!("{} exchanges and {} stale ones, but the server counts {counted:?}", served.exchanges, served.stale);
    }
    Ok(Cell {
        bench: "exchange",
        parameters: size.parameters,
        codec,
        sessions,
        ratio: Rounds::of_ratios(&served.rates, &echoed.rates),
        server_cpu_ms: served.cpu_ms(),
        echo_cpu_ms: echoed.cpu_ms(),
        server_peak_mib: process::peak_mib(id)?,
        stale: served.stale,
        rate: Rounds::of(served.rates),
        echo: Rounds::of(echoed.rates),
    })
}

/// Something that can be exchanged with.
trait Exchange: Send {
    /// Returns false where it came too late, and was told so.
    fn exchange(&mut self) -> impl Future<Output = anyhow::Result<bool>> + Send;
}

/// What the rounds of one side gave.
struct Tally {
    /// Its server.
    server: u32,
    /// Exchanges a second of each round.
    rates: Vec<f64>,
    cpu_seconds: f64,
    exchanges: u64,
    stale: u64,
}

impl Tally {
    const fn of(server: u32) -> Self {
        Self { server, rates: Vec::new(), cpu_seconds: 0.0, exchanges: 0, stale: 0 }
    }

    /// Lets all of them exchange for a while, each in a task of its own.
    async fn round<E: Exchange + 'static>(&mut self, all: &mut Vec<E>, seconds: f64) -> anyhow::Result<()> {
        let (before, began) = (process::cpu_seconds(self.server)?, Instant::now());
        let until = began + Duration::from_secs_f64(seconds);
        let mut tasks = JoinSet::new();
        for mut one in all.drain(..) {
            tasks.spawn(async move {
                let (mut count, mut stale) = (0_u64, 0_u64);
                while Instant::now() < until {
                    *(if one.exchange().await? { &mut count } else { &mut stale }) += 1;
                }
                anyhow::Ok((one, count, stale))
            });
        }
        let mut count = 0;
        while let Some(ended) = tasks.join_next().await {
            let (one, exchanges, stale) = ended??;
            all.push(one);
            count += exchanges;
            self.stale += stale;
        }
        self.rates.push(count as f64 / began.elapsed().as_secs_f64());
        self.cpu_seconds += process::cpu_seconds(self.server)? - before;
        self.exchanges += count;
        Ok(())
    }

    /// The server's CPU for each exchange, in milliseconds.
    fn cpu_ms(&self) -> f64 {
        self.cpu_seconds * 1e3 / self.exchanges.max(1) as f64
    }
}

/// A worker that computes nothing: its delta is prepared.
struct Session {
    sink: SplitSink<Socket, Message>,
    stream: SplitStream<Socket>,
    chunks: Vec<Bytes>,
    elements: u64,
    lease: Lease,
    sequence: u32,
    base: Version,
}

impl Session {
    async fn join(server: &Server, contributor: u8, chunks: &[Bytes]) -> anyhow::Result<Self> {
        let mut peer = Peer::join(server, contributor).await?;
        let lease = peer.lease().await?;
        let (base, centre) = peer.pull().await?;
        let (sink, stream) = peer.into_socket().split();
        Ok(Self { sink, stream, chunks: chunks.to_vec(), elements: centre.len() as u64, lease, sequence: 0, base })
    }
}

impl Exchange for Session {
    async fn exchange(&mut self) -> anyhow::Result<bool> {
        ensure!(self.sequence < peer::samples(&self.lease), "more exchanges than the lease has samples");
        let id = CommitId { lease: self.lease.id, sequence: self.sequence };
        let (base, elements) = (self.base, self.elements);
        let header = CommitHeader { id, base, steps: 1, samples: 1, loss: 1.0, compute_ms: 1, elements };
        self.sequence += 1;
        let (sink, stream, chunks) = (&mut self.sink, &mut self.stream, &self.chunks);
        let sending = async {
            sink.feed(Message::Binary(ToServer::Commit(header).encode())).await?;
            for chunk in chunks {
                sink.feed(Message::Binary(chunk.clone())).await?;
            }
            sink.feed(Message::Binary(ToServer::Pull(()).encode())).await?;
            anyhow::Ok(sink.flush().await?)
        };
        let receiving = async {
            let (mut missing, mut newest, mut ping, mut verdict) = (None, base, None, None);
            while missing != Some(0) {
                match receive(stream).await? {
                    ToWorker::Verdict(Verdict::Accepted { id: of, .. }) if of == id => verdict = Some(true),
                    ToWorker::Verdict(Verdict::Rejected { id: of, refusal })
                        if of == id && refusal.code == RejectCode::Stale =>
                    {
                        verdict = Some(false);
                    }
                    ToWorker::Snapshot(header) => (newest, missing) = (header.version, Some(header.elements)),
                    ToWorker::Tensor(chunk) => missing = missing.map(|missing| missing - chunk.count() as u64),
                    ToWorker::Ping(nonce) => ping = Some(nonce),
                    other => bail!("expected a verdict and a centre, got {other:?}"),
                }
            }
            Ok((newest, ping, verdict.context("a centre, but no verdict")?))
        };
        let ((), (newest, ping, accepted)) = try_join(sending, receiving).await?;
        self.base = newest;
        if let Some(nonce) = ping {
            self.sink.send(Message::Binary(ToServer::Pong(nonce).encode())).await?;
        }
        Ok(accepted)
    }
}

async fn receive(stream: &mut SplitStream<Socket>) -> anyhow::Result<ToWorker> {
    loop {
        match stream.next().await.context("the socket is gone")?? {
            Message::Binary(bytes) => return Ok(ToWorker::decode(&bytes)?),
            Message::Close(frame) => bail!("closed: {frame:?}"),
            _ => {}
        }
    }
}

/// The same bytes, there and back.
struct Echo {
    sink: SplitSink<Socket, Message>,
    stream: SplitStream<Socket>,
    chunks: Vec<Bytes>,
}

impl Echo {
    async fn connect(url: &str, chunks: &[Bytes]) -> anyhow::Result<Self> {
        let without_nagle = true;
        let (socket, _) = connect_async_with_config(url, None, without_nagle).await?;
        let (sink, stream) = socket.split();
        Ok(Self { sink, stream, chunks: chunks.to_vec() })
    }
}

impl Exchange for Echo {
    async fn exchange(&mut self) -> anyhow::Result<bool> {
        let (sink, stream, chunks) = (&mut self.sink, &mut self.stream, &self.chunks);
        let sending = async {
            for chunk in chunks {
                sink.feed(Message::Binary(chunk.clone())).await?;
            }
            anyhow::Ok(sink.flush().await?)
        };
        let receiving = async {
            for chunk in chunks {
                let message = stream.next().await.context("the echo is gone")??;
                if message.len() != chunk.len() {
                    bail!("an echo of {} bytes for {}", message.len(), chunk.len());
                }
            }
            Ok(())
        };
        try_join(sending, receiving).await?;
        Ok(true)
    }
}

/// The echo in a process of its own, as our server is in one: this program, called with `echo`.
pub struct EchoProcess {
    _child: Child,
    url: String,
    id: u32,
}

impl EchoProcess {
    /// Starts it.
    pub async fn start() -> anyhow::Result<Self> {
        let mut child =
            Command::new(std::env::current_exe()?).arg("echo").stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let url = BufReader::new(stdout).lines().next_line().await?.context("the echo printed nothing")?;
        let id = child.id().context("the echo is gone")?;
        Ok(Self { _child: child, url, id })
    }

    /// It, as `measure` takes it.
    pub fn baseline(&self) -> Baseline<'_> {
        Baseline { url: &self.url, id: self.id }
    }
}
