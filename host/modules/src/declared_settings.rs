//! Comparison of the settings that an admin gives a module with those that the module declares.
use peal_config::nearest;
use peal_declaration::{ModuleDeclaration, SettingValue, WrongSetting};
use peal_model::{Info, Value};
use thiserror::Error;

/// Setting of a module that does not agree with the declaration.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum SettingMismatch {
    /// The module has no such setting.
    #[error("there is no setting {name:?}; {}", instead(.name, .known))]
    Unknown {
        /// The given name.
        name: String,
        /// Names of all settings.
        known: Vec<String>,
    },
    /// The value has another type, or is out of bounds.
    #[error(transparent)]
    Wrong(#[from] WrongSetting),
    /// A required setting is missing.
    #[error("setting {name} is missing; it should be {wanted}. {description}")]
    Missing {
        /// The name.
        name: String,
        /// Valid values, in words.
        wanted: String,
        /// Meaning of the setting.
        description: String,
    },
}

/// Returns the hint for an unknown name.
fn instead(name: &str, known: &[String]) -> String {
    match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "the module has no settings".to_owned(),
        None => format!("the settings are {}", known.join(", ")),
    }
}

/// Returns the error of a name that the module does not declare.
pub fn unknown_setting(declaration: &ModuleDeclaration, name: &str) -> SettingMismatch {
    let known = declaration.settings().iter();
    SettingMismatch::Unknown {
        name: name.to_owned(),
        known: known.map(|setting| setting.name.clone()).collect(),
    }
}

/// Returns the mismatches of settings with a declaration; none if no settings are declared.
pub fn mismatches(declaration: &ModuleDeclaration, settings: &[Info]) -> Vec<SettingMismatch> {
    let Some(declared) = &declaration.settings else {
        return Vec::new();
    };
    let compare = |info: &Info| {
        let name = info.key.as_str();
        let Some(setting) = declaration.setting(name) else {
            return Err(unknown_setting(declaration, name));
        };
        // The configuration has no other types.
        let value = value(&info.value).unwrap_or(SettingValue::Text(String::new()));
        Ok(setting.check(&value)?)
    };
    let wrong = settings.iter().filter_map(|info| compare(info).err());
    let missing = declared.iter().filter(|setting| {
        setting.required
            && !settings
                .iter()
                .any(|info| info.key.as_str() == setting.name)
    });
    let missing = missing.map(|setting| SettingMismatch::Missing {
        name: setting.name.clone(),
        wanted: setting.wanted(),
        description: setting.description.clone(),
    });
    wrong.chain(missing).collect()
}

fn value(value: &Value) -> Option<SettingValue> {
    match value {
        Value::Bool(truth) => Some(SettingValue::Boolean(*truth)),
        Value::Int64(number) => Some(SettingValue::Integer(*number)),
        Value::Double(number) => Some(SettingValue::Number(*number)),
        other => other
            .as_str()
            .map(|text| SettingValue::Text(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_declaration::SettingDeclaration;
    use peal_model::Key;

    fn declaration() -> ModuleDeclaration {
        let setting = |name: &str, kind: &str, is_required: bool| {
            let text = format!(
                "{{\"name\": {name:?}, \"type\": {kind:?}, \"description\": \"It is.\", \"required\": {is_required}, \"min\": 1}}"
            );
            serde_json::from_str::<SettingDeclaration>(&text).unwrap()
        };
        ModuleDeclaration {
            settings: Some(vec![
                setting("per_minute", "integer", false),
                setting("into", "integer", true),
            ]),
            ..ModuleDeclaration::default()
        }
    }

    fn info(name: &str, value: Value) -> Info {
        Info::new(Key::new(name).unwrap(), value)
    }

    #[test]
    fn mismatch_names_setting_value_and_what_would_be_right() {
        let said = |settings: &[Info]| {
            let all = mismatches(&declaration(), settings).into_iter();
            all.map(|error| error.to_string()).collect::<Vec<_>>()
        };
        let into = || info("into", Value::Int64(1));
        assert_eq!(said(&[into()]), Vec::<String>::new());
        assert_eq!(
            said(&[into(), info("per_minutes", Value::Int64(2))]),
            ["there is no setting \"per_minutes\"; did you mean `per_minute`?"]
        );
        assert_eq!(
            said(&[into(), info("colour", Value::Int64(2))]),
            ["there is no setting \"colour\"; the settings are per_minute, into"]
        );
        assert_eq!(
            said(&[info("per_minute", Value::string("many"))]),
            [
                "setting per_minute is \"many\"; it should be an integer of at least 1",
                "setting into is missing; it should be an integer of at least 1. It is."
            ]
        );
    }

    #[test]
    fn module_that_declares_no_settings_takes_all() {
        let settings = [info("any", Value::Int64(1))];
        assert_eq!(mismatches(&ModuleDeclaration::default(), &settings), []);
        let none = ModuleDeclaration {
            settings: Some(Vec::new()),
            ..ModuleDeclaration::default()
        };
        let said = mismatches(&none, &settings);
        assert_eq!(
            said.first().unwrap().to_string(),
            "there is no setting \"any\"; the module has no settings"
        );
    }
}
