//! Parsing of values in case files. Each value is parsed by the function that the command line uses
//! for it, so that an error names its position.
use peal_config::words;
use peal_core::log::CHANNELS;
use peal_model::{DataArray, Info, InfoFlags, Key, Proc, Range, Status, UserIdentity, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{
    self, Deserialize, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer,
};
use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

/// Type that is parsed from a string, number or boolean.
trait ScalarForm: Sized {
    const WANTED: &'static str;
    fn read(text: &str) -> Result<Self, String>;
}

struct ReadWord<W>(PhantomData<W>);

impl<W: ScalarForm> Visitor<'_> for ReadWord<W> {
    type Value = W;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(W::WANTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<W, E> {
        W::read(text).map_err(E::custom)
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<W, E> {
        // The functions of the command line read texts, so other scalars become texts again.
        self.visit_str(&truth.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<W, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<W, E> {
        self.visit_str(&number.to_string())
    }
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident($of:ty), $read:expr, $expected:literal;)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug)]
            pub(super) struct $name(pub(super) $of);

            impl ScalarForm for $name {
                const WANTED: &'static str = $expected;

                fn read(text: &str) -> Result<$name, String> {
                    $read(text).map($name)
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                    from.deserialize_any(ReadWord(PhantomData))
                }
            }

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!({
                        "type": ["string", "number", "boolean"],
                        "description": $expected,
                    })
                }
            }
        )+
    };
}

words! {
    /// String, or another scalar of TOML.
    Scalar(String), |text: &str| Ok(text.to_owned()), "a text, a number, true or false";
    /// Status.
    Code(Status), words::status, "a code by its name or number";
    /// Range.
    RangeWord(Range), words::range, "a range, as in \"session\"";
    /// Proc.
    ProcWord(Proc), words::proc, "a proc, as in \"solver:0\"";
    /// User and group.
    User(UserIdentity), identity, "a user, as in 1000, or \"1000:100\" with the group";
    /// Key.
    KeyWord(Key), words::key, "a key, by its name in the Standard or as it travels";
    /// Log channel.
    Channel(Key), channel, "a log channel, as in \"stdout\"";
    /// Flag of an info.
    Flag(InfoFlags), flag, "a flag";
    /// Bytes, written as hexadecimal digits.
    Hex(Vec<u8>), words::bytes, "bytes in hexadecimal digits";
}

fn identity(text: &str) -> Result<UserIdentity, String> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, text));
    let number = |text: &str| {
        let expected = || {
            format!(
                "{text:?} is no user; it should be a number, as in 1000, or two as in \"1000:100\""
            )
        };
        text.parse().map_err(|_| expected())
    };
    Ok(UserIdentity {
        uid: number(uid)?,
        gid: number(gid)?,
    })
}

fn channel(text: &str) -> Result<Key, String> {
    match CHANNELS.iter().find(|channel| channel.0 == text) {
        Some((_, key, _)) => Ok(Key::from(*key)),
        None => words::key(text),
    }
}

fn flag(text: &str) -> Result<InfoFlags, String> {
    match text {
        "required" => Ok(InfoFlags::REQUIRED),
        "array-end" => Ok(InfoFlags::ARRAY_END),
        _ => Err(format!(
            "{text:?} is no flag; there are required and array-end"
        )),
    }
}

/// Visitor for a value that is a string, or a table for more complex values.
struct TextOr<T, R> {
    expected: &'static str,
    text: fn(&str) -> Result<T, String>,
    table: fn(R) -> Result<T, String>,
}

impl<'de, T, R: Deserialize<'de>> Visitor<'de> for TextOr<T, R> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.text)(text).map_err(E::custom)
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<T, E> {
        // As in `ReadWord`, the functions of the command line read texts.
        self.visit_str(&truth.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        let table = R::deserialize(MapAccessDeserializer::new(map))?;
        (self.table)(table).map_err(de::Error::custom)
    }
}

/// Info: written as on the command line, or as a table if it holds an array or has flags.
#[derive(Clone, Debug)]
pub(super) struct InfoWord(pub(super) Info);

