//! How fast it is, judged by the ratios of `cargo xtask bench`. The short forms look only whether the benchmarks work.

use std::time::Duration;

use anyhow::Context as _;
use kindling_shared::params::Codec;
use serde_json::Value;
use tokio::process::Command;

use crate::bench::{apply, echo, exchange, training};
use crate::{Measured, Scale};

/// The lines of a benchmark.
async fn bench(name: &str) -> anyhow::Result<Vec<Value>> {
    let output = Command::new("cargo")
        .args(["xtask", "bench", name])
        .env_remove("KINDLING_SERVER")
        .stderr(std::process::Stdio::inherit())
        .output()
        .await?;
    anyhow::ensure!(output.status.success(), "cargo xtask bench {name}: {}", output.status);
    let lines = String::from_utf8(output.stdout)?;
    lines
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).context("a line"))
        .collect()
}

/// What dist-keras' own server, in Python, reached of a bare echo's rate where both ran on one machine: for each length of
/// the vector, with 1, 2 and 8 sessions. A share compares between machines, where exchanges a second do not.
const DIST_KERAS: [(f64, [f64; 3]); 2] = [(203_530.0, [0.51, 0.70, 0.55]), (5_000_000.0, [0.51, 0.48, 0.59])];

fn value(line: &Value, pointer: &str) -> f64 {
    line.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

pub async fn exchange(scale: Scale) -> anyhow::Result<Measured> {
    if scale == Scale::Short {
        let effort = exchange::Effort { rounds: 1, seconds: 0.2 };
        let (url, echoing) = echo::start().await?;
        let echoing = tokio::spawn(echoing);
        let baseline = exchange::Baseline { url: &url, id: std::process::id() };
        let mut rates = Vec::new();
        for codec in Codec::ALL {
            rates.push(exchange::measure(exchange::SMALL, 2, codec, effort, baseline).await?.rate.median);
        }
        echoing.abort();
        return Ok(Measured::all(&[(
            rates.iter().all(|rate| *rate > 0.0),
            format!("exchanges a second: {rates:.0?}"),
        )]));
    }
    let lines = bench("exchange").await?;
    let cell = |parameters: f64, sessions: f64, codec: &str| {
        lines.iter().find(|line| {
            value(line, "/parameters") == parameters && value(line, "/sessions") == sessions && line["codec"] == codec
        })
    };
    let mut facts = vec![(lines.len() == 12, format!("{} cells", lines.len()))];
    for (parameters, dist_keras) in DIST_KERAS {
        for (sessions, dist_keras) in [1.0, 2.0, 8.0].into_iter().zip(dist_keras) {
            let exact = cell(parameters, sessions, "f32").context("no cell")?;
            let (ratio, rate) = (value(exact, "/ratio/median"), value(exact, "/rate/median"));
            let words = format!(
                "{parameters} x {sessions}: {rate:.0}/s, {:.0} % of the echo (dist-keras {:.0}), {:.2} ms of CPU (echo {:.2}), peak {:.0} MiB",
                ratio * 100.0,
                dist_keras * 100.0,
                value(exact, "/server_cpu_ms"),
                value(exact, "/echo_cpu_ms"),
                value(exact, "/server_peak_mib")
            );
            facts.push((ratio >= 0.6 && ratio > dist_keras, words));
            if parameters > 1e6 {
                let small = cell(parameters, sessions, "int8").context("no cell")?;
                let gain = value(small, "/rate/median") / rate;
                facts.push((gain >= 2.0, format!("int8 is {gain:.1} times as fast")));
            }
        }
    }
    Ok(Measured::all(&facts))
}

pub async fn apply(scale: Scale) -> anyhow::Result<Measured> {
    if scale == Scale::Short {
        let ratios: Vec<f64> = Codec::ALL
            .iter()
            .map(|&codec| apply::measure(50_000, codec, 1, Duration::from_millis(20)).ratio.median)
            .collect();
        return Ok(Measured::all(&[(ratios.iter().all(|ratio| *ratio > 0.0), format!("of axpy: {ratios:.2?}"))]));
    }
    let facts = bench("apply").await?;
    let fact = |line: &Value| {
        let ratio = value(line, "/ratio/median");
        let words = format!(
            "{} of {}: {:.1} GB/s, {:.0} % of axpy",
            line["codec"],
            line["parameters"],
            value(line, "/gb_per_second/median"),
            ratio * 100.0
        );
        (ratio >= 0.6, words)
    };
    let facts: Vec<(bool, String)> = facts.iter().map(fact).collect();
    anyhow::ensure!(facts.len() == 6, "{} lines", facts.len());
    Ok(Measured::all(&facts))
}

pub async fn training(scale: Scale) -> anyhow::Result<Measured> {
    if scale == Scale::Short {
        let folder = tempfile::tempdir()?;
        let training::Round { worker, bare } = training::once("10", 1.0, folder.path()).await?;
        return Ok(Measured::all(&[(
            worker > 0.0 && bare > 0.0,
            format!("steps a second: {worker:.0}, bare {bare:.0}"),
        )]));
    }
    let lines = bench("training").await?;
    anyhow::ensure!(lines.len() == training::WINDOWS.len(), "{} lines", lines.len());
    let mut facts = Vec::new();
    for line in &lines {
        let (loop_ratio, to_tfjs) = (value(line, "/worker_over_bare/median"), value(line, "/bare_over_tfjs/median"));
        let words = format!(
            "window {}: worker {:.0}, bare {:.0}, tf.js {:.0} steps/s: {:.0} % of bare, {to_tfjs:.1} times tf.js",
            line["window"],
            value(line, "/worker/median"),
            value(line, "/bare/median"),
            value(line, "/tfjs/median"),
            loop_ratio * 100.0
        );
        let judged = line["window"] == "50";
        facts.push((!judged || (loop_ratio >= 0.9 && to_tfjs >= 5.0), words));
    }
    Ok(Measured::all(&facts))
}
