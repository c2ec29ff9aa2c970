//! Conversion of a log request to a mail.
use crate::{parts::Parts, settings::Settings};
use peal_log_format::{LinePrefix, LogDirectives, Texts, channel_name, shown, visible};
use peal_sdk::{LogRequest, Proc, sink::Mail, status};

/// Composes the mail of a request. `now` is the time if the requester gives none.
pub fn letter(
    request: &LogRequest,
    settings: &Settings,
    now: impl FnOnce() -> u64,
) -> Result<Mail, i32> {
    let data = request.data();
    let directives = LogDirectives::of(request, &data)?.no_xml()?;
    let parts = Parts::of(request, data)?;
    let mut texts = Texts::of(parts.data, request.channel())?;
    texts.messages.splice(0..0, parts.text);
    let recipients = if parts.recipients.is_empty() {
        settings.recipients.clone()
    } else {
        parts.recipients
    };
    if recipients.is_empty() || texts.is_empty() {
        return Err(status::PMIX_ERR_BAD_PARAM);
    }
    let seconds = directives.timestamp.unwrap_or_else(now);
    let directives = LogDirectives {
        timestamp: Some(seconds),
        ..directives
    };
    let prefix = LinePrefix::requested(&directives, channel_name(request.channel()));
    // Line ends of other systems are not made visible as control characters.
    let mut text: String = texts
        .all()
        .map(|text| prefix.render(&text.replace("\r\n", "\n")))
        .collect();
    if settings.footer {
        text.push_str(&footer(request.source().as_ref(), seconds));
    }
    let subject = parts.subject.unwrap_or_else(|| settings.subject.clone());
    Ok(Mail {
        sender: parts.sender,
        recipients,
        subject,
        text,
        server: parts.server,
        port: parts.port,
    })
}