impl<'de> Deserialize<'de> for InfoWord {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<InfoWord, D::Error> {
        let expected = "an info, as in \"site.load=5\" or { key = \"site.list\", type = \"int\", values = [1, 2] }";
        let info = TextOr {
            expected,
            text: words::info,
            table: InfoTable::info,
        };
        from.deserialize_any(info).map(InfoWord)
    }
}

#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InfoTable {
    key: KeyWord,
    #[serde(rename = "type")]
    of: Option<String>,
    value: Option<Scalar>,
    values: Option<Vec<CaseItem>>,
    infos: Option<Vec<InfoWord>>,
    #[serde(default)]
    flags: Vec<Flag>,
}

impl InfoTable {
    fn info(self) -> Result<Info, String> {
        let key = self.key.0;
        let value = match self.value {
            None => array(self.of.as_deref(), self.values, self.infos)?,
            Some(_) if self.values.is_some() || self.infos.is_some() => {
                return Err("an info has one of value, values and infos".to_owned());
            }
            Some(Scalar(text)) => match self.of {
                Some(of) => words::value(&of, &text)?,
                None => words::usual_value(key.as_str(), &text)?,
            },
        };
        let flags = self
            .flags
            .iter()
            .fold(InfoFlags::NONE, |flags, flag| InfoFlags(flags.0 | flag.0.0));
        Ok(Info { key, flags, value })
    }
}

fn array(
    of: Option<&str>,
    values: Option<Vec<CaseItem>>,
    infos: Option<Vec<InfoWord>>,
) -> Result<Value, String> {
    match (of, values, infos) {
        // Infos are of one type, so none is named.
        (None, None, Some(infos)) => Ok(Value::DataArray(DataArray::infos(
            infos.into_iter().map(|info| info.0),
        ))),
        (Some(of), Some(items), None) => {
            let items: Result<Vec<Value>, String> =
                items.into_iter().map(|item| item.value(of)).collect();
            let array = DataArray::new(words::data_type(of)?, items?);
            array
                .map(Value::DataArray)
                .map_err(|error| error.to_string())
        }
        (None, Some(_), None) => {
            Err("values need a type, as in { type = \"int\", values = [1, 2] }".to_owned())
        }
        _ => Err("an info has one of value, values (with a type) and infos".to_owned()),
    }
}

/// Element of an array.
#[derive(Clone, Debug)]
enum CaseItem {
    Text(String),
    Array(Value),
}

impl CaseItem {
    fn value(self, of: &str) -> Result<Value, String> {
        match self {
            CaseItem::Text(text) => words::value(of, &text),
            CaseItem::Array(value) => Ok(value),
        }
    }
}

impl<'de> Deserialize<'de> for CaseItem {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<CaseItem, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct CaseTable {
            #[serde(rename = "type")]
            of: Option<String>,
            values: Option<Vec<CaseItem>>,
            infos: Option<Vec<InfoWord>>,
        }
        from.deserialize_any(TextOr {
            expected: "a value, or an array as in { type = \"int\", values = [1, 2] }",
            text: |text| Ok(CaseItem::Text(text.to_owned())),
            table: |table: CaseTable| {
                array(table.of.as_deref(), table.values, table.infos).map(CaseItem::Array)
            },
        })
    }
}

/// Gives types that are a text or a table a schema.
macro_rules! text_or_table {
    ($($name:ident: $table:expr;)+) => { $(
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let table = $table(generator);
                json_schema!({ "anyOf": [{ "type": ["string", "number", "boolean"] }, table] })
            }
        }
    )+ };
}

text_or_table! {
    InfoWord: |generator: &mut SchemaGenerator| generator.subschema_for::<InfoTable>();
    CaseItem: |_: &mut SchemaGenerator| json_schema!({ "type": "object" });
    CaseBytes: |_: &mut SchemaGenerator| json_schema!({
        "type": "object",
        "properties": { "bytes": { "type": "string" } },
        "required": ["bytes"],
        "additionalProperties": false,
    });
}

