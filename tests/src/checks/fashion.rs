//! The main job: real data, in tabs and natively, judged from outside.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kindling::runfile;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::digits::small_digits;
use crate::idx::idx;
use crate::server::{Server, binary, exact, number};
use crate::{Measured, Scale, python};

/// Where Debian's package puts the data, as the examples say.
const DATA: &str = "/usr/share/datasets/fashion-mnist";

/// `kindling worker` with these arguments.
pub fn worker(server: &Server, arguments: &[&str]) -> anyhow::Result<Child> {
    Ok(Command::new(binary()?)
        .args(["worker", "--url", &server.url, "--run", &server.run])
        .args(arguments)
        .kill_on_drop(true)
        .spawn()?)
}

/// An example of the repository, as a server hosts it.
async fn example(name: &str) -> anyhow::Result<Server> {
    anyhow::ensure!(Path::new(DATA).is_dir(), "{DATA} is missing: apt-get install dataset-fashion-mnist");
    Server::host(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)).await
}

/// Lets workers finish the run; whether all went well, the accuracy, and Python's opinion of the files.
async fn judged(
    mut server: Server,
    mut workers: Vec<Child>,
    features: &Path,
    labels: &Path,
    least: f64,
) -> anyhow::Result<Vec<(bool, String)>> {
    let status = server.finished().await?;
    let mut facts = Vec::new();
    for worker in &mut workers {
        let code = worker.wait().await?;
        facts.push((code.success(), format!("kindling worker: {code}")));
    }
    let given: Vec<u64> = server.workers()?.iter().map(|worker| number(worker, "/samples_accepted")).collect();
    facts.push((given.iter().all(|samples| *samples > 0), format!("the workers gave {given:?}")));
    let accuracy = status["metrics"]["accuracy"].as_f64().context("no accuracy")?;
    let results = server.results().await?;
    let from_files = python::accuracy(&results, features, labels)?;
    facts.push((accuracy >= least, format!("accuracy {:.2} %", accuracy * 100.0)));
    facts.push(exact(&status));
    facts.push((
        (accuracy - from_files).abs() <= 0.001,
        format!("Python finds {:.2} % in the files", from_files * 100.0),
    ));
    let missing: Vec<&str> = ["model.safetensors", "model.json", "run.toml", "history.csv"]
        .into_iter()
        .filter(|file| !results.join(file).is_file())
        .collect();
    facts.push((missing.is_empty(), format!("files that lack: {missing:?}")));
    Ok(facts)
}

/// The digits' validation part as IDX files, for a short form that needs no other data.
fn digits_as_idx(run_file: &str) -> anyhow::Result<(TempDir, PathBuf, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.toml");
    std::fs::write(&path, run_file)?;
    let held_out = runfile::load(&path)?.dataset.validation;
    let (features, labels) = (folder.path().join("features"), folder.path().join("labels"));
    let count = held_out.len() as u32;
    let classes: Vec<u8> = held_out.labels.iter().map(|&label| label as u8).collect();
    std::fs::write(&features, idx(&[count, 8, 8], held_out.features.bytes()))?;
    std::fs::write(&labels, idx(&[count], &classes))?;
    Ok((folder, features, labels))
}

async fn short(run_file: &str, each: &[&[&str]], least: f64) -> anyhow::Result<Measured> {
    let (_folder, features, labels) = digits_as_idx(run_file)?;
    let server = Server::start(run_file).await?;
    let workers = start(&server, each).await?;
    Ok(Measured::all(&judged(server, workers, &features, &labels, least).await?))
}

/// Starts workers one after the other: each when those before it have passed their self-test, so that all take part.
async fn start(server: &Server, each: &[&[&str]]) -> anyhow::Result<Vec<Child>> {
    let mut started = Vec::new();
    for arguments in each {
        let wanted = server.workers()?.len() + 1;
        started.push(worker(server, arguments)?);
        let admitted = |workers: &[Value]| workers.iter().filter(|worker| worker["admitted"] == true).count() >= wanted;
        server.until_workers("a worker that passed its self-test", admitted).await?;
    }
    Ok(started)
}

async fn full(name: &str, each: &[&[&str]], least: f64) -> anyhow::Result<Measured> {
    let server = example(name).await?;
    let workers = start(&server, each).await?;
    let data = Path::new(DATA);
    let (features, labels) = (data.join("t10k-images-idx3-ubyte.gz"), data.join("t10k-labels-idx1-ubyte.gz"));
    Ok(Measured::all(&judged(server, workers, &features, &labels, least).await?))
}

/// Arguments of `kindling worker` for one tab on the CPU.
pub const ONE_TAB: &[&str] = &["--backend", "cpu"];
/// For two of them in one browser.
pub const TWO_TABS: &[&str] = &["--count", "2", "--backend", "cpu"];
const TWO_NATIVE: &[&[&str]] = &[&["--native", "--count", "2"]];
/// The slower one first, so that it is there when the fast one begins.
const ONE_OF_EACH: &[&[&str]] = &[ONE_TAB, &["--native"]];

pub async fn mlp(scale: Scale) -> anyhow::Result<Measured> {
    if scale == Scale::Full {
        return full("fashion-mnist.toml", &[TWO_TABS], 0.86).await;
    }
    short(&small_digits(12, "upload_codec = \"int8\"\ndownload_codec = \"f16\""), &[&["--native"]], 0.85).await
}

/// Two layers of convolution on the digits.
fn small_cnn() -> String {
    small_digits(4, "rule = \"agn\"\ncommunication_window = 2").replace(
        "{ kind = \"flatten\" }, ",
        "{ kind = \"conv2d\", filters = 4, kernel_size = 3, padding = \"same\" }, { kind = \"relu\" }, \
         { kind = \"conv2d\", filters = 4, kernel_size = 3 }, { kind = \"max_pool2d\", size = 2 }, { kind = \"flatten\" }, ",
    )
}

pub async fn cnn(scale: Scale) -> anyhow::Result<Measured> {
    if scale == Scale::Full {
        return full("fashion-mnist-cnn.toml", TWO_NATIVE, 0.89).await;
    }
    short(&small_cnn(), TWO_NATIVE, 0.5).await
}

pub async fn native(scale: Scale) -> anyhow::Result<Measured> {
    let mut facts = Vec::new();
    for (who, each) in [("two native workers", TWO_NATIVE), ("one native, one tab", ONE_OF_EACH)] {
        let measured = match scale {
            Scale::Full => full("fashion-mnist.toml", each, 0.86).await?,
            Scale::Short => short(&small_digits(16, "rule = \"downpour\""), each, 0.85).await?,
        };
        facts.push((measured.pass, format!("{who}: {}", measured.words)));
    }
    Ok(Measured::all(&facts))
}
