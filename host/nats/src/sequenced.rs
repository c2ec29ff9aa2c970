//! Consumer of the stream of members: it sends each record to all servers when it is stored.
use crate::{
    difference::{SettingDifference, first_difference},
    subjects::ClusterSubjects,
};
use async_nats::{
    Message,
    jetstream::{
        consumer::{AckPolicy, Config, DeliverPolicy, IntoConsumerConfig, push},
        context::ConsumerInfoErrorKind,
        stream::Stream,
    },
};
use peal_cluster::RecordPosition;

/// Name of the consumer.
pub(crate) const SEQUENCED: &str = "sequenced";

/// Beginning of the subject to which a message of a consumer could be acknowledged. It holds the position.
const ACKNOWLEDGEMENT: &str = "$JS.ACK.";

/// Returns the settings of the consumer. Republishing by the stream would do the same, with five headers
/// in each message: where many servers join, parsing them takes a quarter of the time.
fn config(subjects: &ClusterSubjects) -> push::Config {
    push::Config {
        durable_name: Some(SEQUENCED.to_owned()),
        deliver_subject: subjects.sequenced(),
        // Earlier records are read.
        deliver_policy: DeliverPolicy::New,
        ack_policy: AckPolicy::None,
        ..push::Config::default()
    }
}

/// Consumer as it was found.
pub(crate) enum FoundConsumer {
    Fit,
    Missing,
    Differs(SettingDifference),
}

/// Reads the consumer of the stream of members. Fails with the reason.
pub(crate) async fn find<Info>(
    stream: &Stream<Info>,
    subjects: &ClusterSubjects,
) -> Result<FoundConsumer, String> {
    match stream.consumer_info(SEQUENCED).await {
        Ok(info) => Ok(match difference(&info.config, subjects) {
            Some(difference) => FoundConsumer::Differs(difference),
            None => FoundConsumer::Fit,
        }),
        Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => Ok(FoundConsumer::Missing),
        Err(error) => Err(error.to_string()),
    }
}

/// Creates the consumer. Fails with the reason.
pub(crate) async fn create<Info>(
    stream: &Stream<Info>,
    subjects: &ClusterSubjects,
) -> Result<(), String> {
    let created = stream.create_consumer_strict(config(subjects)).await;
    created.map(drop).map_err(|error| error.to_string())
}

/// Returns the first setting in which a consumer differs.
fn difference(found: &Config, subjects: &ClusterSubjects) -> Option<SettingDifference> {
    let expected = config(subjects).into_consumer_config();
    first_difference!(
        found,
        expected,
        deliver_subject,
        deliver_group,
        deliver_policy,
        ack_policy,
        replay_policy,
        filter_subject,
        filter_subjects,
        headers_only,
        rate_limit,
        flow_control,
        idle_heartbeat,
        num_replicas,
        memory_storage,
        pause_until,
    )
}

/// Returns the position of a record that the consumer has sent; `None` for other messages.
pub(crate) fn position(message: &Message) -> Option<RecordPosition> {
    let reply = message.reply.as_deref()?;
    // STREAM.CONSUMER.DELIVERIES.POSITION.COUNT.TIME.PENDING; two parts more come first if the reply names
    // the domain, and a random one last.
    let parts: Vec<&str> = reply.strip_prefix(ACKNOWLEDGEMENT)?.split('.').collect();
    let position = match parts.as_slice() {
        [_, _, _, position, _, _, _] | [_, _, _, _, _, position, _, _, _, ..] => position,
        _ => return None,
    };
    position.parse().ok().map(RecordPosition)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "this is test code")]
    use super::*;

    fn replied(reply: Option<&str>) -> Option<RecordPosition> {
        position(&Message {
            subject: "peal.site.members.a".into(),
            reply: reply.map(Into::into),
            payload: Default::default(),
            headers: None,
            status: None,
            description: None,
            length: 0,
        })
    }

    #[test]
    fn position_is_read_from_both_forms_of_reply() {
        for reply in [
            "$JS.ACK.PEAL_site_MEMBERS.sequenced.1.77.5.1790230470084404000.0",
            "$JS.ACK.hub.h4sh.PEAL_site_MEMBERS.sequenced.1.77.5.1790230470084404000.0",
            "$JS.ACK._.h4sh.PEAL_site_MEMBERS.sequenced.1.77.5.1790230470084404000.0.r4nd0m",
        ] {
            assert_eq!(replied(Some(reply)), Some(RecordPosition(77)), "{reply}");
        }
        for other in [
            None,
            Some(""),
            Some("peal.site.inbox.a.1"),
            Some("$JS.ACK."),
            Some("$JS.ACK.PEAL_site_MEMBERS.sequenced.1.77.5.1790230470084404000"),
            Some("$JS.ACK.PEAL_site_MEMBERS.sequenced.1.-77.5.1790230470084404000.0"),
            Some("$JS.ACK.hub.PEAL_site_MEMBERS.sequenced.1.77.5.1790230470084404000.0"),
        ] {
            assert_eq!(replied(other), None, "{other:?}");
        }
    }

    #[test]
    fn difference_names_setting_with_both_values() {
        let subjects = ClusterSubjects::new("site".parse().unwrap());
        let fit = Config {
            deliver_subject: Some("peal.site.sequenced".to_owned()),
            deliver_policy: DeliverPolicy::New,
            ack_policy: AckPolicy::None,
            // Values that a NATS server fills in.
            max_deliver: -1,
            ..Config::default()
        };
        assert_eq!(difference(&fit, &subjects), None);
        let found = Config {
            deliver_subject: Some("peal.site.from.a.to.b".to_owned()),
            ..fit
        };
        let found = difference(&found, &subjects).unwrap();
        assert_eq!(found.setting, "deliver_subject");
        assert_eq!(found.value, "Some(\"peal.site.from.a.to.b\")");
        assert_eq!(found.expected, "Some(\"peal.site.sequenced\")");
    }
}