impl JsonSchema for CaseSettings {
    fn schema_name() -> Cow<'static, str> {
        "CaseSettings".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": { "type": ["string", "number", "boolean"] },
        })
    }
}

impl JsonSchema for CaseTime {
    fn schema_name() -> Cow<'static, str> {
        "CaseTime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // A time of TOML is a text with this format to editors.
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// Bytes: a string, or `{ bytes = "00ff" }`.
#[derive(Clone, Debug)]
pub(super) struct CaseBytes(pub(super) Vec<u8>);

impl<'de> Deserialize<'de> for CaseBytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<CaseBytes, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            bytes: Hex,
        }
        from.deserialize_any(TextOr {
            expected: "a text, or { bytes = \"00ff\" }",
            text: |text| Ok(CaseBytes(text.as_bytes().to_owned())),
            table: |table: Table| Ok(CaseBytes(table.bytes.0)),
        })
    }
}

/// Converts bytes by name.
pub(super) fn named_bytes(bytes: &BTreeMap<String, CaseBytes>) -> BTreeMap<String, Vec<u8>> {
    bytes
        .iter()
        .map(|(name, bytes)| (name.clone(), bytes.0.clone()))
        .collect()
}

/// Settings of a module, as in `config` of a `[[module]]`.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct CaseSettings(pub(super) Vec<Info>);

impl<'de> Deserialize<'de> for CaseSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<CaseSettings, D::Error> {
        let setting = |(name, value): (String, toml::Value)| {
            // The same types as in `config` of a site, so that a module gets the same infos here.
            let value = match value {
                toml::Value::Boolean(truth) => Value::Bool(truth),
                toml::Value::Integer(number) => Value::Int64(number),
                toml::Value::Float(number) => Value::Double(number),
                toml::Value::String(text) => Value::string(&text),
                other => {
                    let found = other.type_str();
                    return Err(format!(
                        "{name} is of type {found}; it should be true, false, a number or a text"
                    ));
                }
            };
            Key::new(&name)
                .map(|key| Info::new(key, value))
                .map_err(|error| error.to_string())
        };
        let settings: Result<Vec<Info>, String> = toml::Table::deserialize(from)?
            .into_iter()
            .map(setting)
            .collect();
        settings.map(CaseSettings).map_err(de::Error::custom)
    }
}

/// Time, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CaseTime(pub(super) u64);

impl<'de> Deserialize<'de> for CaseTime {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<CaseTime, D::Error> {
        let expected =
            || de::Error::custom("it should be a time with its offset, as in 2026-01-05T09:00:00Z");
        moment(toml::value::Datetime::deserialize(from)?).ok_or_else(expected)
    }
}

fn moment(of: toml::value::Datetime) -> Option<CaseTime> {
    let date = of.date?;
    let time = of.time?;
    // A time without an offset would depend on the machine.
    let offset = match of.offset? {
        toml::value::Offset::Z => 0,
        toml::value::Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days(
        i64::from(date.year),
        i64::from(date.month),
        i64::from(date.day),
    );
    let minutes = (days * 24 + i64::from(time.hour)) * 60 + i64::from(time.minute) - offset;
    let milliseconds = (minutes * 60 + i64::from(time.second.unwrap_or(0))) * 1000;
    let milliseconds = milliseconds + i64::from(time.nanosecond.unwrap_or(0) / 1_000_000);
    // A date before the epoch has a negative number.
    u64::try_from(milliseconds).ok().map(CaseTime)
}

/// Returns the days since the epoch of a date. The year begins in March here, so that a leap day is
/// its last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    // (153 * month + 2) / 5 days precede a month that is counted from March. 719,468 days lie
    // between 1 March of the year 0 and the epoch, and the days of a month count from one.
    year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 719_469
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(
            (days(1970, 1, 1), days(1970, 3, 1), days(2000, 2, 29)),
            (0, 59, 11_016)
        );
        assert_eq!(days(2026, 11, 21), 20_778);
        assert_eq!(days(2024, 3, 1) - days(2024, 2, 28), 2);
    }
}
