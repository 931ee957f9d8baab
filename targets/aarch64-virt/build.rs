//! Hands the linker script to bare-metal builds.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo::rustc-link-arg-bins=-T{folder}/link.x");
        if std::env::var_os("CARGO_FEATURE_DEFMT").is_some() {
            println!("cargo::rustc-link-arg-bins=-Tdefmt.x");
        }
    }
    println!("cargo::rerun-if-changed=link.x");
}
