//! What an application prefers: throughput or a short queue. A flow's preference may change while it runs.
//!
//! The preferences and their factors are those of Libra (CoNEXT 2021, §5.2): Th-1 and Th-2 weigh the utility's rate twice
//! and three times, La-1 and La-2 its delay gradient.

use std::fmt;
use std::str::FromStr;

/// A preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// The algorithm's own weights.
    #[default]
    Default,
    /// Throughput.
    Th1,
    /// Throughput, more so.
    Th2,
    /// Low delay.
    La1,
    /// Low delay, more so.
    La2,
}

impl Preference {
    /// Every preference.
    pub const ALL: [Preference; 5] =
        [Preference::Default, Preference::Th1, Preference::Th2, Preference::La1, Preference::La2];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Preference::Default => "default",
            Preference::Th1 => "th-1",
            Preference::Th2 => "th-2",
            Preference::La1 => "la-1",
            Preference::La2 => "la-2",
        }
    }

    /// Factors on the weights of the rate and of the delay gradient.
    pub fn factors(self) -> (f64, f64) {
        match self {
            Preference::Default => (1.0, 1.0),
            Preference::Th1 => (2.0, 1.0),
            Preference::Th2 => (3.0, 1.0),
            Preference::La1 => (1.0, 2.0),
            Preference::La2 => (1.0, 3.0),
        }
    }
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no such preference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown preference \"{0}\"; known are default, th-1, th-2, la-1, la-2")]
pub struct UnknownPreference(String);

impl FromStr for Preference {
    type Err = UnknownPreference;

    fn from_str(text: &str) -> Result<Preference, UnknownPreference> {
        let found = Preference::ALL.into_iter().find(|preference| preference.name() == text);
        found.ok_or_else(|| UnknownPreference(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_and_another_is_answered_with_all() {
        for preference in Preference::ALL {
            assert_eq!(preference.to_string().parse(), Ok(preference));
        }
        let error = "fast".parse::<Preference>().unwrap_err().to_string();
        assert!(Preference::ALL.iter().all(|known| error.contains(known.name())), "{error}");
    }
}
