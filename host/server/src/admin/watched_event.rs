//! Representation of events for administrators: the event and the result of each handler. It is
//! meant to be read by people and programs; it cannot be converted back to an event.
use super::chain::ChainOwner;
use crate::notice::ChainResults;
use peal_model::{ChainResult, Event, Info, Status, Value};
use serde::{Deserialize, Serialize};

/// Event.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WatchedEvent {
    /// Code of the event.
    pub code: WatchedStatus,
    /// Proc that raised the event, as in `solver:0`; none for the resource manager.
    pub source: Option<String>,
    /// Range of the event, by the Standard's name.
    pub range: String,
    /// Infos of the event.
    pub infos: Vec<WatchedInfo>,
    /// Results of each owner's chain, in the order of the owners; none where they cannot be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chains: Option<Vec<WatchedChain>>,
}

/// Status or event code.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WatchedStatus {
    /// Number of the status.
    pub number: i32,
    /// Name of the status, if it has one.
    pub name: Option<String>,
}

/// Info.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WatchedInfo {
    /// Key string.
    pub key: String,
    /// The Standard's name of the attribute, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    /// Type of the value, by the Standard's name.
    #[serde(rename = "type")]
    pub data_type: String,
    /// Value in JSON; a string where JSON has no such type.
    pub value: serde_json::Value,
}

/// Results of an owner's chain.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WatchedChain {
    /// Owner of the chain.
    pub owner: ChainOwner,
    /// Results of the handlers, in the order in which they ran.
    pub results: Vec<WatchedResult>,
}

/// Result of a handler.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WatchedResult {
    /// Name of the handler.
    pub handler: String,
    /// Status that the handler returned.
    pub status: WatchedStatus,
    /// Infos that the handler returned for later handlers.
    pub infos: Vec<WatchedInfo>,
}

impl WatchedEvent {
    /// Converts an event whose handler results are unknown.
    pub fn of(event: &Event) -> WatchedEvent {
        WatchedEvent {
            code: event.code.into(),
            source: event.source.as_ref().map(ToString::to_string),
            range: event.range.name().to_owned(),
            infos: event.infos.iter().map(WatchedInfo::from).collect(),
            chains: None,
        }
    }

    /// Converts an event that has passed these chains.
    pub fn passed(event: &Event, results: &[ChainResults]) -> WatchedEvent {
        WatchedEvent {
            chains: Some(results.iter().map(WatchedChain::from).collect()),
            ..WatchedEvent::of(event)
        }
    }
}

impl From<Status> for WatchedStatus {
    fn from(status: Status) -> WatchedStatus {
        WatchedStatus {
            number: status.0,
            name: status.name().map(str::to_owned),
        }
    }
}

impl From<&Info> for WatchedInfo {
    fn from(info: &Info) -> WatchedInfo {
        let data_type = info.value.data_type();
        let name = peal_model::names::DATA_TYPE_NAMES
            .iter()
            .find(|entry| entry.0 == data_type.0);
        WatchedInfo {
            key: info.key.as_str().to_owned(),
            attribute: info.key.standard_name().map(str::to_owned),
            data_type: name.map_or_else(|| data_type.to_string(), |entry| entry.1.to_owned()),
            value: json_value(&info.value),
        }
    }
}

impl From<&ChainResults> for WatchedChain {
    fn from(chain: &ChainResults) -> WatchedChain {
        let result = |step: &ChainResult| WatchedResult {
            handler: step.name.to_string(),
            status: step.status.into(),
            infos: step.infos.iter().map(WatchedInfo::from).collect(),
        };
        WatchedChain {
            owner: (&chain.owner).into(),
            results: chain.steps.iter().map(result).collect(),
        }
    }
}

/// Converts a value to JSON.
pub fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::Undef | Value::String(None) => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::String(Some(text)) => text.to_string_lossy().into(),
        Value::Int(number) | Value::Int32(number) => (*number).into(),
        Value::Int8(number) => (*number).into(),
        Value::Int16(number) => (*number).into(),
        Value::Int64(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Double(number) => (*number).into(),
        Value::Status(status) => status.to_string().into(),
        Value::Proc(proc) => proc.to_string().into(),
        Value::Rank(rank) => rank.to_string().into(),
        Value::Nspace(nspace) => nspace.as_str().into(),
        Value::Range(range) => range.name().into(),
        Value::DataArray(array) => array.items().iter().map(json_value).collect(),
        Value::Info(info) => serde_json::to_value(WatchedInfo::from(&**info)).unwrap_or_default(),
        other => other
            .as_u64()
            .map_or_else(|| format!("{other:?}").into(), Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_core::owner::Owner;
    use peal_model::{DataArray, Key, Nspace, Proc, Range, Rank, code, key};

    #[test]
    fn watched_event_has_result_of_each_chain() {
        let proc = Proc::new(Nspace::new("solver").unwrap(), Rank(3));
        let own = |value| Info::new(Key::new("site.own").unwrap(), value);
        let infos = vec![
            Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc.clone())),
            own(Value::DataArray(DataArray::infos([own(Value::Uint64(
                u64::MAX,
            ))]))),
        ];
        let event = Event {
            code: Status(-3001),
            source: Some(proc),
            range: Range::Session,
            infos,
        };
        let step = ChainResult {
            name: "report".into(),
            status: code::PMIX_EVENT_NO_ACTION_TAKEN,
            infos: vec![own(Value::Bool(true))],
        };
        let results = [ChainResults {
            owner: Owner::User(7),
            steps: vec![step],
            calls: Vec::new(),
        }];
        let seen = WatchedEvent::passed(&event, &results);
        let json = serde_json::to_value(&seen).unwrap();
        assert_eq!(
            json["code"],
            serde_json::json!({"number": -3001, "name": null})
        );
        assert_eq!(
            (&json["source"], &json["range"]),
            (&"solver:3".into(), &"PMIX_RANGE_SESSION".into())
        );
        assert_eq!(json["infos"][0]["attribute"], "PMIX_EVENT_AFFECTED_PROC");
        assert_eq!(json["infos"][0]["value"], "solver:3");
        assert_eq!(json["infos"][1]["value"][0]["value"], u64::MAX);
        assert_eq!(json["chains"][0]["owner"]["user"], 7);
        let result = &json["chains"][0]["results"][0];
        assert_eq!(
            (&result["handler"], &result["infos"][0]["value"]),
            (&"report".into(), &true.into())
        );
        assert_eq!(result["status"]["name"], "PMIX_EVENT_NO_ACTION_TAKEN");
        assert_eq!(serde_json::from_value::<WatchedEvent>(json).unwrap(), seen);
        assert!(
            serde_json::to_value(WatchedEvent::of(&event))
                .unwrap()
                .get("chains")
                .is_none()
        );
    }
}
