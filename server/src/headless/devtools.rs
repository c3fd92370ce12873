//! A browser, driven over the DevTools pipe: no port is opened, and the browser ends when this process does.
//!
//! Commands go in on its descriptor 3, answers and events come out on 4, each a JSON text that ends with a zero byte.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use command_fds::{CommandFdExt as _, FdMapping};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex as AsyncMutex, broadcast, oneshot};

/// A browser that does not answer a command in this time is taken for dead.
const ANSWER: Duration = Duration::from_secs(120);
/// Time to close in good order before it is killed.
const CLOSE: Duration = Duration::from_secs(5);
const EVENTS_IN_FLIGHT: usize = 1_024;
/// How often, and with what wait between, a page that another one opens is looked for.
const NEW_PAGE_LOOKS: u32 = 100;
const NEW_PAGE_WAIT: Duration = Duration::from_millis(100);
/// One answer's size: a screenshot is the largest.
const MOST_ANSWER_BYTES: usize = 64 << 20;

/// Quiet, and with WebGPU where there is an adapter.
const ARGUMENTS: [&str; 10] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--enable-unsafe-webgpu",
    "--window-size=1440,1000",
];

/// How to start a browser.
pub struct Options {
    /// The program.
    pub path: PathBuf,
    /// More arguments.
    pub arguments: Vec<String>,
    /// Without sandbox, although this is not root.
    pub no_sandbox: bool,
}

impl Options {
    /// The browser at `path`, with nothing special.
    pub const fn new(path: PathBuf) -> Self {
        Self { path, arguments: Vec::new(), no_sandbox: false }
    }
}

type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<Result<Value, String>>>>>;

/// An event of the browser.
#[derive(Clone, Debug)]
pub struct BrowserEvent {
    /// The session of the page that it is about.
    pub session: String,
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub parameters: Value,
}

/// A running browser with a fresh profile, which is removed at the end.
pub struct Browser {
    child: Child,
    wire: Arc<Wire>,
    _profile: TempDir,
}

struct Wire {
    writer: AsyncMutex<pipe::Sender>,
    pending: Pending,
    next: AtomicU64,
    events: broadcast::Sender<BrowserEvent>,
}

