//! Bad run files: one line, exit 1.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::digits::small_digits;
use crate::idx::idx;
use crate::server::binary;
use crate::{Measured, Scale};

fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// `kindling serve` on a run file: its exit code, and what it prints as its error.
fn serve(folder: &Path, text: &str) -> anyhow::Result<(Option<i32>, String)> {
    std::fs::write(folder.join("run.toml"), text)?;
    let output = Command::new(binary()?)
        .args(["serve", "run.toml", "--listen", "127.0.0.1:0"])
        .current_dir(folder)
        .env("KINDLING_LOG", "error")
        .output()?;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

pub async fn run_files(_: Scale) -> anyhow::Result<Measured> {
    let folder = tempfile::tempdir()?;
    let good = small_digits(2, "");
    let images: Vec<u8> = (0..40 * 16).map(|value| (value % 251) as u8).collect();
    let labels: Vec<u8> = (0..40).map(|value| value % 10).collect();
    let with = |name: &str, bytes: Vec<u8>| std::fs::write(folder.path().join(name), bytes);
    with("x.gz", gzip(&idx(&[40, 4, 4], &images))?)?;
    with("x-short", idx(&[40, 4, 4], &images[..600]))?;
    with("y.gz", gzip(&idx(&[40], &labels))?)?;
    let mut wild = labels.clone();
    wild[17] = 12;
    with("y-wild", idx(&[40], &wild))?;
    let files = |x: &str, y: &str| {
        let train = format!("format = \"idx\"\ntrain = {{ features = \"{x}\", labels = \"{y}\" }}");
        good.replace("format = \"digits\"", &train)
    };
    let cases: [(&str, String, &[&str]); 8] = [
        ("unknown key", good.replace("epochs", "epoch"), &["run.toml", "line", "epoch", "did you mean `epochs`?"]),
        ("not TOML", good.replace("[data]", "[data"), &["run.toml", "line"]),
        (
            "missing file",
            files("nowhere.gz", "y.gz"),
            &["run.toml", "[data] train", "nowhere.gz", "relative to the run file"],
        ),
        (
            "truncated IDX",
            files("x-short", "y.gz"),
            &["run.toml", "[data] train", "x-short", "640", "600", "get the file again"],
        ),
        (
            "labels out of range",
            files("x.gz", "y-wild"),
            &["run.toml", "label 12 at sample 17", "10 units", "mend the labels"],
        ),
        (
            "shapes that do not fit",
            good.replace("{ kind = \"flatten\" }, ", ""),
            &["run.toml", "layer 0 (linear)", "[1, 8, 8]", "put a flatten layer in front"],
        ),
        (
            "unknown rule",
            small_digits(2, "rule = \"dynsdg\""),
            &["run.toml", "[strategy] rule", "did you mean `dynsgd`?"],
        ),
        (
            "window for single",
            small_digits(2, "rule = \"single\"\ncommunication_window = 3"),
            &["run.toml", "remove communication_window"],
        ),
    ];
    let mut facts = Vec::new();
    for (what, text, expected) in cases {
        let (code, error) = serve(folder.path(), &text)?;
        let line = error.trim_end();
        let missing: Vec<&&str> = expected.iter().filter(|word| !line.contains(**word)).collect();
        let right = code == Some(1) && !line.contains('\n') && missing.is_empty();
        facts.push((right, format!("{what}: exit {code:?}, {line:?}, lacks {missing:?}")));
    }
    let (code, error) = serve(folder.path(), &files("x.gz", "y.gz").replace("epochs = 2", "epochs = 0"))?;
    facts.push((code == Some(1), format!("epochs = 0: exit {code:?}, {:?}", error.trim_end())));
    Ok(Measured::all(&facts))
}
