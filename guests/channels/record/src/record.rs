//! Conversion of a log request to its record.
use crate::json;
use peal_log_format::{channel_name, read, shown};
use peal_sdk::{LogRequest, Proc};
use serde_json::{Map, Value as Json, json};

/// Returns one line of JSON: an object with the known ones of `time`, `channel`, `nspace`, `rank`
/// and `uid` of the requester, `text`, and `data`, the payload.
pub fn record(request: &LogRequest, now: impl FnOnce() -> u64) -> Result<String, i32> {
    // Each record has its time and channel, even if they were not requested.
    let (directives, texts) = read(request)?;
    let directives = directives.no_xml()?;
    let mut record = Map::new();
    let mut put = |name: &str, value: Json| record.insert(name.to_owned(), value);
    put(
        "time",
        json!(shown(directives.timestamp.unwrap_or_else(now))),
    );
    put("channel", json!(channel_name(request.channel())));
    if let Some(Proc { nspace, rank }) = request.source() {
        put("nspace", json!(nspace));
        put("rank", json!(rank));
    }
    if let Some(identity) = request.identity() {
        put("uid", json!(identity.uid));
    }
    if !texts.messages.is_empty() {
        put("text", json!(texts.messages.join("\n")));
    }
    if !texts.payload.is_empty() {
        put("data", texts.payload.iter().map(json::info).collect());
    }
    Ok(json::line(&Json::Object(record)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_sdk::{UserIdentity, key, status};
    use proptest::prelude::*;

    const OWN: &str = key::PMIX_LOG_JOB_RECORD;

    fn recorded(request: &LogRequest) -> Result<Json, i32> {
        let line = record(request, || 1_767_603_600)?;
        assert_eq!(line.lines().count(), 1);
        Ok(serde_json::from_str(&line).unwrap())
    }

    #[test]
    fn a_text_is_the_message_and_payload_its_data() {
        let request = LogRequest::for_test(OWN)
            .with_source(Proc::new("solver", 3))
            .with_identity(UserIdentity {
                uid: 1000,
                gid: 1000,
            })
            .with(OWN, "half\ndone")
            .with("site.load", 5u32);
        let wanted = json!({
            "time": "2026-01-05T09:00:00Z", "channel": "job_record", "nspace": "solver", "rank": 3, "uid": 1000,
            "text": "half\ndone", "data": [{ "key": "site.load", "type": "uint32", "value": 5 }],
        });
        assert_eq!(recorded(&request), Ok(wanted));
    }

    #[test]
    fn true_records_the_payload_alone() {
        let store = key::PMIX_LOG_GLOBAL_DATASTORE;
        let request = LogRequest::for_test(store)
            .with_timestamp(1)
            .with(store, true)
            .with("site.load", 5u32);
        let wanted = json!({
            "time": "1970-01-01T00:00:01Z", "channel": "global_datastore",
            "data": [{ "key": "site.load", "type": "uint32", "value": 5 }],
        });
        assert_eq!(recorded(&request), Ok(wanted));
        assert_eq!(
            recorded(&LogRequest::for_test(store).with(store, true)),
            Err(status::PMIX_ERR_BAD_PARAM)
        );
    }

    #[test]
    fn a_text_forges_no_field() {
        let request = LogRequest::for_test(OWN)
            .with_source(Proc::new("a\",\"rank\":0,\"x\":\"", 1))
            .with(OWN, "x\",\"uid\":0}\n{");
        let record = recorded(&request).unwrap();
        assert_eq!((&record["rank"], record.get("uid")), (&json!(1), None));
        assert_eq!(record["text"], "x\",\"uid\":0}\n{");
    }

    #[test]
    fn xml_is_not_to_be_had() {
        let request = LogRequest::for_test(OWN)
            .with(OWN, "x")
            .with_directive(key::PMIX_LOG_XML_OUTPUT, true);
        assert_eq!(recorded(&request), Err(status::PMIX_ERR_NOT_SUPPORTED));
    }

    proptest! {
        /// Any data can be read back unchanged from one line.
        #[test]
        fn records_are_read_back(
            text in any::<String>(),
            nspace in any::<String>(),
            key in "site[^.]*",
            value in any::<String>(),
        ) {
            let request = LogRequest::for_test(OWN)
                .with_source(Proc::new(nspace.as_str(), 3))
                .with(OWN, text.as_str())
                .with(key.as_str(), value.as_str());
            let wanted = json!({
                "time": "2026-01-05T09:00:00Z", "channel": "job_record", "nspace": nspace, "rank": 3, "text": text,
                "data": [{ "key": key, "type": "string", "value": value }],
            });
            prop_assert_eq!(recorded(&request), Ok(wanted));
        }
    }
}