/// Returns the line with requester and time. It is the last line, whatever earlier lines look like.
fn footer(source: Option<&Proc>, seconds: u64) -> String {
    let source_name = match source {
        Some(Proc { nspace, rank }) => format!("rank {rank} of {}", visible(nspace)),
        None => "the resource manager".to_owned(),
    };
    format!("\n-- \nLogged by {source_name} at {}\n", shown(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;
    use peal_sdk::{Info, key};
    use proptest::prelude::*;

    const OWN: &str = key::PMIX_LOG_EMAIL;
    const FOOTER: &str = "\n-- \nLogged by rank 3 of solver at 2026-01-05T09:00:00Z\n";

    fn request(text: &str) -> LogRequest {
        let array = [
            (key::PMIX_LOG_EMAIL_ADDR, "ops@x.example"),
            (key::PMIX_LOG_EMAIL_MSG, text),
        ];
        let array: Vec<Info> = array
            .into_iter()
            .map(|(key, text)| Info::new(key, text))
            .collect();
        LogRequest::for_test(OWN)
            .with_source(Proc::new("solver", 3))
            .with(OWN, array)
    }

    fn sent(request: &LogRequest, given: Vec<Info>) -> Result<Mail, i32> {
        letter(request, &settings(given).unwrap(), || 1_767_603_600)
    }

    #[test]
    fn a_mail_has_its_parts_and_the_payload_behind_the_text() {
        let request = request("half\r\ndone")
            .with("site.load", 5u32)
            .with_directive(key::PMIX_LOG_EMAIL_SUBJECT, "Progress");
        let wanted = Mail {
            recipients: vec!["ops@x.example".to_owned()],
            subject: "Progress".to_owned(),
            text: format!("half\ndone\nsite.load: 5\n{FOOTER}"),
            ..Mail::default()
        };
        assert_eq!(sent(&request, Vec::new()), Ok(wanted));
    }

    #[test]
    fn sender_server_and_port_are_handed_on_for_the_sink_to_judge() {
        let request = request("x")
            .with_directive(key::PMIX_LOG_EMAIL_SENDER_ADDR, "me@x.example")
            .with_directive(key::PMIX_LOG_EMAIL_SERVER, "mail.x.example")
            .with_directive(key::PMIX_LOG_EMAIL_SRVR_PORT, 587i32);
        let mail = sent(&request, Vec::new()).unwrap();
        assert_eq!(
            (mail.sender.as_deref(), mail.server.as_deref()),
            (Some("me@x.example"), Some("mail.x.example"))
        );
        assert_eq!(
            (mail.port, mail.subject.as_str()),
            (Some(587), "Message from a job")
        );
    }

    #[test]
    fn request_without_recipient_needs_default_recipients() {
        let request = LogRequest::for_test(OWN).with("site.load", 5u32);
        assert_eq!(sent(&request, Vec::new()), Err(status::PMIX_ERR_BAD_PARAM));
        let given = vec![
            Info::new("recipients", "a@x.example, b@x.example"),
            Info::new("footer", false),
        ];
        let mail = sent(&request, given.clone()).unwrap();
        assert_eq!(mail.recipients, ["a@x.example", "b@x.example"]);
        assert_eq!(mail.text, "site.load: 5\n");
        assert_eq!(
            sent(&self::request("x"), given).unwrap().recipients,
            ["ops@x.example"]
        );
    }

    #[test]
    fn request_without_text_sends_nothing() {
        let array = vec![Info::new(key::PMIX_LOG_EMAIL_ADDR, "ops@x.example")];
        let request = LogRequest::for_test(OWN).with(OWN, array);
        assert_eq!(sent(&request, Vec::new()), Err(status::PMIX_ERR_BAD_PARAM));
    }

    #[test]
    fn lines_have_requested_prefix_and_control_no_terminal() {
        let request = request("\u{1b}[2J")
            .with_source(Proc::new("a\nb", 0))
            .with_timestamp(1)
            .with_directive(key::PMIX_LOG_TAG_OUTPUT, true)
            .with_directive(key::PMIX_LOG_TIMESTAMP_OUTPUT, true);
        let text = "1970-01-01T00:00:01Z <email>: \\u{1b}[2J\n\n-- \nLogged by rank 0 of a\\nb at 1970-01-01T00:00:01Z\n";
        assert_eq!(sent(&request, Vec::new()).unwrap().text, text);
        let xml = request.with_directive(key::PMIX_LOG_XML_OUTPUT, true);
        assert_eq!(sent(&xml, Vec::new()), Err(status::PMIX_ERR_NOT_SUPPORTED));
        let nobody = LogRequest::for_test(OWN).with("site.load", 5u32);
        let mail = sent(&nobody, vec![Info::new("recipients", "a@x.example")]).unwrap();
        assert!(
            mail.text.contains("Logged by the resource manager at"),
            "{mail:?}"
        );
    }

    /// Strategy for texts that resemble the channel's own syntax.
    const ODD: &str = r##"([ab \n\r\t<>"'&;#\[\],:0]|(?s:.)){0,60}"##;

    proptest! {
        /// No part of a mail except its text has more than one line, for any input.
        #[test]
        fn parts_stay_parts(
            address in "[ab\r\n]{1,2}@[ab]{1,2}",
            subject in "[ab\r\n\t]{0,2}",
            server in "[ab\r\n ]{1,2}",
            text in ODD,
        ) {
            let request = request(&text)
                .with_directive(key::PMIX_LOG_EMAIL_SUBJECT, subject)
                .with_directive(key::PMIX_LOG_EMAIL_SENDER_ADDR, address.as_str())
                .with_directive(key::PMIX_LOG_EMAIL_SERVER, server);
            if let Ok(Mail { sender, subject, server, text, .. }) = sent(&request, Vec::new()) {
                let heads = [sender.unwrap(), subject, server.unwrap()].concat();
                prop_assert!(heads.chars().all(peal_log_format::is_plain));
                prop_assert!(text.chars().all(|character| character == '\n' || peal_log_format::is_plain(character)));
                prop_assert!(text.ends_with(FOOTER));
            }
        }
    }
}