impl Browser {
    /// Starts a browser.
    pub async fn launch(options: Options) -> anyhow::Result<Self> {
        let profile = tempfile::Builder::new().prefix("kindling-browser-").tempdir()?;
        let (command_reader, command_writer) = std::io::pipe()?;
        let (answer_reader, answer_writer) = std::io::pipe()?;
        let mut command = Command::new(&options.path);
        command.args(ARGUMENTS).arg(format!("--user-data-dir={}", profile.path().display()));
        if is_root() || options.no_sandbox {
            tracing::warn!("the browser runs without its sandbox: open only servers that you trust");
            command.arg("--no-sandbox");
        }
        command.args(&options.arguments).arg("about:blank");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        command.fd_mappings(vec![
            FdMapping { parent_fd: OwnedFd::from(command_reader), child_fd: 3 },
            FdMapping { parent_fd: OwnedFd::from(answer_writer), child_fd: 4 },
        ])?;
        let child =
            command.spawn().with_context(|| format!("the browser {} cannot be started", options.path.display()))?;
        // The command holds this side's copies of the browser's ends: they must close, or its death goes unseen.
        drop(command);
        let writer = pipe::Sender::from_owned_fd(OwnedFd::from(command_writer))?;
        let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(answer_reader))?;
        let events = broadcast::channel(EVENTS_IN_FLIGHT).0;
        let pending = Pending::default();
        tokio::spawn(listen(reader, Arc::clone(&pending), events.clone()));
        let wire = Arc::new(Wire { writer: AsyncMutex::new(writer), pending, next: AtomicU64::new(1), events });
        wire.call(None, "Browser.getVersion", json!({})).await.context("the browser does not answer")?;
        Ok(Self { child, wire, _profile: profile })
    }

    /// Opens a window with an empty page.
    pub async fn open_page(&self) -> anyhow::Result<Page> {
        let made =
            self.wire.call(None, "Target.createTarget", json!({ "url": "about:blank", "newWindow": true })).await?;
        let target = text(&made, "targetId")?;
        self.attach(target).await
    }

    /// The first page that `opener` opened itself.
    pub async fn attach_to_new_page(&self, opener: &Page) -> anyhow::Result<Page> {
        for _ in 0..NEW_PAGE_LOOKS {
            let answer = self.wire.call(None, "Target.getTargets", json!({})).await?;
            let targets = answer["targetInfos"].as_array().map_or(&[][..], Vec::as_slice);
            if let Some(target) = targets.iter().find(|target| target["openerId"] == opener.target.as_str()) {
                return self.attach(text(target, "targetId")?).await;
            }
            tokio::time::sleep(NEW_PAGE_WAIT).await;
        }
        bail!("the page opened no other page")
    }

    async fn attach(&self, target: String) -> anyhow::Result<Page> {
        let attached =
            self.wire.call(None, "Target.attachToTarget", json!({ "targetId": target, "flatten": true })).await?;
        let page = Page { wire: Arc::clone(&self.wire), session: text(&attached, "sessionId")?, target };
        for domain in ["Page.enable", "Runtime.enable", "Network.enable", "Log.enable"] {
            page.call(domain, json!({})).await?;
        }
        Ok(page)
    }

    /// The Web Worker that a page runs, or starts next.
    pub async fn worker_of(&self, page: &Page) -> anyhow::Result<Page> {
        let mut events = page.events();
        let attach = json!({ "autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true });
        page.call("Target.setAutoAttach", attach).await?;
        loop {
            let event = tokio::time::timeout(ANSWER, events.recv()).await.context("the page starts no worker")??;
            let info = &event.parameters["targetInfo"];
            if event.method == "Target.attachedToTarget" && event.session == page.session && info["type"] == "worker" {
                let session = text(&event.parameters, "sessionId")?;
                return Ok(Page { wire: Arc::clone(&self.wire), session, target: text(info, "targetId")? });
            }
        }
    }

    /// The browser's process id, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Closes it; kills it when it does not close in time.
    pub async fn close(mut self) {
        // A browser that is gone already has nothing to answer.
        let _ = tokio::time::timeout(CLOSE, self.wire.call(None, "Browser.close", json!({}))).await;
        if tokio::time::timeout(CLOSE, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

/// One page.
pub struct Page {
    wire: Arc<Wire>,
    session: String,
    target: String,
}

/// Where an element's middle is, once it is the same twice; words where there is no such place.
const PLACE_AT_REST: &str = "async (selector) => {
    let before = '';
    for (let look = 0; look < 100; look++) {
        const element = document.querySelector(selector);
        if (!element) return 'there is no such element';
        element.scrollIntoView({ block: 'center', behavior: 'instant' });
        const box = element.getBoundingClientRect();
        const place = [box.x + box.width / 2, box.y + box.height / 2];
        if (String(place) === before && element.contains(document.elementFromPoint(...place))) return place;
        before = String(place);
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return 'it does not hold still, or is covered';
}";

impl Page {
    /// Calls a DevTools method on this page.
    pub async fn call(&self, method: &str, parameters: Value) -> anyhow::Result<Value> {
        self.wire.call(Some(&self.session), method, parameters).await
    }

    /// Events of every page from now on, told apart by their session.
    pub fn events(&self) -> broadcast::Receiver<BrowserEvent> {
        self.wire.events.subscribe()
    }

    /// Its session, as events name it.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Goes to an address; an error when nothing answers there.
    pub async fn navigate(&self, url: &str) -> anyhow::Result<()> {
        let answer = self.call("Page.navigate", json!({ "url": url })).await?;
        match answer.get("errorText").and_then(Value::as_str) {
            Some(error) if !error.is_empty() => bail!("{url}: {error}"),
            _ => Ok(()),
        }
    }

    /// Evaluates an expression; a promise is awaited.
    pub async fn evaluate(&self, expression: &str) -> anyhow::Result<Value> {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", parameters).await?;
        if let Some(exception) = answer.get("exceptionDetails") {
            bail!("{expression}: {exception}");
        }
        Ok(answer.pointer("/result/value").cloned().unwrap_or(Value::Null))
    }

    /// Clicks the middle of an element, as a person would: the click is trusted. Like a person it waits until the element
    /// holds still and nothing covers it: a page that still moves would put something else under the pointer.
    pub async fn click(&self, selector: &str) -> anyhow::Result<()> {
        let selector = serde_json::to_string(selector)?;
        let place = self.evaluate(&format!("({PLACE_AT_REST})({selector})")).await?;
        let (Some(x), Some(y)) =
            (place.pointer("/0").and_then(Value::as_f64), place.pointer("/1").and_then(Value::as_f64))
        else {
            bail!("{selector} cannot be clicked: {place}");
        };
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event).await?;
        }
        Ok(())
    }

    /// A PNG of the page, base64.
    pub async fn screenshot(&self, full_page: bool) -> anyhow::Result<String> {
        let parameters = json!({ "format": "png", "captureBeyondViewport": full_page });
        text(&self.call("Page.captureScreenshot", parameters).await?, "data")
    }

    /// Closes the page.
    pub async fn close(self) -> anyhow::Result<()> {
        self.wire.call(None, "Target.closeTarget", json!({ "targetId": self.target })).await.map(drop)
    }
}

impl Wire {
    async fn call(&self, session: Option<&str>, method: &str, parameters: Value) -> anyhow::Result<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message)?;
        bytes.push(0);
        self.writer.lock().await.write_all(&bytes).await.context("the browser is gone")?;
        match tokio::time::timeout(ANSWER, receiver).await {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(error))) => Err(anyhow!("{method}: {error}")),
            Ok(Err(_)) => Err(anyhow!("{method}: the browser is gone")),
            Err(_) => Err(anyhow!("{method}: no answer for {} seconds", ANSWER.as_secs())),
        }
    }
}

/// Hands answers to their callers and events to whoever listens, until the browser is gone.
async fn listen(reader: pipe::Receiver, pending: Pending, events: broadcast::Sender<BrowserEvent>) {
    let mut reader = BufReader::new(reader);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match reader.read_until(0, &mut bytes).await {
            Ok(read) if read > 0 && bytes.len() < MOST_ANSWER_BYTES => {}
            _ => break,
        }
        bytes.pop();
        let Ok(mut message) = serde_json::from_slice::<Value>(&bytes) else {
            continue;
        };
        if let Some(id) = message.get("id").and_then(Value::as_u64) {
            let caller = pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            let answer = match message.get("error") {
                Some(error) => Err(error.to_string()),
                None => Ok(message["result"].take()),
            };
            if let Some(caller) = caller {
                // A caller that timed out does not listen any more.
                let _ = caller.send(answer);
            }
        } else if let Some(method) = message.get("method").and_then(Value::as_str) {
            let session = message.get("sessionId").and_then(Value::as_str).unwrap_or_default().to_owned();
            let event = BrowserEvent { session, method: method.to_owned(), parameters: message["params"].clone() };
            let _ = events.send(event);
        }
    }
    pending.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn text(answer: &Value, key: &str) -> anyhow::Result<String> {
    let value = answer.get(key).and_then(Value::as_str);
    value.map(str::to_owned).ok_or_else(|| anyhow!("the browser's answer has no {key}"))
}

/// True for uid 0, for which Chromium has no sandbox.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}
