//! Tells the binary which commit it was built from, so that every result names it.

use std::path::Path;
use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    // The log of HEAD grows with every commit and checkout. Without git (a source archive) there is
    // nothing to watch, and results carry the version alone.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|path| Path::new(path).exists());
    println!("cargo::rerun-if-changed={}", log.as_deref().unwrap_or("build.rs"));
    match commit {
        Some(commit) => println!("cargo::rustc-env=ANOLE_VERSION={version}+{commit}"),
        None => println!("cargo::rustc-env=ANOLE_VERSION={version}"),
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}
