//! What the contribute page does, and says, before and instead of training.

use kindling::headless::devtools::BrowserEvent;
use serde_json::{Value, json};

use super::digits::small_digits;
use crate::server::Server;
use crate::{Measured, Scale, proxy, tab};

pub async fn consent(_: Scale) -> anyhow::Result<Measured> {
    let server = Server::start(&small_digits(2, "")).await?;
    let browser = tab::browser(&[]).await?;
    let page = browser.open_page().await?;
    let mut events = page.events();
    let attach = json!({ "autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true });
    page.call("Target.setAutoAttach", attach).await?;
    let everything = "backend=cpu&start=1&autostart=true&run=digits-small&join=token";
    page.navigate(&format!("{}/r/{}?{everything}#{everything}", server.url, server.run)).await?;
    tab::wait_for_phase(&page, &["ready"]).await?;
    // A script's click is no consent.
    page.evaluate("document.querySelector('#start').click()").await?;
    page.evaluate("new Promise((done) => setTimeout(done, 1500))").await?;
    let before = seen(&mut events);
    let phase = tab::data(&page).await?["phase"].clone();
    page.click("#start").await?;
    server.finished().await?;
    let after = seen(&mut events);
    browser.close().await;
    Ok(Measured::all(&[
        (before.is_empty(), format!("before the click: {before:?}")),
        (phase == "ready", format!("after a script's click the page is {phase}")),
        (after.iter().any(|what| what == "a worker"), format!("after the click: {after:?}")),
    ]))
}

/// Workers that were started and wasm that was asked for, among the events so far.
fn seen(events: &mut tokio::sync::broadcast::Receiver<BrowserEvent>) -> Vec<String> {
    let mut found = Vec::new();
    while let Ok(event) = events.try_recv() {
        let url = event.parameters.pointer("/request/url").and_then(Value::as_str).unwrap_or_default();
        if event.method == "Network.requestWillBeSent" && url.contains("wasm") {
            found.push(url.rsplit('/').next().unwrap_or(url).to_owned());
        }
        if event.method == "Target.attachedToTarget" && event.parameters["targetInfo"]["type"] == "worker" {
            found.push("a worker".into());
        }
    }
    found
}

/// A place: its name, the browser's arguments, the server's address, whether to start, the words to be found.
type Place<'a> = (&'a str, &'a [&'a str], &'a str, bool, &'a [&'a str]);

pub async fn places(_: Scale) -> anyhow::Result<Measured> {
    let server = Server::start(&small_digits(2_000, "")).await?;
    let lan = server.url.replace("127.0.0.1", "kindling.test");
    let blocked = proxy::without_websockets(&server.url).await?;
    let cases: [Place; 4] = [
        (
            "no WebGPU",
            // What every Chromium without a GPU is: `navigator.gpu` is there, and finds no adapter.
            &[],
            &server.url,
            true,
            &["WebGPU finds no graphics adapter", "Training works on the CPU"],
        ),
        (
            "plain http on a LAN name",
            &["--host-resolver-rules=MAP kindling.test 127.0.0.1"],
            &lan,
            false,
            &["this address is not secure", "ask the host for an https address"],
        ),
        (
            "no wasm SIMD",
            &["--js-flags=--no-enable-sse4-1 --no-enable-ssse3"],
            &server.url,
            false,
            &["This browser cannot train", "It has no WebAssembly SIMD", "Update the browser"],
        ),
        (
            "a blocked WebSocket",
            &[],
            &blocked,
            true,
            &["The connection for training is blocked", "Try another network, or ask the host"],
        ),
    ];
    let mut facts = Vec::new();
    for (what, arguments, url, start, words) in cases {
        let browser = tab::browser(arguments).await?;
        let page = browser.open_page().await?;
        page.navigate(&format!("{url}/r/{}", server.run)).await?;
        tab::wait_for_phase(&page, &["ready", "blocked"]).await?;
        if start {
            page.click("#start").await?;
        }
        let shown = tab::wait_for_words(&page, words[0]).await?;
        let missing: Vec<&&str> = words.iter().filter(|word| !shown.contains(**word)).collect();
        facts.push((missing.is_empty(), format!("{what}: says {:?}, lacks {missing:?}", words[0])));
        browser.close().await;
    }
    let browser = tab::browser(&[]).await?;
    let page = browser.open_page().await?;
    page.navigate(&format!("{}/r/nowhere", server.url)).await?;
    let shown = tab::wait_for_words(&page, "This server hosts no such run").await?;
    facts.push((
        shown.contains("Runs on this server"),
        "a run that is not there: says so, and leads to those that are".into(),
    ));
    browser.close().await;
    Ok(Measured::all(&facts))
}
