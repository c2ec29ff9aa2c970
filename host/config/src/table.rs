//! Table of settings: the macro that generates types from it, and its rows.
use crate::{kinds::ValueShape, parser::DocumentParser};
use toml::{Spanned, Value, de::DeValue};

/// Row of the table for a key of `T`.
pub struct Setting<T> {
    /// Whole key, as in `events.ring_size`.
    pub key: &'static str,
    /// Value other than the default, in the form of a file.
    pub example: &'static str,
    pub(crate) doc: &'static [&'static str],
    pub(crate) read: fn(&mut T, &Spanned<DeValue<'_>>, &mut DocumentParser<'_>),
    pub(crate) value: fn(&T) -> Option<Value>,
    pub(crate) accepted_values: fn() -> String,
    pub(crate) unset: fn() -> Option<&'static str>,
    pub(crate) shape: fn() -> ValueShape,
    pub(crate) is_text: fn() -> bool,
    pub(crate) is_required: fn() -> bool,
}

/// Type with settings.
pub trait SettingsTable: Default + Sized + 'static {
    /// All settings, in the order in which they are shown.
    const ALL: &'static [Setting<Self>];
    /// First part of the keys and a description of each section, in the same order.
    const SECTIONS: &'static [(&'static str, &'static [&'static str])];
}

/// Kind of table of which there may be several, each with a name.
pub(crate) trait NamedTable: SettingsTable {
    /// Heading of such a table, with which the keys begin.
    const HEAD: &'static str;
    /// Limit of such tables.
    const MAX_ENTRIES: usize;

    /// Returns the name that identifies an entry; empty until it was given.
    fn name(&self) -> &str;
}

impl<T: SettingsTable> Setting<T> {
    /// Returns the meaning of the setting.
    pub fn meaning(&self) -> String {
        paragraph(self.doc)
    }

    /// Describes the valid values.
    pub fn accepted_values(&self) -> String {
        (self.accepted_values)()
    }

    /// Returns the value; `None` if it is unset, which [`Setting::unset`] explains.
    pub fn value(&self, of: &T) -> Option<Value> {
        (self.value)(of)
    }

    /// Describes the effect of an unset value; `None` for a setting that always has a value.
    pub fn unset(&self) -> Option<&'static str> {
        (self.unset)()
    }

    /// Returns true if the setting must be given.
    pub fn is_required(&self) -> bool {
        (self.is_required)()
    }

    /// Returns the environment variable of the setting, as in `PEAL_EVENTS_RING_SIZE`.
    pub fn variable(&self) -> String {
        // Variables of a shell have neither dots nor dashes in their names.
        format!("PEAL_{}", self.key.replace(['.', '-'], "_").to_uppercase())
    }

    /// Returns the setting of this key.
    pub fn of(key: &str) -> Option<&'static Setting<T>> {
        T::ALL.iter().find(|setting| setting.key == key)
    }
}

/// Joins the lines of a doc comment into one paragraph.
pub(crate) fn paragraph(doc: &[&str]) -> String {
    doc.iter()
        .map(|line| line.trim())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Generates types from a table of settings. A row is
///
/// ```text
/// /// What it means.
/// field "whole.key": Type = default, kind, "example";
/// ```
///
/// and belongs to the struct itself, or to its group.
macro_rules! settings {
    (
        $(#[doc = $about:literal])+
        $name:literal $All:ident {
            $( $(#[doc = $doc:literal])+ $field:ident $key:literal: $ty:ty = $default:expr, $kind:expr, $example:literal; )*
        }
        $(
            $(#[doc = $group_about:literal])+
            $group_name:literal $group:ident: $Group:ident {
                $( $(#[doc = $group_doc:literal])+ $group_field:ident $group_key:literal: $group_ty:ty
                    = $group_default:expr, $group_kind:expr, $group_example:literal; )+
            }
        )+
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, PartialEq, Debug)]
        pub struct $All {
            $( $(#[doc = $doc])+ pub $field: $ty, )*
            $( $(#[doc = $group_about])+ pub $group: $Group, )+
        }

        impl Default for $All {
            fn default() -> Self {
                $All { $( $field: $default, )* $( $group: $Group::default(), )+ }
            }
        }

        $(
            $(#[doc = $group_about])+
            #[derive(Clone, PartialEq, Debug)]
            pub struct $Group {
                $( $(#[doc = $group_doc])+ pub $group_field: $group_ty, )+
            }

            impl Default for $Group {
                fn default() -> Self {
                    $Group { $( $group_field: $group_default, )+ }
                }
            }
        )+

        impl $crate::table::SettingsTable for $All {
            const ALL: &'static [$crate::table::Setting<$All>] = &[
                $( settings!(@row ($field) $key, $ty, $kind, $example, [$($doc),+]), )*
                $( $( settings!(@row ($group . $group_field) $group_key, $group_ty, $group_kind, $group_example,
                    [$($group_doc),+]), )+ )+
            ];
            const SECTIONS: &'static [(&'static str, &'static [&'static str])] =
                &[($name, &[$($about),+]), $( ($group_name, &[$($group_about),+]), )+];
        }
    };
    (@row ($($path:tt)+) $key:literal, $ty:ty, $kind:expr, $example:literal, [$($doc:literal),+]) => {
        $crate::table::Setting {
            key: $key,
            example: $example,
            doc: &[$($doc),+],
            read: |of, value, reading| {
                // After an invalid value, which was reported, the default stays.
                if let Some(value) = <_ as $crate::kinds::ValueKind<$ty>>::read(&$kind, value, reading) {
                    of.$($path)+ = value;
                }
            },
            value: |of| <_ as $crate::kinds::ValueKind<$ty>>::write(&$kind, &of.$($path)+),
            accepted_values: || <_ as $crate::kinds::ValueKind<$ty>>::accepted_values(&$kind),
            shape: || <_ as $crate::kinds::ValueKind<$ty>>::shape(&$kind),
            unset: || <_ as $crate::kinds::ValueKind<$ty>>::unset(&$kind),
            is_text: || <_ as $crate::kinds::ValueKind<$ty>>::is_text(&$kind),
            is_required: || <_ as $crate::kinds::ValueKind<$ty>>::is_required(&$kind),
        }
    };
}
pub(crate) use settings;
