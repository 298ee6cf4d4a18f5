//! Compiles the gate of synchronised starts (gate/) with the C compiler of the target. What comes out is part of the
//! engine's binary, so that agents bring it along. It needs no C library, and so fits every system that the engine
//! fits.
#![allow(
    clippy::disallowed_methods,
    reason = "a build script has no agent to start the compiler, or to read the environment"
)]

use std::path::{Path, PathBuf};

/// For both, beside the warnings.
const FLAGS: [&str; 9] = [
    "-std=c11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wconversion",
    "-ffreestanding",
    "-fno-stack-protector",
    "-nostdlib",
];

fn main() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../gate");
    println!("cargo:rerun-if-changed={}", source.display());
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names a folder"));
    compile(&source.join("preload.c"), &folder.join("gate.so"), &["-fPIC", "-shared"]);
    compile(&source.join("exec.c"), &folder.join("gate"), &["-static", "-fno-pie", "-no-pie"]);
}

fn compile(source: &Path, into: &Path, kind: &[&str]) {
    let mut build = cc::Build::new();
    build.warnings(false).cargo_metadata(false).no_default_flags(true);
    let mut command = build.get_compiler().to_command();
    command
        .args(FLAGS)
        .args(kind)
        .arg("-Wl,--build-id=none")
        .arg("-s")
        .arg("-o")
        .arg(into)
        .arg(source);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => {
            panic!("failed to compile {}: {command:?} ended with {status}", source.display())
        }
        Err(error) => panic!(
            "failed to compile {}: start {command:?}: {error}; a C compiler is needed (Debian: gcc), or name one in CC",
            source.display()
        ),
    }
}
