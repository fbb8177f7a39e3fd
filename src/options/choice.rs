//! Options with named values, each declared once: with its name and description.

use super::describe::{Kind, first_paragraph};
use super::value::{Allowed, OptionValue, bad};
use crate::error::Result;
use serde::{Deserialize, Deserializer, Serializer, de};
use serde_json::Value;

/// An enum of named values.
pub(super) trait NamedChoice: Copy + PartialEq + 'static {
    /// Name of its option, for errors.
    const OPTION: &'static str;
    /// All values and their names.
    const ALL: &'static [(Self, &'static str)];
    /// Descriptions of the values.
    const ABOUT: &'static [&'static str];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(value, _)| *value == self).map_or("", |(_, name)| name)
    }

    fn names() -> String {
        Self::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, found)| *found == name).map(|(value, _)| *value)
    }
}

impl<T: NamedChoice> OptionValue for T {
    /// Reads a name, or true or false, which are names too.
    fn from_json(value: &Value) -> Result<Self, String> {
        let found = match value {
            Value::Bool(value) => T::named(if *value { "true" } else { "false" }),
            value => value.as_str().and_then(T::named),
        };
        found.ok_or_else(T::names)
    }

    fn outside(&self, allowed: &Allowed) -> Option<String> {
        let is_outside = matches!(allowed, Allowed::Names(names) if !names.contains(&self.name()));
        is_outside.then(|| self.name().into())
    }

    fn kind() -> Kind {
        Kind::Choice(T::ALL.iter().zip(T::ABOUT).map(|((_, name), about)| (*name, first_paragraph(about))).collect())
    }
}

pub(super) fn parse<T: NamedChoice>(name: &str) -> Result<T> {
    T::named(name).map_or_else(|| bad(T::OPTION, name, &T::names()), Ok)
}

pub(super) fn serialize<T: NamedChoice, S: Serializer>(value: T, to: S) -> Result<S::Ok, S::Error> {
    match value.name() {
        "true" => to.serialize_bool(true),
        "false" => to.serialize_bool(false),
        name => to.serialize_str(name),
    }
}

pub(super) fn deserialize<'de, T: NamedChoice, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::from_json(&Value::deserialize(from)?).map_err(|allowed| de::Error::custom(format!("expected one of {allowed}")))
}

/// Declares an enum of named values, which are read from and written to JSON by name. `for` states the option's name.
macro_rules! choice {
    (
        $(#[$about:meta])*
        pub enum $Choice:ident for $option:literal $(, default $Default:ident)? {
            $($(#[doc = $doc:literal])* $Value:ident = $name:literal,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $Choice {
            $($(#[doc = $doc])* $Value,)*
        }

        $(impl Default for $Choice {
            fn default() -> Self {
                Self::$Default
            }
        })?

        impl $crate::options::choice::NamedChoice for $Choice {
            const OPTION: &'static str = $option;
            const ALL: &'static [(Self, &'static str)] = &[$((Self::$Value, $name)),*];
            const ABOUT: &'static [&'static str] = &[$(concat!($($doc, "\n"),*)),*];
        }

        impl std::str::FromStr for $Choice {
            type Err = $crate::error::Error;

            fn from_str(name: &str) -> $crate::error::Result<Self> {
                $crate::options::choice::parse(name)
            }
        }

        impl serde::Serialize for $Choice {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::options::choice::serialize(*self, to)
            }
        }

        impl<'de> serde::Deserialize<'de> for $Choice {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::options::choice::deserialize(from)
            }
        }
    };
}

pub(super) use choice;
