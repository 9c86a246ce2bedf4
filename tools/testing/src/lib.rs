//! What tests tell besides pass and fail: that they were skipped, and figures over real packets.
//!
//! Each goes as one line to the file that an environment variable names; the runner of all tests collects them
//! (`tools/test.sh`, `tools/check-realtime.sh`). Without the variable a skip is only printed, and a figure is lost.
//!
//! | variable | a line | fails |
//! |---|---|---|
//! | `ANOLE_SKIPS` | `PACKAGE/CRATE::TEST: reason` | under CI, unless `tools/allowed-skips.txt` names it |
//! | `ANOLE_FIGURES` | what, tab, expected, tab, seen, tab, `met` or `missed` | `make check-realtime`, never a test |

#![allow(clippy::disallowed_methods, reason = "reads the environment and appends to files, for tests only")]

use std::fs::OpenOptions;
use std::io::Write;
use std::ops::{Bound, RangeBounds};
use std::process::Command;

/// Tells why the calling test cannot run here. It takes what `format!` takes; the caller then returns.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {
        $crate::skipped(
            concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_CRATE_NAME")),
            &format!($($reason)+),
        )
    };
}

/// What [`skip!`] does: prints the reason, and appends it to `$ANOLE_SKIPS` with the name of the test, which is that
/// of its thread.
pub fn skipped(krate: &str, reason: &str) {
    let reason = one_line(reason);
    eprintln!("skipped: {reason}");
    let thread = std::thread::current();
    append("ANOLE_SKIPS", &format!("{krate}::{}: {reason}", thread.name().unwrap_or("unknown")));
}

/// Checks what all programs have in common: the name and version that they tell, how they refuse, and that they write
/// manual pages and completions. `path` is the program `name`.
pub fn command_line(name: &str, path: &str) {
    let run = |arguments: &[&str]| {
        let output = Command::new(path).args(arguments).output().expect("the program starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, version, _) = run(&["--version"]);
    let words: Vec<&str> = version.split_whitespace().collect();
    assert_eq!((code, words.first().copied(), words.len()), (Some(0), Some(name), 2), "{version}");
    // Outside a git checkout the commit is not known.
    let commit = words[1].split_once('+').map(|(_, commit)| commit);
    assert!(commit.is_none_or(|commit| commit.len() >= 12), "{version}");
    let (code, help, error) = run(&["--help"]);
    assert!(code == Some(0) && help.contains("Usage:") && error.is_empty(), "{help}{error}");
    let (code, out, error) = run(&["--no-such-flag"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{error}");
    assert!(error.starts_with(&format!("{name}: ")) && !error.contains("error:"), "{error}");
    let folder = std::env::temp_dir().join(format!("{name}-pages-{}", std::process::id()));
    let (code, _, error) = run(&["write-pages", &folder.to_string_lossy()]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    for file in [format!("man1/{name}.1"), format!("completions/{name}.bash"), format!("completions/_{name}")]
    {
        assert!(folder.join(&file).is_file(), "{file}");
    }
    std::fs::remove_dir_all(&folder).expect("the pages can be removed");
}

/// Whether figures are wanted: a test may then run for longer.
pub fn measuring() -> bool {
    std::env::var_os("ANOLE_FIGURES").is_some()
}

/// Notes a figure that depends on the host: a rate, a share or a time over real packets. It never fails the test.
pub fn figure(what: &str, expected: impl RangeBounds<f64>, seen: f64) {
    let verdict = if expected.contains(&seen) { "met" } else { "missed" };
    append("ANOLE_FIGURES", &format!("{}\t{}\t{seen:.3}\t{verdict}", one_line(what), show(&expected)));
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn show(range: &impl RangeBounds<f64>) -> String {
    let end = |bound: Bound<&f64>| match bound {
        Bound::Included(end) | Bound::Excluded(end) => Some(*end),
        Bound::Unbounded => None,
    };
    match (end(range.start_bound()), end(range.end_bound())) {
        (Some(low), Some(high)) if low == high => format!("{low}"),
        (Some(low), Some(high)) => format!("{low} to {high}"),
        (Some(low), None) => format!("at least {low}"),
        (None, Some(high)) => format!("at most {high}"),
        (None, None) => "any".to_string(),
    }
}

/// One write per line: tests run in parallel.
fn append(variable: &str, line: &str) {
    let Some(path) = std::env::var_os(variable) else { return };
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap_or_else(|error| panic!("${variable}, {}: {error}", path.display()));
    file.write_all(format!("{line}\n").as_bytes())
        .unwrap_or_else(|error| panic!("${variable}, {}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Run by the test below, with both variables set.
    #[test]
    #[ignore = "what lines_go_to_the_files_that_are_named() runs"]
    fn tells() {
        crate::skip!("no {},\n or none", "TUN");
        crate::figure("share", 0.7..=1.0, 0.65);
        crate::figure("rate\tMbps", 12.0.., 13.0);
        crate::figure("time", ..90.0, f64::NAN);
        assert!(crate::measuring());
    }

    #[test]
    fn lines_go_to_the_files_that_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (skips, figures) = (folder.path().join("skips"), folder.path().join("figures"));
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "tests::tells"])
            .envs([("ANOLE_SKIPS", &skips), ("ANOLE_FIGURES", &figures)])
            .output()
            .unwrap();
        assert!(run.status.success(), "{run:?}");
        let skips = std::fs::read_to_string(skips).unwrap();
        assert!(skips.starts_with("anole-testing/anole_testing::") && skips.ends_with(": no TUN, or none\n"));
        assert_eq!(
            std::fs::read_to_string(figures).unwrap(),
            "share\t0.7 to 1\t0.650\tmissed\nrate Mbps\tat least 12\t13.000\tmet\ntime\tat most 90\tNaN\tmissed\n"
        );
    }
}
