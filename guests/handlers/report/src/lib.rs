//! Logs each event it sees, says how many handlers ran before it, and leaves the rest to others.
use peal_sdk::{Event, Outcome, handler, log};

fn report(event: &Event) -> Outcome {
    let source = event.source().map_or("the resource manager".to_owned(), |proc| proc.to_string());
    log::info(format!("event {} from {source}", event.code()));
    for info in event.infos() {
        log::info(format!("  {} = {:?}", info.key, info.value));
    }
    Outcome::no_action().with("peal.report.seen", event.step_count())
}

handler!(report);
