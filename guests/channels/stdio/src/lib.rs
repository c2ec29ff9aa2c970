//! Log channels that write to the output of the job that logs. `peal-module.toml` says how.
mod xml;

use peal_log_format::{LinePrefix, read};
use peal_sdk::{LogRequest, channel, key, sink, status};
use xml::Elements;

fn log(request: &LogRequest) -> Result<(), i32> {
    let sink = match request.channel() {
        key::PMIX_LOG_STDOUT => "stdout",
        key::PMIX_LOG_STDERR => "stderr",
        _ => return Err(status::PMIX_ERR_NOT_SUPPORTED),
    };
    sink::write(sink, written(request, sink)?)
}

/// Formats a request for the channel of this name. Nothing is written if a part cannot be
/// formatted.
fn written(request: &LogRequest, name: &str) -> Result<String, i32> {
    let (directives, texts) = read(request)?;
    let prefix = LinePrefix::requested(&directives, name);
    Ok(if directives.xml {
        let elements = Elements::new(name, request.source().as_ref(), prefix.time);
        texts.all().map(|text| elements.render(&text)).collect()
    } else {
        texts.all().map(|text| prefix.render(&text)).collect()
    })
}

channel!(log);

#[cfg(test)]
mod tests {
    use super::*;
    use peal_sdk::Proc;

    fn request() -> LogRequest {
        let out = key::PMIX_LOG_STDOUT;
        LogRequest::for_test(out)
            .with_source(Proc::new("solver", 0))
            .with(out, "one\ntwo")
            .with("site.load", 5u32)
            .with_timestamp(1)
    }

    #[test]
    fn lines_have_requested_prefix() {
        assert_eq!(
            written(&request(), "stdout").unwrap(),
            "one\ntwo\nsite.load: 5\n"
        );
        let tagged = request().with_directive(key::PMIX_LOG_TAG_OUTPUT, true);
        assert_eq!(
            written(&tagged, "stdout").unwrap(),
            "<stdout>: one\n<stdout>: two\n<stdout>: site.load: 5\n"
        );
        let dated = request().with_directive(key::PMIX_LOG_TIMESTAMP_OUTPUT, true);
        assert!(
            written(&dated, "stdout")
                .unwrap()
                .starts_with("1970-01-01T00:00:01Z one\n")
        );
    }

    #[test]
    fn xml_is_written_on_request() {
        let xml = request().with_directive(key::PMIX_LOG_XML_OUTPUT, true);
        let element =
            |text| format!("<stdout nspace=\"solver\" rank=\"0\">{text}&#010;</stdout>\n");
        assert_eq!(
            written(&xml, "stdout").unwrap(),
            ["one", "two", "site.load: 5"].map(element).concat()
        );
        let dated = xml.with_directive(key::PMIX_LOG_GENERATE_TIMESTAMP, true);
        assert!(
            written(&dated, "stdout")
                .unwrap()
                .contains(" timestamp=\"1970-01-01T00:00:01Z\">one&#010;")
        );
    }
}
