//! How options are declared: each once, with what it means, its type and its default.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A struct of options.
pub(super) trait Options: Default {
    /// The struct whose methods set them.
    type Whole;

    /// Where they are in it.
    fn of(whole: &mut Self::Whole) -> &mut Self;

    /// All names, those of groups included.
    fn names() -> Vec<&'static str>;

    /// Sets the option of this name; none where there is no such option.
    fn set(&mut self, name: &str, value: Value) -> Option<serde_json::Result<()>>;
}

pub(super) fn replace<T: DeserializeOwned>(option: &mut T, value: Value) -> serde_json::Result<()> {
    *option = serde_json::from_value(value)?;
    Ok(())
}

/// Declares a struct of options, behind `with` the groups that it has, and behind `set by` where it is in the struct that has all
/// groups, whose methods set the options.
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

/// What a method takes for an option: the value itself, or what becomes a list, a map, or a value that may be missing.
macro_rules! taken {
    (DoSample) => { impl Into<DoSample> };
    ($plain:ident) => { $plain };
    ($($container:tt)+) => { impl Into<$($container)+> };
}

pub(super) use {options, taken};
