//! What is wrong with a scenario, and where.

use std::ops::Range;

/// The span of a value that came from `--set` instead of the file.
pub(super) const FROM_SET: Range<usize> = usize::MAX..usize::MAX;

/// Longest scenario file, bytes; the longest that comes with the program has a few thousand.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// A scenario that cannot be run: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// Something in the file.
    #[error("{file}:{line}: {message}")]
    File {
        /// The file as the user named it.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong and what to do.
        message: String,
    },
    /// Something in a `--set` option.
    #[error("--set {option}: {message}")]
    Set {
        /// The option.
        option: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// A value from a `--set` option that does not fit the rest of the scenario.
    #[error("{file}, with --set: {message}")]
    Combined {
        /// The file as the user named it.
        file: String,
        /// What is wrong and what to do.
        message: String,
    },
}

/// The file that is being read.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub text: &'a str,
    pub file: &'a str,
}

impl Origin<'_> {
    pub fn error(&self, span: Range<usize>, message: impl Into<String>) -> ScenarioError {
        let (file, message) = (self.file.to_string(), message.into());
        match self.line(&span) {
            Some(line) => ScenarioError::File { file, line, message },
            None => ScenarioError::Combined { file, message },
        }
    }

    /// Where a value stands, for errors that are found when the scenario has been read.
    pub fn place(&self, span: &Range<usize>) -> String {
        match self.line(span) {
            Some(line) => format!("{}:{line}", self.file),
            None => format!("{}, with --set", self.file),
        }
    }

    /// The line from 1; none for what came from `--set`.
    fn line(&self, span: &Range<usize>) -> Option<usize> {
        let before = self.text.as_bytes().iter().take(span.start);
        (*span != FROM_SET).then(|| 1 + before.filter(|&&b| b == b'\n').count())
    }

    /// What the TOML reader says, on one line.
    pub fn syntax(&self, error: &toml::de::Error) -> ScenarioError {
        let message = error.message().trim().replace('\n', "; ");
        self.error(error.span().unwrap_or(0..0), message)
    }
}
