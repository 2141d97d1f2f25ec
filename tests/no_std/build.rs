//! Links the freestanding program without the C library and its start files.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_hosted = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if is_hosted {
        for argument in ["-nostartfiles", "-nostdlib", "-static", "-no-pie"] {
            println!("cargo::rustc-link-arg-bin=freestanding={argument}");
        }
    }
}
