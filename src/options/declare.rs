//! Declares each option once: with its description, type, allowed range and default.

use super::describe::Declared;
use super::value::{Allowed, OptionValue, bad};
use crate::error::Result;
use serde_json::Value;

/// A struct of options.
pub trait Options: Default {
    /// Struct with the methods that set these options.
    type Whole;

    /// Returns the part of `whole` with these options.
    fn part_of(whole: &mut Self::Whole) -> &mut Self;

    /// Returns all names, including those in groups.
    fn names() -> Vec<&'static str>;

    /// Sets an option by name; `None` if there is no such option.
    fn set(&mut self, name: &str, value: &Value) -> Option<Result<()>>;

    /// Checks that the options, without those in groups, are in their ranges.
    fn check(&self) -> Result<()>;

    /// Returns the declarations, including those in groups.
    fn declared() -> Vec<Declared>;
}

/// Returns the defaults, replaced by the values in an object; null keeps the default.
pub(super) fn read<T: Options>(given: &Value) -> Result<T> {
    let Value::Object(given) = given else { return bad("options", given, "an object") };
    let mut options = T::default();
    for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        options.set(name, value).unwrap_or_else(|| bad("options", name, &T::names().join(", ")))?;
    }
    Ok(options)
}

pub(super) fn replace<T: OptionValue>(name: &'static str, option: &mut T, value: &Value) -> Result<()> {
    *option = T::from_json(value).or_else(|allowed| bad(name, value, &allowed))?;
    Ok(())
}

pub(super) fn check<T: OptionValue>(name: &'static str, option: &T, allowed: &Allowed, note: &str) -> Result<()> {
    let Some(value) = option.outside(allowed) else { return Ok(()) };
    bad(name, value, format!("{allowed}; {note}").trim_end_matches("; "))
}

/// Declares a struct of options. An option has a type, in brackets its allowed values and a note on them, a default and, after `=>`,
/// the default in words. `with` lists groups of options. `set by` names the struct that holds all groups and gets the setter
/// methods, and the field of this group.
macro_rules! options {
    (
        $(#[$about:meta])*
        pub struct $Options:ident set by $Whole:ident $(. $group:ident)? {
            $(
                $(#[doc = $doc:literal])*
                $option:ident: $kind:ident $(<$($of:ty),+>)? $([$allowed:expr $(, $note:literal)?])? = $default:expr $(=> $words:literal)?,
            )*
        } $(with {
            $($(#[$part_doc:meta])* $part:ident: $Part:ident,)*
        })?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[non_exhaustive]
        pub struct $Options {
            $(
                $(#[doc = $doc])*
                #[doc = concat!("Default: `", stringify!($default), "`" $(, ": ", $words)?, ".")]
                $(#[doc = concat!("Allowed: `", stringify!($allowed), "`" $(, "; ", $note)?, ".")])?
                pub $option: $kind $(<$($of),+>)?,
            )*
            $($($(#[$part_doc])* #[serde(flatten)] pub $part: $Part,)*)?
        }

        impl Default for $Options {
            fn default() -> Self {
                Self { $($option: $default,)* $($($part: $Part::default(),)*)? }
            }
        }

        #[doc = concat!("Sets the options in [`", stringify!($Options), "`].")]
        impl $Whole {
            $(
                $(#[doc = $doc])*
                #[doc = concat!("Default: `", stringify!($default), "`" $(, ": ", $words)?, ".")]
                $(#[doc = concat!("Allowed: `", stringify!($allowed), "`" $(, "; ", $note)?, ".")])?
                #[must_use]
                pub fn $option(mut self, $option: $crate::options::declare::taken!($kind $(<$($of),+>)?)) -> Self {
                    <$Options as $crate::options::declare::Options>::part_of(&mut self).$option = $option.into();
                    self
                }
            )*
        }

        impl $crate::options::declare::Options for $Options {
            type Whole = $Whole;

            fn part_of(whole: &mut $Whole) -> &mut Self {
                $(let whole = &mut whole.$group;)?
                whole
            }

            fn names() -> Vec<&'static str> {
                [&[$(stringify!($option)),*][..] $($(, &$Part::names())*)?].concat()
            }

            fn set(&mut self, name: &str, value: &serde_json::Value) -> Option<$crate::error::Result<()>> {
                match name {
                    $(stringify!($option) => Some($crate::options::declare::replace(stringify!($option), &mut self.$option, value)),)*
                    _ => None $($(.or_else(|| self.$part.set(name, value)))*)?,
                }
            }

            fn check(&self) -> $crate::error::Result<()> {
                $($(
                    let allowed = $crate::options::value::Allowed::from($allowed);
                    $crate::options::declare::check(stringify!($option), &self.$option, &allowed, concat!("" $(, $note)?))?;
                )?)*
                Ok(())
            }

            fn declared() -> Vec<$crate::options::describe::Declared> {
                let default = Self::default();
                let own = vec![$($crate::options::describe::Declared::new(
                    stringify!($option),
                    concat!($($doc, "\n"),*),
                    &default.$option,
                    concat!("" $(, $words)?),
                    None $(.or(Some(($crate::options::value::Allowed::from($allowed), concat!("" $(, $note)?)))))?,
                )),*];
                [own $($(, $Part::declared())*)?].concat()
            }
        }
    };
}

/// Argument type of a setter: the plain type, or `impl Into` for lists, maps and values that may be missing.
macro_rules! taken {
    (DoSample) => { impl Into<DoSample> };
    ($plain:ident) => { $plain };
    ($($container:tt)+) => { impl Into<$($container)+> };
}

pub(super) use {options, taken};
