//! Results on standard output and in files. A file appears whole or not at all.

use anole_sim::result::RunResult;
use anyhow::{Context, Result};
use std::fs::Permissions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Version and commit, as every result carries them.
pub use anole_cli::VERSION;

/// Rights of a result, less what the umask takes: as for any file that a program writes.
const MODE: u32 = 0o666;

/// Prints one line. Unlike `println!`, a closed or full output is an error, not a panic.
pub fn print_line(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// True when the reader of our output has gone, which is no failure of ours.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// A result as one line of JSON.
pub fn to_json(result: &RunResult) -> Result<String> {
    serde_json::to_string(result).context("cannot express a result as JSON")
}

/// A field of a CSV (RFC 4180).
pub fn csv_field(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_string(),
    }
}

/// Writes a file by way of a temporary one beside it, so that it is never seen half-written.
pub fn write_whole(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> Result<()> {
    let target = folder.join(name);
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let mut file =
            tempfile::Builder::new().permissions(Permissions::from_mode(MODE)).tempfile_in(folder)?;
        file.write_all(content.as_ref())?;
        file.as_file().sync_all()?;
        file.persist(&target)?;
        Ok(())
    };
    write().with_context(|| {
        format!("cannot write {}; check that --out names a directory with space left", target.display())
    })
}

/// Removes a file that may be there.
pub fn remove(folder: &Path, name: &str) -> Result<()> {
    let file = folder.join(name);
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

/// Finds out before a run whether its results can be written.
pub fn check_folder(folder: &Path) -> Result<()> {
    let probe = || -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        tempfile::NamedTempFile::new_in(folder).map(drop)
    };
    probe()
        .with_context(|| format!("cannot write to {}; check that --out names a directory", folder.display()))
}

/// Longest part of a file's name that spells out options; file systems take 255 bytes in all.
const SPELLED_OUT: usize = 120;

/// A text with nothing but what any file system takes.
fn plain(text: &str) -> String {
    let taken = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    text.chars().map(|c| if taken(c) { c } else { '-' }).collect()
}

/// Whether the plain text tells as much: all but one `:` (fault:low) or `=` (KEY=VALUE) is in it.
fn is_plain(text: &str) -> bool {
    plain(text) == text.replacen([':', '='], "-", 1)
}

/// What tells texts apart that are alike once they are plain and cut.
fn digits(texts: &[&str]) -> String {
    let mut hasher = DefaultHasher::new();
    texts.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// A text as part of a file's name: different texts have different names.
pub fn named(text: &str) -> String {
    if is_plain(text) { plain(text) } else { format!("{}-{}", plain(text), digits(&[text])) }
}

/// The name of a run's file: different runs have different names.
pub fn file_name(result: &RunResult) -> String {
    let options = [&result.classic, &result.policy].into_iter().flatten().chain(&result.set);
    let what: Vec<&str> = [&result.alg].into_iter().chain(options).map(String::as_str).collect();
    let all = [&[result.scenario.as_str()], &what[..]].concat();
    let mut scenario = plain(&result.scenario);
    let mut what = what.iter().map(|text| plain(text)).collect::<Vec<_>>().join("-");
    let whole = scenario.len() <= SPELLED_OUT / 2 && what.len() <= SPELLED_OUT;
    scenario.truncate(SPELLED_OUT / 2);
    what.truncate(SPELLED_OUT);
    if !whole || !all.iter().all(|text| is_plain(text)) {
        what += &format!("-{}", digits(&all));
    }
    format!("{scenario}-{}-{what}-{}.json", result.mode, result.seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        write_whole(folder.path(), "a.json", "{}").unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("a.json")).unwrap(), "{}");
        std::fs::write(folder.path().join("plain"), "").unwrap();
        let rights = |name| std::fs::metadata(folder.path().join(name)).unwrap().permissions();
        assert_eq!(rights("a.json"), rights("plain"));
        remove(folder.path(), "plain").unwrap();
        remove(folder.path(), "plain").unwrap();
        let error = write_whole(&folder.path().join("a.json"), "b.json", "{}").unwrap_err();
        assert!(format!("{error:#}").starts_with("cannot write "), "{error:#}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn texts_that_differ_have_names_that_differ() {
        for ordinary in ["anole", "c-libra+none", "fault:low", "duration_s=2", "anole-normal", "x=1e+1"] {
            assert_eq!(named(ordinary), ordinary.replace([':', '='], "-"));
        }
        let alike = ["a-b", "a/b", "a b", "a\"b", "a::b", "a:=b"].map(named);
        assert!((1..alike.len()).all(|n| !alike[..n].contains(&alike[n])), "{alike:?}");
    }

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        assert_eq!(csv_field("a"), "a");
        assert_eq!(csv_field("loss, \"5\" %"), "\"loss, \"\"5\"\" %\"");
    }
}
