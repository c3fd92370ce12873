//! WebGPU, on the software adapter that every Chromium carries: slow, and the same numbers.

use kindling::runfile;
use safetensors::SafeTensors;
use serde_json::Value;
use tokio::process::Command;

use crate::server::{Server, binary, exact, number};
use crate::{Measured, Scale, plain_loop};

/// SGD over the rule `single`, so that the run equals a plain loop: 14 steps an epoch.
const RUN: &str = r#"
name = "digits webgpu"
seed = 7
[data]
format = "digits"
validation = 0.75
transforms = [{ kind = "scale", by = 0.0625 }]
shard_samples = 64
[model]
layers = [{ kind = "flatten" }, { kind = "linear", units = 16 }, { kind = "relu" }, { kind = "linear", units = 10 }]
[worker]
batch_size = 32
optimizer = { kind = "sgd", learning_rate = 0.1 }
[strategy]
rule = "single"
[stop]
epochs = 2
"#;
const TOLERANCE: f32 = 1e-5;

pub async fn webgpu(_: Scale) -> anyhow::Result<Measured> {
    let server = Server::start(RUN).await?;
    let began = server.until("the first evaluation", |status| status["loss"]["validation"].is_f64()).await?;
    let worker = Command::new(binary()?)
        .args(["worker", "--url", &server.url, "--backend", "webgpu"])
        .arg("--browser-arg=--use-webgpu-adapter=swiftshader")
        .output()
        .await?;
    let status = server.finished().await?;
    let workers = server.workers()?;
    let device = workers.first().cloned().unwrap_or(Value::Null);
    let steps = number(&status, "/samples_trained") / 32;
    let loss = |status: &Value| status["loss"]["validation"].as_f64().unwrap_or(f64::NAN);
    let (first, last) = (loss(&began), loss(&status));
    let difference = difference_to_plain_loop(&server).await?;
    Ok(Measured::all(&[
        (
            device["backend"] == "webgpu" && device["software"] == true,
            format!(
                "ledger: backend {}, software {}, adapter {}",
                device["backend"], device["software"], device["adapter"]
            ),
        ),
        (steps >= 10, format!("{steps} steps")),
        (last < first, format!("validation loss from {first:.4} to {last:.4}")),
        (difference <= TOLERANCE, format!("largest difference to the CPU's plain loop {difference:.2e}")),
        exact(&status),
        (
            worker.status.success(),
            format!("kindling worker: {} {}", worker.status, String::from_utf8_lossy(&worker.stderr)),
        ),
    ]))
}

/// The largest difference between the run's centre and a plain loop on this machine's CPU.
async fn difference_to_plain_loop(server: &Server) -> anyhow::Result<f32> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.toml");
    std::fs::write(&path, RUN)?;
    let run = runfile::load(&path)?;
    let expected = plain_loop::train(&run).await?;
    let bytes = server.bytes(&format!("runs/{}/model.safetensors", server.run))?;
    let model = SafeTensors::deserialize(&bytes)?;
    let mut largest = 0.0_f32;
    for tensor in run.layout.tensors() {
        let found = model.tensor(&tensor.name)?;
        for (bytes, expected) in found.data().as_chunks::<4>().0.iter().zip(&expected[tensor.indices()]) {
            largest = largest.max((f32::from_le_bytes(*bytes) - expected).abs());
        }
    }
    Ok(largest)
}
