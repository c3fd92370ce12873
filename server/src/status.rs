//! `kindling status`: the runs of a server in a line each, or as the API gives them.

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::Value;

/// A server that takes longer does not answer.
const LONGEST: Duration = Duration::from_secs(30);

/// Shows the runs of a server.
#[derive(Args, Debug)]
#[command(after_help = "Example: kindling status http://127.0.0.1:7878 --json")]
pub struct StatusArgs {
    /// The server's address, as `kindling serve` prints it.
    url: String,
    /// Only this run.
    #[arg(long)]
    run: Option<String>,
    /// Print what `GET /api/v1/runs/ID` answers, as an array.
    #[arg(long)]
    json: bool,
}

/// Asks the server and prints what it says.
pub fn show(args: &StatusArgs) -> anyhow::Result<()> {
    let root = args.url.trim_end_matches('/');
    let listed: Vec<Value> = get(&format!("{root}/api/v1/runs"))?;
    let ids: Vec<&str> = listed
        .iter()
        .filter_map(|run| run["id"].as_str())
        .filter(|id| args.run.as_deref().is_none_or(|wanted| wanted == *id))
        .collect();
    if let Some(wanted) = &args.run
        && ids.is_empty()
    {
        bail!("{root} hosts no run {wanted:?}: `kindling status {root}` lists what it hosts");
    }
    let runs = ids.iter().map(|id| get(&format!("{root}/api/v1/runs/{id}"))).collect::<anyhow::Result<Vec<Value>>>()?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&runs)?);
    } else {
        for run in &runs {
            println!("{}", line(run));
        }
    }
    Ok(())
}

fn get<T: serde::de::DeserializeOwned>(url: &str) -> anyhow::Result<T> {
    ureq::get(url)
        .config()
        .timeout_global(Some(LONGEST))
        .build()
        .call()
        .and_then(|mut answer| answer.body_mut().read_json())
        .with_context(|| format!("{url}: no answer; is the address right, and does the server run?"))
}

/// One run, for people.
fn line(run: &Value) -> String {
    let number = |pointer: &str| run.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let text = |key: &str| run[key].as_str().unwrap_or("?").to_owned();
    let accuracy = run
        .pointer("/metrics/accuracy")
        .and_then(Value::as_f64)
        .map_or_else(String::new, |accuracy| format!(", {:.1} % right", accuracy * 100.0));
    format!(
        "{}: {}, epoch {} of {}{accuracy}, {} of {} samples, {} workers, {} commits ({} rejected), rule {}",
        text("id"),
        text("state"),
        (number("/epoch") + 1).min(number("/epochs")),
        number("/epochs"),
        number("/samples_trained"),
        number("/epochs") * number("/train_samples"),
        number("/workers_active"),
        number("/commits/accepted"),
        number("/commits/rejected"),
        text("rule"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_one_line_with_what_a_person_asks_first() {
        let run = serde_json::json!({
            "id": "digits", "state": "running", "epoch": 2, "epochs": 5, "train_samples": 100, "samples_trained": 250,
            "workers_active": 3, "commits": { "accepted": 20, "rejected": 1 }, "rule": "dynsgd",
            "metrics": { "accuracy": 0.842 }
        });
        let expected = "digits: running, epoch 3 of 5, 84.2 % right, 250 of 500 samples, 3 workers, 20 commits \
                        (1 rejected), rule dynsgd";
        assert_eq!(line(&run), expected);
    }
}
