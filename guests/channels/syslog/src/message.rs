//! Conversion of a log request to syslog messages: one for each line.
use crate::{
    header::Head,
    priority::priority,
    settings::{Format, Settings, Target},
};
use peal_log_format::{LinePrefix, channel_name, lines, read, visible};
use peal_sdk::{LogRequest, status};

/// Mark at the end of a cut message.
const CUT: char = '…';

/// Returns the complete messages of a request. `now` is the time if the requester gives none.
pub fn messages(
    request: &LogRequest,
    settings: &Settings,
    target: &Target,
    now: impl FnOnce() -> u64,
) -> Result<Vec<String>, i32> {
    let (directives, texts) = read(request)?;
    let directives = directives.no_xml()?;
    let source = request.source();
    let head = Head {
        priority: priority(request, settings)?,
        seconds: directives.timestamp.unwrap_or_else(now),
        hostname: settings.hostname.as_deref(),
        source: source.as_ref(),
    };
    let header = match target.format {
        Format::Rfc5424 => head.rfc5424(),
        Format::Rfc3164 => head.rfc3164(),
    };
    // The header has the time in any case.
    let prefix = LinePrefix {
        time: None,
        ..LinePrefix::requested(&directives, channel_name(request.channel()))
    };
    let start = header.ok_or(status::PMIX_ERR_BAD_PARAM)? + &prefix.text();
    let most = settings.max_bytes(target.format);
    let messages = |text: String| {
        lines(&text)
            .map(|line| cut(format!("{start}{}", visible(line)), most))
            .collect()
    };
    Ok(texts.all().flat_map::<Vec<String>, _>(messages).collect())
}

