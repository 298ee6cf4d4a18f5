//! Notes what `--version` says beside the version: the commit that the sources are of, and the
//! machine type that they are built for. RAKUDA_COMMIT names the commit where the sources are no
//! checkout, as in packages; without it none is noted.
#![allow(
    clippy::disallowed_methods,
    reason = "a build script has no agent to start git, or to read the environment"
)]

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=RAKUDA_COMMIT");
    // What changes with each commit, and with each change of the branch.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let given = std::env::var("RAKUDA_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo:rustc-env=RAKUDA_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo:rustc-env=RAKUDA_TARGET={target}");
}

/// What git says. `None` where there is no git or no checkout.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
