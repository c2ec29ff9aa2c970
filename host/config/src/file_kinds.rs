//! Reading and writing of the directories that a module may use.
use crate::{
    kinds::{FilePath, KeywordKind, Number, ValueKind, ValueShape},
    parser::DocumentParser,
    values::{DirectoryGrant, FilesMode, Keyword},
};
use std::path::PathBuf;
use toml::{Spanned, Table, Value, de::DeValue};

/// Default limit of the bytes of a directory's files.
const MAX_BYTES: u64 = 64 << 20;
/// Bounds of that limit, up to a tebibyte.
const BYTES: Number = Number(0, 1 << 40);
/// Limit of a name's length, in bytes.
const MAX_NAME: usize = 256;

/// Kind of a directory that a module may use.
pub(crate) struct FilesGrant;

impl ValueKind<DirectoryGrant> for FilesGrant {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<DirectoryGrant> {
        let Some(table) = value.get_ref().as_table() else {
            reading.refuse(value, &self.accepted_values());
            return None;
        };
        let mut name = None;
        let mut path = None;
        let mut mode = Some(FilesMode::Read);
        let mut max_bytes = Some(MAX_BYTES);
        for (key, value) in table {
            match &**key.get_ref() {
                "name" => name = read_name(value, reading),
                "path" => path = ValueKind::<PathBuf>::read(&FilePath, value, reading),
                "mode" => mode = ValueKind::<FilesMode>::read(&KeywordKind, value, reading),
                "max_bytes" => max_bytes = ValueKind::<u64>::read(&BYTES, value, reading),
                other => {
                    let message = format!(
                        "{}: there is no `{}`; it has name, path, mode and max_bytes",
                        reading.key, other
                    );
                    reading.add_problem(&key.span(), message);
                    return None;
                }
            }
        }
        // The values are checked above: an invalid name was reported, but is no missing one.
        if !table.contains_key("name") || !table.contains_key("path") {
            reading.add_problem(
                &value.span(),
                format!("{}: a directory needs a name and a path", reading.key),
            );
        }
        Some(DirectoryGrant {
            name: name?,
            path: path?,
            mode: mode?,
            max_bytes: max_bytes?,
        })
    }

    fn write(&self, value: &DirectoryGrant) -> Option<Value> {
        let DirectoryGrant {
            name,
            path,
            mode,
            max_bytes,
        } = value;
        Some(Value::Table(Table::from_iter([
            ("name".to_owned(), Value::String(name.clone())),
            (
                "path".to_owned(),
                ValueKind::<PathBuf>::write(&FilePath, path)?,
            ),
            ("mode".to_owned(), Value::String(mode.name().to_owned())),
            (
                "max_bytes".to_owned(),
                ValueKind::<u64>::write(&BYTES, max_bytes)?,
            ),
        ])))
    }

    fn accepted_values(&self) -> String {
        "{ name = \"...\", path = \"...\", mode = \"read\" or \"read-write\", max_bytes = 67108864 }".to_owned()
    }

    fn shape(&self) -> ValueShape {
        ValueShape::Table
    }
}

fn read_name(value: &Spanned<DeValue<'_>>, reading: &mut DocumentParser<'_>) -> Option<String> {
    let is_name = |name: &&str| {
        !name.is_empty() && name.len() <= MAX_NAME && !name.contains(char::is_control)
    };
    let name = value.get_ref().as_str().filter(is_name).map(str::to_owned);
    if name.is_none() {
        reading.refuse(
            value,
            &format!("a name of at most {MAX_NAME} bytes, without control characters"),
        );
    }
    name
}
