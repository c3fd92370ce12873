//! A tab in a real browser, as a person uses it.

use std::time::Instant;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use kindling::headless::devtools::{Browser, Options, Page};
use kindling::headless::find_browser;
use serde_json::{Value, json};

use crate::server::{HANG, Server};

const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(100);

/// A browser with these arguments beside the usual ones.
pub async fn browser(arguments: &[&str]) -> anyhow::Result<Browser> {
    let mut options = Options::new(find_browser()?);
    options.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    Browser::launch(options).await
}

/// The contribute page of the server's run, on the CPU, not started.
pub async fn open(browser: &Browser, server: &Server) -> anyhow::Result<Page> {
    let page = browser.open_page().await?;
    page.navigate(&format!("{}/r/{}#backend=cpu", server.url, server.run)).await?;
    wait_for_phase(&page, &["ready"]).await?;
    Ok(page)
}

/// The same, started by a trusted click.
pub async fn contribute(browser: &Browser, server: &Server) -> anyhow::Result<Page> {
    let page = open(browser, server).await?;
    page.click("#start").await?;
    Ok(page)
}

/// What the page says of itself.
pub async fn data(page: &Page) -> anyhow::Result<Value> {
    page.evaluate("({ ...document.documentElement?.dataset })").await
}

/// Waits until the page is in one of these phases; returns what it says then.
pub async fn wait_for_phase(page: &Page, phases: &[&str]) -> anyhow::Result<Value> {
    wait(page, &format!("one of the phases {phases:?}"), |data| {
        data["phase"].as_str().is_some_and(|phase| phases.contains(&phase))
    })
    .await
}

/// Waits until `reached` says so of the page's own data.
pub async fn wait(page: &Page, what: &str, reached: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
    let began = Instant::now();
    loop {
        // While a page is being left there is nothing to evaluate in.
        let data = data(page).await.unwrap_or(Value::Null);
        if reached(&data) {
            return Ok(data);
        }
        if began.elapsed() > HANG {
            bail!("waited {} s for: {what}; the page says {data}", HANG.as_secs());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until the page shows these words; returns all that it shows.
pub async fn wait_for_words(page: &Page, words: &str) -> anyhow::Result<String> {
    let began = Instant::now();
    loop {
        let shown = page.evaluate("document.body?.innerText ?? ''").await.unwrap_or(Value::Null);
        let shown = shown.as_str().unwrap_or_default().to_owned();
        if shown.contains(words) {
            return Ok(shown);
        }
        if began.elapsed() > HANG {
            bail!("waited {} s for {words:?}; the page shows {shown:?}", HANG.as_secs());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Writes a picture of the page in this size and theme.
pub async fn picture(page: &Page, file: &std::path::Path, width: u32, height: u32, dark: bool) -> anyhow::Result<()> {
    let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
    page.call("Emulation.setDeviceMetricsOverride", metrics).await?;
    let theme =
        json!({ "features": [{ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } }] });
    page.call("Emulation.setEmulatedMedia", theme).await?;
    page.evaluate("new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))").await?;
    tokio::time::sleep(std::time::Duration::from_millis(800)).await;
    let picture = base64::engine::general_purpose::STANDARD.decode(page.screenshot(true).await?)?;
    std::fs::write(file, picture).with_context(|| file.display().to_string())
}
