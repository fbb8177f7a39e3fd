//! Declares each option once: with its documentation, type and default.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A struct of options.
pub(super) trait Options: Default {
    /// Struct with the methods that set these options.
    type Whole;

    /// Returns the part of `whole` with these options.
    fn of(whole: &mut Self::Whole) -> &mut Self;

    /// Returns all names, including those in groups.
    fn names() -> Vec<&'static str>;

    /// Sets an option by name; `None` if there is no such option.
    fn set(&mut self, name: &str, value: Value) -> Option<serde_json::Result<()>>;
}

pub(super) fn replace<T: DeserializeOwned>(option: &mut T, value: Value) -> serde_json::Result<()> {
    *option = serde_json::from_value(value)?;
    Ok(())
}

/// Declares a struct of options. `with` lists its groups. `set by` names the struct that holds all groups and gets the setter
/// methods, and the field of this group.
macro_rules! options {
    (
        $(#[$about:meta])*
        pub struct $Options:ident set by $Whole:ident $(. $group:ident)? {
            $($(#[$doc:meta])* $option:ident: $kind:ident $(<$($of:ty),+>)? = $default:expr,)*
        } $(with {
            $($(#[$part_doc:meta])* $part:ident: $Part:ident,)*
        })?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[non_exhaustive]
        pub struct $Options {
            $($(#[$doc])* #[doc = concat!("Default: `", stringify!($default), "`.")] pub $option: $kind $(<$($of),+>)?,)*
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
                $(#[$doc])*
                #[doc = concat!("Default: `", stringify!($default), "`.")]
                #[must_use]
                pub fn $option(mut self, $option: $crate::options::declare::taken!($kind $(<$($of),+>)?)) -> Self {
                    <$Options as $crate::options::declare::Options>::of(&mut self).$option = $option.into();
                    self
                }
            )*
        }

        impl $crate::options::declare::Options for $Options {
            type Whole = $Whole;

            fn of(whole: &mut $Whole) -> &mut Self {
                $(let whole = &mut whole.$group;)?
                whole
            }

            fn names() -> Vec<&'static str> {
                [&[$(stringify!($option)),*][..] $($(, &$Part::names())*)?].concat()
            }

            fn set(&mut self, name: &str, value: serde_json::Value) -> Option<serde_json::Result<()>> {
                match name {
                    $(stringify!($option) => Some($crate::options::declare::replace(&mut self.$option, value)),)*
                    _ => None $($(.or_else(|| self.$part.set(name, value.clone())))*)?,
                }
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
