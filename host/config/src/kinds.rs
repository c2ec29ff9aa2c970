//! Kinds of values: how they are read, written and described.
use crate::{
    parser::DocumentParser,
    values::{Keyword, OrderedChannel, Requirement},
};
use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::{Path, PathBuf},
    time::Duration,
};
use toml::{Spanned, Value, de::DeValue};
use tracing_subscriber::EnvFilter;

/// Limit of a string's length, in bytes.
pub(crate) const MAX_TEXT: usize = 4096;

/// Kind of a value of type `T`. It is in the table beside the type, and holds the bounds.
pub(crate) trait ValueKind<T> {
    /// Reads a value, or notes a problem.
    fn read(&self, value: &Spanned<DeValue<'_>>, reading: &mut DocumentParser<'_>) -> Option<T>;
    /// Returns the value in the form of a file; `None` if it is unset.
    fn write(&self, value: &T) -> Option<Value>;
    /// Describes the valid values.
    fn accepted_values(&self) -> String;
    /// Describes the effect of an unset value.
    fn unset(&self) -> Option<&'static str> {
        None
    }
    /// Returns the form of valid values in a file, for editors.
    fn shape(&self) -> ValueShape {
        ValueShape::Text
    }
    /// Returns true for a string, which needs no quotes in the environment and on the command line.
    fn is_text(&self) -> bool {
        false
    }
    /// Returns true if the setting must be given.
    fn is_required(&self) -> bool {
        false
    }
}

