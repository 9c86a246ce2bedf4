//! Parameters of laws and algorithms: a struct of numbers, each with a name, a default, bounds and a source.

use anole_model::names::{did_you_mean, nearest};
use std::collections::BTreeMap;

/// A parameter that a user may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Name, as in `--set param.NAME=VALUE`.
    pub name: &'static str,
    /// Default value.
    pub default: f64,
    /// Smallest value allowed.
    pub min: f64,
    /// Largest value allowed.
    pub max: f64,
    /// Meaning, unit and source.
    pub doc: &'static str,
}

/// Why parameters are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// There is no such parameter.
    #[error("unknown parameter \"{name}\"{}", did_you_mean(nearest.as_deref()))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest name.
        nearest: Option<String>,
    },
    /// A value makes no sense.
    #[error("parameter {name} is {value}; it has to lie between {min} and {max}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: String,
        /// Smallest value allowed.
        min: String,
        /// Largest value allowed.
        max: String,
    },
}

impl ParameterError {
    /// The parameter that was asked for.
    pub fn name(&self) -> &str {
        match self {
            ParameterError::Unknown { name, .. } => name,
            ParameterError::OutOfRange { name, .. } => name,
        }
    }
}

/// Refuses names that are not in `known` and values outside their bounds.
pub fn check(known: &[Parameter], given: &BTreeMap<String, f64>) -> Result<(), ParameterError> {
    for (name, &value) in given {
        let Some(p) = known.iter().find(|p| p.name == name) else {
            let nearest = nearest(name, known.iter().map(|p| p.name));
            return Err(ParameterError::Unknown { name: name.clone(), nearest });
        };
        if !(p.min..=p.max).contains(&value) {
            return Err(ParameterError::OutOfRange {
                name: p.name,
                value: value.to_string(),
                min: p.min.to_string(),
                max: p.max.to_string(),
            });
        }
    }
    Ok(())
}

/// Declares a struct of `f64` parameters with its list of [`Parameter`]s. Each line reads
/// `name = default, min..=max, "meaning, unit, source";`.
#[macro_export]
macro_rules! parameters {
    ($(#[$meta:meta])* $vis:vis struct $Name:ident {
        $($field:ident = $default:expr, $min:literal ..= $max:literal, $doc:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        $vis struct $Name {
            $(#[doc = $doc] pub $field: f64,)*
        }

        impl $Name {
            /// Every parameter with its default, bounds and source.
            pub const PARAMETERS: &'static [$crate::params::Parameter] = &[
                $($crate::params::Parameter {
                    name: stringify!($field), default: $default, min: $min, max: $max, doc: $doc,
                },)*
            ];

            /// The defaults with the values in `given` put over them.
            pub fn with(given: &std::collections::BTreeMap<String, f64>) -> Result<Self, $crate::ParameterError> {
                $crate::params::check(Self::PARAMETERS, given)?;
                Ok($Name { $($field: given.get(stringify!($field)).copied().unwrap_or($default),)* })
            }
        }

        impl Default for $Name {
            fn default() -> Self {
                $Name { $($field: $default,)* }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    parameters! {
        struct Sample {
            gain = 2.0, 1.0..=4.0, "A gain.";
            steps = 3.0, 0.0..=9.0, "A count.";
        }
    }

    #[test]
    fn values_are_put_over_defaults_and_checked() {
        let given = |name: &str, value: f64| BTreeMap::from([(name.to_string(), value)]);
        assert_eq!(Sample::with(&BTreeMap::new()).unwrap(), Sample::default());
        assert_eq!(Sample::with(&given("gain", 3.5)).unwrap(), Sample { gain: 3.5, steps: 3.0 });
        let unknown = Sample::with(&given("gian", 2.0)).unwrap_err();
        assert_eq!(unknown.to_string(), "unknown parameter \"gian\"; did you mean gain?");
        for value in [f64::NAN, 5.0, f64::INFINITY] {
            assert!(matches!(
                Sample::with(&given("gain", value)),
                Err(ParameterError::OutOfRange { name: "gain", .. })
            ));
        }
    }
}
