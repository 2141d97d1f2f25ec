//! Links the programs that boot as one object at a fixed address, without the C library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=link.ld");
    if std::env::var_os("CARGO_FEATURE_FREESTANDING").is_none() {
        return;
    }
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("Cargo says where the package is");
    for argument in [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-Wl,--build-id=none",
        "-Wl,-z,max-page-size=4096",
        "-Wl,-z,norelro",
        "-Wl,-z,noexecstack",
        "-Wl,--no-eh-frame-hdr",
        "-Wl,--gc-sections",
    ] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{folder}/link.ld");
}
