//! Links the module so that its static constructors run when its user calls them, once.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A constructor for each kernel of the GPU: the linker would run all of them at every call into a module that does
    // not export them, which costs more than a local step.
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("wasm32") {
        println!("cargo::rustc-link-arg-cdylib=--export=__wasm_call_ctors");
    }
}
