//! The wasm module: compiled, bound, checked for SIMD, and for a release made small.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use wasm_bindgen_cli_support::Bindgen;
use wasmparser::{Operator, Parser, Payload};

use crate::{Profile, assets, process, stamp, target};

/// The module's target.
pub const TARGET: &str = "wasm32-unknown-unknown";
/// Without it flex is 2.7 times slower. A RUSTFLAGS variable of the caller would replace it: it is set here.
const FLAGS: &str = "-C target-feature=+simd128";

/// The module's static constructors, which the worker's script calls once.
const CONSTRUCTORS: &str = "__wasm_call_ctors";

/// Builds the module into the assets of `profile`.
pub fn build(profile: Profile) -> anyhow::Result<()> {
    add_target()?;
    let cargo_profile = match profile {
        Profile::Debug => "wasm-dev",
        Profile::Release => "wasm-release",
    };
    process::run(
        process::cargo()
            .args(["build", "--package", "kindling-client", "--target", TARGET, "--profile", cargo_profile])
            .env("RUSTFLAGS", FLAGS)
            .env_remove("CARGO_ENCODED_RUSTFLAGS"),
    )?;
    let module = target().join(TARGET).join(cargo_profile).join("kindling_client.wasm");
    let out = assets(profile).join("wasm");
    std::fs::create_dir_all(&out)?;
    let made_from = stamp::hash(&[&module])?;
    stamp::unless_done(&out.join(".stamp"), &made_from, || {
        check_module(&module)?;
        let mut bindgen = Bindgen::new();
        bindgen.input_path(&module).web(true)?.typescript(false).out_name("kindling_client");
        bindgen.generate(&out).context("wasm-bindgen failed")?;
        if profile == Profile::Release { shrink(&out.join("kindling_client_bg.wasm")) } else { Ok(()) }
    })
}

/// Adds the target where it is missing.
pub fn add_target() -> anyhow::Result<()> {
    let installed = process::output(Command::new("rustup").args(["target", "list", "--installed"]))
        .context("rustup is needed for the wasm target: install Rust by rustup, see the README")?;
    if installed.lines().any(|line| line.trim() == TARGET) {
        return Ok(());
    }
    process::run(Command::new("rustup").args(["target", "add", TARGET]))
        .context("the wasm target cannot be added: is there a network?")
}

/// What no compiler would find: a module without SIMD is only slow, and one without its constructors does not start.
fn check_module(module: &Path) -> anyhow::Result<()> {
    let bytes = std::fs::read(module)?;
    let (mut simd, mut constructors) = (false, false);
    for payload in Parser::new(0).parse_all(&bytes) {
        match payload? {
            Payload::ExportSection(exports) => {
                for export in exports {
                    constructors |= export?.name == CONSTRUCTORS;
                }
            }
            Payload::CodeSectionEntry(body) if !simd => {
                for operator in body.get_operators_reader()? {
                    simd |= matches!(operator?, Operator::F32x4Mul | Operator::F32x4Add);
                }
            }
            _ => {}
        }
    }
    let module = module.display();
    if !simd {
        bail!("{module} holds no SIMD opcode: training would be 2.7 times slower; is the target's feature set?");
    }
    if !constructors {
        bail!("{module} does not export {CONSTRUCTORS}, which the worker's script calls; see client-wasm/build.rs");
    }
    Ok(())
}

/// The one of `node_modules`: older ones on PATH break the module.
fn shrink(module: &Path) -> anyhow::Result<()> {
    let script = PathBuf::from("web/node_modules/binaryen/bin/wasm-opt");
    process::run(
        Command::new("node")
            .arg(script)
            .args([
                "-O2",
                "--strip-debug",
                "--enable-simd",
                "--enable-bulk-memory",
                "--enable-nontrapping-float-to-int",
            ])
            .args(["--enable-sign-ext", "--enable-mutable-globals", "--enable-reference-types", "--enable-multivalue"])
            .arg(module)
            .arg("-o")
            .arg(module),
    )
}
