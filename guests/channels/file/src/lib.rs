//! Log channel that writes lines into a file. `peal-module.toml` says how, and declares the
//! settings.
use peal_log_format::{LinePrefix, channel_name, lines, read, shown, visible};
use peal_sdk::{Config, LogRequest, Proc, Registration, channel, clock, lifecycle, sink, status};
use std::sync::OnceLock;

static SINK: OnceLock<String> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&["sink"])?;
    // An instance receives its settings only once.
    let _ = SINK.set(peal_log_format::opened(
        config,
        "sink",
        "file",
        &sink::names(),
    )?);
    Ok(Vec::new())
}

fn stop() {}

fn log(request: &LogRequest) -> Result<(), i32> {
    let name = SINK.get().ok_or(status::PMIX_ERR_INIT)?;
    sink::write(name, written(request, || clock::now().as_secs())?)
}

/// Returns the lines of a request. `now` is the time if the requester gives none.
fn written(request: &LogRequest, now: impl FnOnce() -> u64) -> Result<String, i32> {
    let (directives, texts) = read(request)?;
    let directives = directives.no_xml()?;
    let time = shown(directives.timestamp.unwrap_or_else(now));
    // The time is there in any case.
    let prefix = LinePrefix {
        time: None,
        ..LinePrefix::requested(&directives, channel_name(request.channel()))
    };
    let start = format!(
        "{time} [{}] {}",
        source_name(request.source().as_ref()),
        prefix.text()
    );
    let written = |text: String| {
        lines(&text)
            .map(|line| format!("{start}{}\n", visible(line)))
            .collect::<String>()
    };
    Ok(texts.all().map(written).collect())
}

/// Returns the requester as one field.
fn source_name(source: Option<&Proc>) -> String {
    let Some(Proc { nspace, rank }) = source else {
        return "-".to_owned();
    };
    let mut field = String::new();
    for character in visible(nspace).chars() {
        match character {
            '[' | ']' | ',' | ' ' | '\t' => field.extend(character.escape_unicode()),
            other => field.push(other),
        }
    }
    format!("{field},{rank}")
}

channel!(log);
lifecycle!(init, stop);

#[cfg(test)]
mod tests {
    use super::*;
    use peal_sdk::key;
    use proptest::prelude::*;

    const OWN: &str = "site.log.board";

    fn request() -> LogRequest {
        LogRequest::for_test(OWN)
            .with_source(Proc::new("solver", 3))
            .with(OWN, "one\ntwo \u{1b}c")
            .with("site.load", 5u32)
    }

    fn lines_of(request: &LogRequest) -> Result<String, i32> {
        written(request, || 1_767_603_600)
    }

    #[test]
    fn each_line_has_time_and_source() {
        let start = "2026-01-05T09:00:00Z [solver,3] ";
        let lines = ["one", "two \\u{1b}c", "site.load: 5"]
            .map(|text| format!("{start}{text}\n"))
            .concat();
        assert_eq!(lines_of(&request()).unwrap(), lines);
        assert!(
            lines_of(&request().with_timestamp(1))
                .unwrap()
                .starts_with("1970-01-01T00:00:01Z [solver,3] one\n")
        );
        let nobody = LogRequest::for_test(OWN).with(OWN, "x");
        assert_eq!(lines_of(&nobody).unwrap(), "2026-01-05T09:00:00Z [-] x\n");
    }

    #[test]
    fn line_of_proc_cannot_look_like_another_procs() {
        let request = LogRequest::for_test(OWN)
            .with_source(Proc::new("a,0] x\n[b", 1))
            .with(OWN, "y\n[root,0] z");
        let start = "2026-01-05T09:00:00Z [a\\u{2c}0\\u{5d}\\u{20}x\\n\\u{5b}b,1] ";
        assert_eq!(
            lines_of(&request).unwrap(),
            format!("{start}y\n{start}[root,0] z\n")
        );
    }

    #[test]
    fn lines_are_tagged_on_request_and_xml_is_refused() {
        let tagged = request().with_directive(key::PMIX_LOG_TAG_OUTPUT, true);
        let start = "2026-01-05T09:00:00Z [solver,3] <site.log.board>: one\n";
        assert!(lines_of(&tagged).unwrap().starts_with(start));
        let xml = request().with_directive(key::PMIX_LOG_XML_OUTPUT, true);
        assert_eq!(lines_of(&xml), Err(status::PMIX_ERR_NOT_SUPPORTED));
    }

    #[test]
    fn unreadable_request_writes_nothing() {
        assert_eq!(
            lines_of(&request().with(OWN, 5u32)),
            Err(status::PMIX_ERR_BAD_PARAM)
        );
        assert_eq!(
            lines_of(&LogRequest::for_test(OWN)),
            Err(status::PMIX_ERR_BAD_PARAM)
        );
    }

    /// Strategy for texts that resemble the channel's own syntax.
    const ODD: &str = r##"([ab \n\r\t<>"'&;#\[\],:0]|(?s:.)){0,60}"##;

    proptest! {
        /// Each line has three fields, and the second names the requester, for any text and
        /// namespace.
        #[test]
        fn lines_have_their_fields(text in ODD, nspace in ODD) {
            let request = LogRequest::for_test(OWN).with_source(Proc::new(nspace, 3)).with(OWN, text.as_str());
            let written = lines_of(&request).unwrap();
            prop_assert_eq!(written.split_terminator('\n').count(), lines(&text).count());
            for (line, text) in written.split_terminator('\n').zip(lines(&text)) {
                let fields: Vec<&str> = line.splitn(3, ' ').collect();
                prop_assert!(line.chars().all(peal_log_format::is_plain));
                prop_assert!(fields[1].starts_with('[') && fields[1].ends_with(",3]"));
                prop_assert!(fields[1].matches(['[', ']', ',']).count() == 3);
                prop_assert_eq!(fields[2], visible(text));
            }
        }
    }
}
