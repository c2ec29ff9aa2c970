//! JSON Schemas of configuration files, generated from the table of settings. Editors complete and check
//! with them while a file is written; `peal config check` decides.
use crate::{
    kinds::ValueShape,
    module_settings::Module,
    settings::Config,
    sink::Sink,
    table::{NamedTable, Setting, SettingsTable, paragraph},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Version of JSON Schema that editors of TOML read (taplo reads draft 4 to 7).
const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// Returns the schema of a configuration file: all sections, modules and sinks.
pub fn config() -> Value {
    let mut properties = sections::<Config>();
    let mut list = |name: &str, entry: Map<String, Value>| {
        properties.insert(name.to_owned(), json!({ "type": "array", "items": entry }));
    };
    list(Module::HEAD, entry::<Module>());
    list(Sink::HEAD, entry::<Sink>());
    file("Configuration of Peal", table(properties, &[]))
}

/// Returns the schema of a file in `modules.d`, where the header of the table may be absent.
pub fn module() -> Value {
    let mut entry = entry::<Module>();
    let one = Value::Object(entry.clone());
    // With a header the names of the entry are not required at the top.
    entry.remove("required");
    if let Some(Value::Object(properties)) = entry.get_mut("properties") {
        properties.insert(
            Module::HEAD.to_owned(),
            json!({ "type": "array", "items": one }),
        );
    }
    file("Module of Peal", entry)
}

fn file(title: &str, mut schema: Map<String, Value>) -> Value {
    schema.insert("$schema".to_owned(), json!(DRAFT));
    schema.insert("title".to_owned(), json!(title));
    Value::Object(schema)
}

/// Returns the schema of one table of several with names.
fn entry<T: NamedTable>() -> Map<String, Value> {
    let mut all = sections::<T>();
    let Some(Value::Object(entry)) = all.remove(T::HEAD) else {
        return Map::new();
    };
    entry
}

/// Returns the schemas of all sections by their names.
fn sections<T: SettingsTable>() -> Map<String, Value> {
    let mut tree = SchemaTree::default();
    for setting in T::ALL {
        tree.insert(setting.key, leaf(setting), setting.is_required());
    }
    for (section, about) in T::SECTIONS.iter().filter(|section| !section.0.is_empty()) {
        tree.describe(section, &paragraph(about));
    }
    tree.properties()
}

/// Tables within tables, as the dots of keys make them.
#[derive(Default)]
struct SchemaTree {
    leaves: Map<String, Value>,
    tables: BTreeMap<String, SchemaTree>,
    required: Vec<String>,
    about: Option<String>,
}

impl SchemaTree {
    fn insert(&mut self, key: &str, schema: Value, is_required: bool) {
        match key.split_once('.') {
            Some((first, rest)) => {
                let below = self.tables.entry(first.to_owned()).or_default();
                below.insert(rest, schema, is_required);
            }
            None => {
                self.leaves.insert(key.to_owned(), schema);
                if is_required {
                    self.required.push(key.to_owned());
                }
            }
        }
    }

    fn describe(&mut self, key: &str, about: &str) {
        match key.split_once('.') {
            Some((first, rest)) => {
                if let Some(below) = self.tables.get_mut(first) {
                    below.describe(rest, about);
                }
            }
            None => {
                if let Some(table) = self.tables.get_mut(key) {
                    table.about = Some(about.to_owned());
                }
            }
        }
    }

    fn properties(self) -> Map<String, Value> {
        let mut all = self.leaves;
        for (name, below) in self.tables {
            let required = below.required.clone();
            let about = below.about.clone();
            let mut schema = table(below.properties(), &required);
            if let Some(about) = about {
                schema.insert("description".to_owned(), json!(about));
            }
            all.insert(name, Value::Object(schema));
        }
        all
    }
}

fn table(properties: Map<String, Value>, required: &[String]) -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    // A key that does not exist is an error.
    schema.insert("additionalProperties".to_owned(), json!(false));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

fn leaf<T: SettingsTable>(setting: &Setting<T>) -> Value {
    let mut schema = shape(&(setting.shape)());
    schema.insert(
        "description".to_owned(),
        json!(format!(
            "{} Valid: {}.",
            setting.meaning(),
            setting.accepted_values()
        )),
    );
    let default = setting.value(&T::default());
    if let Some(default) = default.and_then(|value| serde_json::to_value(value).ok())
        && !setting.is_required()
    {
        schema.insert("default".to_owned(), default);
    }
    Value::Object(schema)
}

fn shape(shape: &ValueShape) -> Map<String, Value> {
    let schema = match shape {
        ValueShape::Text => json!({ "type": "string" }),
        ValueShape::TextOrNumber => json!({ "type": ["string", "integer"] }),
        ValueShape::Words(words) => json!({ "type": "string", "enum": words }),
        ValueShape::WordsOrTable(words) => {
            json!({ "anyOf": [{ "type": "string", "enum": words }, { "type": "object" }] })
        }
        ValueShape::Number { from, to } => {
            json!({ "type": "integer", "minimum": from, "maximum": to })
        }
        ValueShape::Switch => json!({ "type": "boolean" }),
        ValueShape::List(element) => {
            json!({ "type": "array", "items": self::shape(element) })
        }
        ValueShape::Table => json!({ "type": "object" }),
    };
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}