/// Cuts a message to a maximum of bytes, with a mark.
fn cut(mut message: String, most: usize) -> String {
    if message.len() > most {
        message.truncate(message.floor_char_boundary(most.saturating_sub(CUT.len_utf8())));
        message.push(CUT);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;
    use peal_sdk::{Info, Proc, key};
    use proptest::prelude::*;

    const OWN: &str = key::PMIX_LOG_SYSLOG;
    const HEADER: &str = "<14>1 2026-01-05T09:00:00Z - solver 3 pmix - ";

    fn messages_of(request: &LogRequest, given: Vec<Info>) -> Result<Vec<String>, i32> {
        let settings = settings(given).unwrap();
        messages(
            request,
            &settings,
            settings.target(request.channel()).unwrap(),
            || 1_767_603_600,
        )
    }

    fn request(text: &str) -> LogRequest {
        LogRequest::for_test(OWN)
            .with_source(Proc::new("solver", 3))
            .with(OWN, text)
    }

    #[test]
    fn each_line_is_a_message() {
        let request = request("one\n\ntwo\n")
            .with("site.load", 5u32)
            .with(OWN, "");
        let texts = ["one", "", "two", "", "site.load: 5"].map(|text| format!("{HEADER}{text}"));
        assert_eq!(messages_of(&request, Vec::new()).unwrap(), texts);
    }

    #[test]
    fn time_and_priority_of_requester_and_settings_are_used() {
        let request = request("x")
            .with_timestamp(1)
            .with_directive(key::PMIX_LOG_SYSLOG_PRI, 1i32);
        assert_eq!(
            messages_of(&request, Vec::new()).unwrap(),
            ["<9>1 1970-01-01T00:00:01Z - solver 3 pmix - x"]
        );
        let given = vec![
            Info::new("format", "rfc3164"),
            Info::new("hostname", "node7"),
            Info::new("facility", "local7"),
        ];
        assert_eq!(
            messages_of(&request, given).unwrap(),
            ["<185>Jan  1 00:00:01 node7 solver[3]: x"]
        );
    }

    #[test]
    fn nothing_forges_a_second_message() {
        let text = "x\r\n<0>1 - - - - - - y\u{0}\u{1b}c\u{85}\u{2028}z";
        let texts = ["x\\r", "<0>1 - - - - - - y\\u{0}\\u{1b}c\\u{85}\\u{2028}z"]
            .map(|text| format!("{HEADER}{text}"));
        let messages = messages_of(&request(text), Vec::new()).unwrap();
        assert_eq!(messages, texts);
        assert!(
            messages
                .iter()
                .flat_map(|message| message.chars())
                .all(peal_log_format::is_plain)
        );
    }

    #[test]
    fn a_long_line_is_cut_between_characters_and_marked() {
        let short = || vec![Info::new("max_bytes", 480)];
        let fits = "x".repeat(480 - HEADER.len());
        assert_eq!(
            messages_of(&request(&fits), short()).unwrap(),
            [format!("{HEADER}{fits}")]
        );
        for text in [fits + "x", "ü".repeat(300), "\u{1f600}".repeat(300)] {
            let messages = messages_of(&request(&text), short()).unwrap();
            assert!(
                (476..=480).contains(&messages[0].len()) && messages[0].ends_with('…'),
                "{messages:?}"
            );
        }
    }

    #[test]
    fn lines_are_tagged_on_request_and_xml_is_refused() {
        let tagged = request("one\ntwo").with_directive(key::PMIX_LOG_TAG_OUTPUT, true);
        let texts = ["<syslog>: one", "<syslog>: two"].map(|text| format!("{HEADER}{text}"));
        assert_eq!(
            messages_of(
                &tagged.with_directive(key::PMIX_LOG_TIMESTAMP_OUTPUT, true),
                Vec::new()
            )
            .unwrap(),
            texts
        );
        let xml = request("x").with_directive(key::PMIX_LOG_XML_OUTPUT, true);
        assert_eq!(
            messages_of(&xml, Vec::new()),
            Err(status::PMIX_ERR_NOT_SUPPORTED)
        );
    }

    #[test]
    fn invalid_attributes_are_refused() {
        assert_eq!(
            messages_of(&request("x").with(OWN, 5u32), Vec::new()),
            Err(status::PMIX_ERR_BAD_PARAM)
        );
        assert_eq!(
            messages_of(&request("x").with_timestamp(u64::MAX), Vec::new()),
            Err(status::PMIX_ERR_BAD_PARAM),
            "no such year"
        );
        let priority = request("x").with_directive(key::PMIX_LOG_SYSLOG_PRI, "alert");
        assert_eq!(
            messages_of(&priority, Vec::new()),
            Err(status::PMIX_ERR_BAD_PARAM)
        );
    }

    /// Strategy for texts that resemble the channel's own syntax.
    const ODD: &str = r##"([ab \n\r\t<>"'&;#\[\],:0]|(?s:.)){0,60}"##;

    proptest! {
        /// There is one message for each line, with its fields in place, for any text and
        /// namespace.
        #[test]
        fn messages_have_their_fields(text in ODD, nspace in ODD, bytes in 480..600i64) {
            let request = LogRequest::for_test(OWN).with_source(Proc::new(nspace, 3)).with(OWN, text.as_str());
            let given = || vec![Info::new("max_bytes", bytes)];
            let messages = messages_of(&request, given()).unwrap();
            prop_assert_eq!(messages.len(), lines(&text).count());
            for (message, line) in messages.iter().zip(lines(&text)) {
                prop_assert!(message.chars().all(peal_log_format::is_plain) && message.len() <= bytes as usize);
                let fields: Vec<&str> = message.splitn(8, ' ').collect();
                prop_assert_eq!(&fields[..3], ["<14>1", "2026-01-05T09:00:00Z", "-"]);
                prop_assert!((1..=48).contains(&fields[3].len()));
                prop_assert!(fields[3].bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert_eq!(&fields[4..7], ["3", "pmix", "-"]);
                let there = fields[7].strip_suffix(CUT).filter(|_| message.len() + 4 > bytes as usize);
                prop_assert!(visible(line).starts_with(there.unwrap_or(fields[7])));
            }
            let old = messages_of(&request, vec![Info::new("format", "rfc3164")]).unwrap();
            for message in old {
                let (tag, _) = message.strip_prefix("<14>Jan  5 09:00:00 ").unwrap().split_once("[3]: ").unwrap();
                let is_of_tag = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                prop_assert!((1..=32).contains(&tag.len()) && tag.bytes().all(is_of_tag));
            }
        }
    }
}