/// Form of the values of a kind in a file. What it allows may still be invalid.
pub(crate) enum ValueShape {
    /// A text.
    Text,
    /// A text or a whole number.
    TextOrNumber,
    /// One of these texts.
    Words(Vec<&'static str>),
    /// One of these texts, or a table.
    WordsOrTable(Vec<&'static str>),
    /// A whole number between two bounds, both included.
    Number { from: u64, to: u64 },
    /// True or false.
    Switch,
    /// Values of one form.
    List(Box<ValueShape>),
    /// A table.
    Table,
}

/// Setting that may be unset, with a description of the effect.
pub(crate) struct Unset<K>(pub(crate) &'static str, pub(crate) K);

impl<T, K: ValueKind<T>> ValueKind<Option<T>> for Unset<K> {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<Option<T>> {
        self.1.read(value, reading).map(Some)
    }

    fn write(&self, value: &Option<T>) -> Option<Value> {
        value.as_ref().and_then(|value| self.1.write(value))
    }

    fn accepted_values(&self) -> String {
        self.1.accepted_values()
    }

    fn unset(&self) -> Option<&'static str> {
        Some(self.0)
    }

    fn shape(&self) -> ValueShape {
        self.1.shape()
    }

    fn is_text(&self) -> bool {
        self.1.is_text()
    }
}

/// Setting that must be given; its default is never used.
pub(crate) struct Required<K>(pub(crate) K);

impl<T, K: ValueKind<T>> ValueKind<T> for Required<K> {
    fn read(&self, value: &Spanned<DeValue<'_>>, reading: &mut DocumentParser<'_>) -> Option<T> {
        self.0.read(value, reading)
    }

    fn write(&self, value: &T) -> Option<Value> {
        self.0.write(value)
    }

    fn accepted_values(&self) -> String {
        self.0.accepted_values()
    }

    fn shape(&self) -> ValueShape {
        self.0.shape()
    }

    fn is_required(&self) -> bool {
        true
    }
}

/// Whole number between two bounds, both included.
pub(crate) struct Number(pub(crate) u64, pub(crate) u64);

impl Number {
    fn read_u64(&self, value: &Spanned<DeValue<'_>>) -> Option<u64> {
        let DeValue::Integer(number) = value.get_ref() else {
            return None;
        };
        // The parser keeps the digits without their prefix, as of 0xff.
        let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
        (self.0..=self.1).contains(&number).then_some(number)
    }
}

/// Implements [`Number`] for these types.
macro_rules! numbers {
    ($($ty:ty: $from:expr, $to:expr;)+) => { $(
        impl ValueKind<$ty> for Number {
            fn read(&self, value: &Spanned<DeValue<'_>>, reading: &mut DocumentParser<'_>) -> Option<$ty> {
                let number = self.read_u64(value).and_then($from);
                if number.is_none() {
                    reading.refuse(value, &<Self as ValueKind<$ty>>::accepted_values(self));
                }
                number
            }

            fn write(&self, value: &$ty) -> Option<Value> {
                let number: Option<i64> = $to(*value);
                number.map(Value::Integer)
            }

            fn accepted_values(&self) -> String {
                format!("a whole number from {} to {}", self.0, self.1)
            }

            fn shape(&self) -> ValueShape {
                ValueShape::Number { from: self.0, to: self.1 }
            }
        }
    )+ };
}

numbers! {
    u32: |number| u32::try_from(number).ok(), |number| Some(i64::from(number));
    // TOML has integers up to that of 64 bits with a sign.
    u64: Some, |number| i64::try_from(number).ok();
    usize: |number| usize::try_from(number).ok(), |number| i64::try_from(number).ok();
    NonZeroU32: |number| u32::try_from(number).ok().and_then(NonZeroU32::new),
        |number: NonZeroU32| Some(i64::from(number.get()));
    NonZeroUsize: |number| usize::try_from(number).ok().and_then(NonZeroUsize::new),
        |number: NonZeroUsize| i64::try_from(number.get()).ok();
}

/// Defines kinds of times, each with the conversions of its unit.
macro_rules! times {
    ($($(#[$doc:meta])+ $Kind:ident: $from:path, $to:path, $unit:literal;)+) => { $(
        $(#[$doc])+
        pub(crate) struct $Kind(pub(crate) u64, pub(crate) u64);

        impl ValueKind<Duration> for $Kind {
            fn read(
                &self,
                value: &Spanned<DeValue<'_>>,
                reading: &mut DocumentParser<'_>,
            ) -> Option<Duration> {
                let time = Number(self.0, self.1).read_u64(value).map($from);
                if time.is_none() {
                    reading.refuse(value, &self.accepted_values());
                }
                time
            }

            fn write(&self, value: &Duration) -> Option<Value> {
                i64::try_from($to(value)).ok().map(Value::Integer)
            }

            fn accepted_values(&self) -> String {
                format!("a whole number of {} from {} to {}", $unit, self.0, self.1)
            }

            fn shape(&self) -> ValueShape {
                ValueShape::Number {
                    from: self.0,
                    to: self.1,
                }
            }
        }
    )+ };
}

times! {
    /// Time in milliseconds, between two bounds.
    Millis: Duration::from_millis, Duration::as_millis, "milliseconds";
    /// Time in microseconds, between two bounds.
    Micros: Duration::from_micros, Duration::as_micros, "microseconds";
}

/// Boolean.
pub(crate) struct Switch;

impl ValueKind<bool> for Switch {
    fn read(&self, value: &Spanned<DeValue<'_>>, reading: &mut DocumentParser<'_>) -> Option<bool> {
        let truth = value.get_ref().as_bool();
        if truth.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        truth
    }

    fn write(&self, value: &bool) -> Option<Value> {
        Some(Value::Boolean(*value))
    }

    fn accepted_values(&self) -> String {
        "true or false".to_owned()
    }

    fn shape(&self) -> ValueShape {
        ValueShape::Switch
    }
}

/// Keyword of its type.
pub(crate) struct KeywordKind;

impl<T: Keyword> ValueKind<T> for KeywordKind {
    fn read(&self, value: &Spanned<DeValue<'_>>, reading: &mut DocumentParser<'_>) -> Option<T> {
        let word = value.get_ref().as_str().and_then(T::from_name);
        if word.is_none() {
            reading.refuse(value, &<Self as ValueKind<T>>::accepted_values(self));
        }
        word
    }

    fn write(&self, value: &T) -> Option<Value> {
        Some(Value::String(value.name().to_owned()))
    }

    fn accepted_values(&self) -> String {
        alternatives(T::ALL.iter().map(|word| word.name()))
    }

    fn shape(&self) -> ValueShape {
        ValueShape::Words(T::ALL.iter().map(|word| word.name()).collect())
    }

    fn is_text(&self) -> bool {
        true
    }
}

/// Lists names as alternatives: `"a", "b" or "c"`.
pub(crate) fn alternatives<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
    match names.pop() {
        Some(last) if !names.is_empty() => format!("{} or {last}", names.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// Path; a relative one starts at the directory of its file.
pub(crate) struct FilePath;

impl ValueKind<PathBuf> for FilePath {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<PathBuf> {
        match value.get_ref().as_str() {
            // System calls take no path with a NUL.
            Some(path) if !path.is_empty() && path.len() < MAX_TEXT && !path.contains('\0') => {
                // An absolute path replaces the base.
                Some(reading.base.join(Path::new(path)))
            }
            _ => {
                reading.refuse(value, &self.accepted_values());
                None
            }
        }
    }

    fn write(&self, value: &PathBuf) -> Option<Value> {
        Some(Value::String(value.to_string_lossy().into_owned()))
    }

    fn accepted_values(&self) -> String {
        "a path".to_owned()
    }

    fn is_text(&self) -> bool {
        true
    }
}

/// Kind of a string that is stored unchanged if it is valid.
pub(crate) trait TextKind {
    /// Returns true if a string is valid.
    fn fits(&self, text: &str) -> bool;
    /// Describes the valid strings.
    fn accepted_values(&self) -> String;
}

impl<K: TextKind> ValueKind<String> for K {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<String> {
        let text = value
            .get_ref()
            .as_str()
            .filter(|text| self.fits(text))
            .map(str::to_owned);
        if text.is_none() {
            reading.refuse(value, &TextKind::accepted_values(self));
        }
        text
    }

    fn write(&self, value: &String) -> Option<Value> {
        Some(Value::String(value.clone()))
    }

    fn accepted_values(&self) -> String {
        TextKind::accepted_values(self)
    }

    fn is_text(&self) -> bool {
        true
    }
}

/// Name of a Unix group.
pub(crate) struct UnixGroupName;

impl TextKind for UnixGroupName {
    fn fits(&self, text: &str) -> bool {
        // A colon separates the fields of a line in `/etc/group`.
        let is_part = |c: char| c != ':' && !c.is_whitespace() && !c.is_control();
        !text.is_empty() && text.len() <= 32 && text.chars().all(is_part)
    }

    fn accepted_values(&self) -> String {
        "the name of a Unix group, of at most 32 characters".to_owned()
    }
}

/// Name of a Unix user.
pub(crate) struct UnixUserName;

impl TextKind for UnixUserName {
    fn fits(&self, text: &str) -> bool {
        // Names of users and groups follow the same rule.
        UnixGroupName.fits(text)
    }

    fn accepted_values(&self) -> String {
        "the name of a Unix user, of at most 32 characters".to_owned()
    }
}

/// Filter of the trace, by levels and targets.
pub(crate) struct TraceFilter;

impl TextKind for TraceFilter {
    fn fits(&self, text: &str) -> bool {
        // The parser that reads the filter when the trace starts decides.
        text.len() <= MAX_TEXT && EnvFilter::try_new(text).is_ok()
    }

    fn accepted_values(&self) -> String {
        "levels and their targets, as in \"info\" or \"warn,peal_server=debug\"".to_owned()
    }
}

/// Address and port at which the server listens.
pub(crate) enum ListenAddress {
    /// Any address of this machine.
    Any,
    /// A loopback address, for what is served to everyone who can connect: it accepts connections of this
    /// machine only.
    Loopback,
}

impl ValueKind<SocketAddr> for ListenAddress {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<SocketAddr> {
        let text = value.get_ref().as_str();
        let address = text
            .and_then(|text| text.parse::<SocketAddr>().ok())
            .filter(|address| match self {
                ListenAddress::Any => true,
                ListenAddress::Loopback => address.ip().is_loopback(),
            });
        if address.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        address
    }

    fn write(&self, value: &SocketAddr) -> Option<Value> {
        Some(Value::String(value.to_string()))
    }

    fn accepted_values(&self) -> String {
        let text = match self {
            ListenAddress::Any => {
                "an address in digits and a port, as in \"127.0.0.1:9465\" or \"[::]:9465\""
            }
            ListenAddress::Loopback => {
                "a loopback address and a port, as in \"127.0.0.1:9464\" or \"[::1]:9464\""
            }
        };
        text.to_owned()
    }

    fn is_text(&self) -> bool {
        true
    }
}

/// Ordered log channels, as in `"local_syslog:req,email"`.
pub(crate) struct ChannelOrder;

/// Limit of channels in an order.
const MAX_ORDERED: usize = 64;

impl ChannelOrder {
    fn parse(text: &str) -> Option<Vec<OrderedChannel>> {
        if text.trim().is_empty() {
            return Some(Vec::new());
        }
        let mut order: Vec<OrderedChannel> = Vec::new();
        for entry in text.split(',') {
            // Case does not matter in the parameter `plog_base_order` of OpenPMIx, either.
            let (name, flag) = entry.split_once(':').unwrap_or((entry, ""));
            let name = name.trim().to_lowercase();
            let flag = flag.trim().to_lowercase();
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            let is_flag = if entry.contains(':') {
                // Any flag that starts with `req` is accepted (RFC "Logging extension").
                flag.starts_with("req")
            } else {
                true
            };
            let is_new = order.iter().all(|channel| channel.name != name);
            if name.is_empty()
                || !name.chars().all(is_plain)
                || !is_flag
                || !is_new
                || order.len() == MAX_ORDERED
            {
                return None;
            }
            let requirement = if flag.is_empty() {
                Requirement::Optional
            } else {
                Requirement::Required
            };
            order.push(OrderedChannel { name, requirement });
        }
        Some(order)
    }
}

impl ValueKind<Vec<OrderedChannel>> for ChannelOrder {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<Vec<OrderedChannel>> {
        let text = value
            .get_ref()
            .as_str()
            .filter(|text| text.len() <= MAX_TEXT);
        let order = text.and_then(ChannelOrder::parse);
        if order.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        order
    }

    fn write(&self, value: &Vec<OrderedChannel>) -> Option<Value> {
        let entry = |channel: &OrderedChannel| match channel.requirement {
            Requirement::Optional => channel.name.clone(),
            Requirement::Required => format!("{}:req", channel.name),
        };
        Some(Value::String(
            value.iter().map(entry).collect::<Vec<_>>().join(","),
        ))
    }

    fn accepted_values(&self) -> String {
        "names of log channels separated by commas, each once, with the suffix :req if required, as in \
         \"local_syslog:req,global_syslog,email\""
            .to_owned()
    }

    fn is_text(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements(order: &str) -> Option<Vec<(String, Requirement)>> {
        Some(
            ChannelOrder::parse(order)?
                .into_iter()
                .map(|channel| (channel.name, channel.requirement))
                .collect(),
        )
    }

    /// RFC "Logging extension": "the parser will accept any required flag that starts with req".
    #[test]
    fn marks_that_begin_with_req_make_channels_required() {
        for mark in ["req", "reqd", "required", "REQ", "Required", " req "] {
            let order = requirements(&format!("LOCAL_SYSLOG:{mark}, email")).unwrap();
            let wanted = [
                ("local_syslog", Requirement::Required),
                ("email", Requirement::Optional),
            ];
            assert_eq!(
                order,
                wanted.map(|(name, requirement)| (name.to_owned(), requirement)),
                "{mark}"
            );
        }
    }

    #[test]
    fn other_marks_and_names_are_refused() {
        for order in [
            "email:",
            "email:optional",
            "email:re",
            ":req",
            "email,email:req",
            "a b",
        ] {
            assert_eq!(requirements(order), None, "{order}");
        }
    }
}
