//! Pictures of both pages while a run trains, in both themes and two widths: to be looked at.
//!
//! `cargo run --package kindling-tests --bin pictures -- FOLDER`, with `KINDLING_SERVER` set to the server's binary.

use std::path::PathBuf;

use anyhow::Context as _;
use kindling_tests::server::{Server, number};
use kindling_tests::tab;

const SIZES: [(&str, u32, u32); 2] = [("desktop", 1440, 1000), ("phone", 360, 780)];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).context("name a folder for the pictures")?);
    std::fs::create_dir_all(&folder)?;
    let server = Server::demo().await?;
    let browser = tab::browser(&[]).await?;
    let watcher = browser.open_page().await?;
    watcher.navigate(&format!("{}/r/{}/dashboard", server.url, server.run)).await?;
    let idle = tab::open(&browser, &server).await?;
    let one = tab::contribute(&browser, &server).await?;
    tab::contribute(&browser, &server).await?;
    server.until("some epochs", |status| number(status, "/epoch") >= 6).await?;
    for (size, width, height) in SIZES {
        for (theme, dark) in [("light", false), ("dark", true)] {
            for (name, page) in [("ready", &idle), ("training", &one), ("dashboard", &watcher)] {
                page.call("Page.bringToFront", serde_json::json!({})).await?;
                tab::picture(page, &folder.join(format!("{name}-{size}-{theme}.png")), width, height, dark).await?;
            }
        }
    }
    server.finished().await?;
    let late = browser.open_page().await?;
    late.navigate(&format!("{}/r/{}", server.url, server.run)).await?;
    tab::wait_for_phase(&late, &["finished"]).await?;
    for (name, page) in [("finished", &late), ("ended", &one), ("dashboard-finished", &watcher)] {
        page.call("Page.bringToFront", serde_json::json!({})).await?;
        tab::picture(page, &folder.join(format!("{name}-desktop-light.png")), SIZES[0].1, SIZES[0].2, false).await?;
    }
    browser.close().await;
    Ok(())
}
