//! `kindling data`: get well-known data sets, checked.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use flate2::read::GzDecoder;
use sha2::{Digest as _, Sha256};

/// Gets and checks data.
#[derive(Args, Debug)]
#[command(after_help = "Example: kindling data fetch fashion-mnist --from /usr/share/datasets/fashion-mnist")]
pub struct DataArgs {
    #[command(subcommand)]
    command: DataCommand,
}

#[derive(Subcommand, Debug)]
enum DataCommand {
    /// Copy a data set's files from a folder or an address, and check that they are the right ones.
    Fetch {
        /// The data set: `fashion-mnist`.
        name: String,
        /// The folder, or the http(s) address, that holds its files.
        #[arg(long, value_name = "URL-OR-FOLDER")]
        from: String,
        /// Where to put them.
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
}

/// A data set whose files are known by their unpacked bytes.
struct Known {
    name: &'static str,
    /// File name, SHA-256 of the unpacked bytes.
    files: &'static [(&'static str, &'static str)],
}

const KNOWN: &[Known] = &[Known {
    name: "fashion-mnist",
    files: &[
        ("train-images-idx3-ubyte.gz", "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
        ("train-labels-idx1-ubyte.gz", "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
        ("t10k-images-idx3-ubyte.gz", "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
        ("t10k-labels-idx1-ubyte.gz", "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
    ],
}];

/// A server that takes longer to answer does not.
const LONGEST_CONNECT: Duration = Duration::from_secs(60);
/// Bytes of one file, packed or unpacked.
const MOST_BYTES: u64 = 1 << 30;

/// Does what was asked.
pub fn run(args: &DataArgs) -> anyhow::Result<()> {
    let DataCommand::Fetch { name, from, to } = &args.command;
    let known = KNOWN.iter().find(|known| known.name == name).with_context(|| {
        let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
        format!("no data set {name:?} is known: there are {}", names.join(", "))
    })?;
    let to = to.clone().unwrap_or_else(|| Path::new("kindling-data/datasets").join(name));
    std::fs::create_dir_all(&to).with_context(|| format!("{} cannot be made", to.display()))?;
    for (file, hash) in known.files {
        fetch(from, file, hash, &to.join(file))?;
    }
    println!("{}", to.display());
    Ok(())
}

/// A file that is wrong leaves nothing behind.
fn fetch(from: &str, file: &str, hash: &str, to: &Path) -> anyhow::Result<()> {
    let source = format!("{}/{file}", from.trim_end_matches('/'));
    let partial = to.with_extension("partial");
    let copied = copy(&source, &partial).and_then(|()| check(&source, &partial, hash));
    if let Err(error) = copied {
        // It may not have been made at all.
        let _ = std::fs::remove_file(&partial);
        return Err(error);
    }
    std::fs::rename(&partial, to).with_context(|| format!("{} cannot be written", to.display()))
}

fn copy(source: &str, to: &Path) -> anyhow::Result<()> {
    let mut reader: Box<dyn Read> = if source.starts_with("http://") || source.starts_with("https://") {
        let answer = ureq::get(source)
            .config()
            .timeout_connect(Some(LONGEST_CONNECT))
            .timeout_recv_response(Some(LONGEST_CONNECT))
            .build()
            .call()
            .with_context(|| format!("{source}: no answer; is the address right?"))?;
        Box::new(answer.into_body().into_reader())
    } else {
        Box::new(File::open(source).with_context(|| format!("{source} cannot be read; is the folder right?"))?)
    };
    let mut file = File::create(to).with_context(|| format!("{} cannot be written", to.display()))?;
    std::io::copy(&mut reader.by_ref().take(MOST_BYTES), &mut file).with_context(|| format!("{source} breaks off"))?;
    Ok(file.sync_all()?)
}

fn check(source: &str, file: &Path, expected: &str) -> anyhow::Result<()> {
    let mut hash = Sha256::new();
    std::io::copy(&mut GzDecoder::new(File::open(file)?).take(MOST_BYTES), &mut hash)
        .with_context(|| format!("{source} is no gzip file, or damaged: get it from elsewhere"))?;
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found != expected {
        bail!("{source} is not the file it should be: its bytes hash to {found}, expected {expected}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_right_file_is_copied_and_a_wrong_one_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"hello").expect("packs");
        std::fs::write(folder.path().join("x.gz"), encoder.finish().expect("packs")).expect("writes");
        std::fs::write(folder.path().join("plain.gz"), b"hello").expect("writes");
        let from = folder.path().display().to_string();
        let to = folder.path().join("out.gz");
        let right = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        fetch(&from, "x.gz", right, &to).expect("is right");
        assert!(to.exists());
        std::fs::remove_file(&to).expect("removes");
        for (file, hash, words) in [
            ("x.gz", "00", "not the file it should be"),
            ("plain.gz", right, "no gzip file"),
            ("no.gz", right, "cannot be read"),
        ] {
            let error = format!("{:#}", fetch(&from, file, hash, &to).expect_err("is wrong"));
            assert!(error.contains(words) && error.contains(file), "{error}");
            assert!(!to.exists() && !to.with_extension("partial").exists());
        }
    }
}
