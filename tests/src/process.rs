//! Signals to the renderers of a browser: tabs that are killed, and tabs that freeze.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use kindling::headless::devtools::Browser;

/// The renderer processes below a browser (Linux: from /proc).
pub fn renderers(browser: &Browser) -> anyhow::Result<Vec<u32>> {
    let root = browser.process_id().context("the browser is gone")?;
    let found: Vec<u32> =
        below(root)?.into_iter().filter(|(_, command)| command.contains("--type=renderer")).map(|(id, _)| id).collect();
    if found.is_empty() {
        bail!("the browser has no renderer");
    }
    Ok(found)
}

/// Every process below another one, with its command line.
pub fn below(root: u32) -> anyhow::Result<Vec<(u32, String)>> {
    let (mut found, mut parents) = (Vec::new(), vec![root]);
    let processes = processes()?;
    while let Some(parent) = parents.pop() {
        for (id, of, command) in &processes {
            if *of == parent {
                parents.push(*id);
                found.push((*id, command.clone()));
            }
        }
    }
    Ok(found)
}

/// Whether a process runs, and is not only waited for by its parent.
pub fn is_alive(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat"))
        .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')))
}

fn processes() -> anyhow::Result<Vec<(u32, u32, String)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let folder = Path::new("/proc").join(id.to_string());
        // A process may end while it is looked at.
        let Ok(stat) = std::fs::read_to_string(folder.join("stat")) else {
            continue;
        };
        let Ok(command) = std::fs::read(folder.join("cmdline")) else {
            continue;
        };
        let parent =
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)).and_then(|id| id.parse().ok());
        if let Some(parent) = parent {
            all.push((id, parent, String::from_utf8_lossy(&command).replace('\0', " ")));
        }
    }
    Ok(all)
}

/// Sends a signal (`KILL`, `STOP`, `CONT`) to processes.
pub fn signal(name: &str, ids: &[u32]) -> anyhow::Result<()> {
    let status = Command::new("kill").arg(format!("-{name}")).args(ids.iter().map(u32::to_string)).status()?;
    if !status.success() {
        bail!("kill -{name} {ids:?}: {status}");
    }
    Ok(())
}
