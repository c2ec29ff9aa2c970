//! Tells on standard error what happens in a job, in terms that a newcomer understands.
use peal_core::{owner::Owner, termination::TerminationRequest};
use peal_model::{ChainResult, Event, Proc, Value, code, counted};
use peal_server::{ChainResults, Notice, Wished};
use std::io::Write;

/// How much of a text is shown, in characters.
const LONGEST: usize = 200;

/// Whether there is anything to tell of a notice.
pub fn is_told(notice: &Notice) -> bool {
    !matches!(notice, Notice::EventEntered(_))
}

/// Prints one notice.
pub fn print(notice: &Notice) {
    let text = match notice {
        Notice::JobStarted { nspace, size, .. } => {
            format!("job {nspace} starts with {}\n", counted(*size, "proc"))
        }
        Notice::ProcStarted { proc, pid } => format!("{} started as process {pid}\n", rank(proc)),
        Notice::ProcConnected(proc) => format!("{} connected\n", rank(proc)),
        Notice::ProcFinalized(proc) => format!("{} left in order\n", rank(proc)),
        Notice::ProcEnded { proc, end } => format!("{} {end}\n", rank(proc)),
        // What is told of an event is what became of it.
        Notice::EventEntered(_) => return,
        Notice::Passed { event, results, .. } => passed(event, results),
        Notice::Wished { nspace, wished } => format!("job {nspace} {}\n", decided(wished)),
        Notice::Controlled {
            requester,
            operation,
            targets,
            status,
        } => {
            let targets = targets.iter().map(rank).collect::<Vec<_>>().join(", ");
            let requester = requester
                .as_ref()
                .map_or_else(|| "a module".to_owned(), rank);
            format!("{operation} for {targets}, as {requester} asked: {status}\n")
        }
        Notice::JobEnded {
            nspace,
            exit_status,
        } => format!("job {nspace} ended with status {exit_status}\n"),
        Notice::JobEnding { nspace, because } => {
            format!("job {nspace} is being ended: {because}\n")
        }
    };
    let lines: String = text.lines().map(|line| format!("peal: {line}\n")).collect();
    // Nobody reads our standard error: there is nobody to tell.
    let _ = std::io::stderr().write_all(lines.as_bytes());
}

fn rank(proc: &Proc) -> String {
    format!("rank {}", proc.rank)
}

fn headline(event: &Event) -> String {
    let source = match &event.source {
        Some(source) => rank(source),
        None => "the resource manager".to_owned(),
    };
    format!(
        "event {} from {source}, range {}",
        event.code,
        event.range.name()
    )
}

fn passed(event: &Event, results: &[ChainResults]) -> String {
    if results.is_empty() {
        return format!("{}: no handler is registered for it\n", headline(event));
    }
    results
        .iter()
        .map(|chain| handled(&chain.owner, event, &chain.steps))
        .collect()
}

fn handled(owner: &Owner, event: &Event, steps: &[ChainResult]) -> String {
    let mut text = format!("{}, through {}'s chain:\n", headline(event), whose(owner));
    for step in steps {
        text.push_str(&format!("  {} answers {}", name(step), step.status));
        for info in &step.infos {
            text.push_str(&format!(
                ", {}={}",
                plain(info.key.as_str()),
                short(&info.value)
            ));
        }
        if step.status == code::PMIX_EVENT_ACTION_COMPLETE {
            text.push_str(", which ends the chain");
        }
        text.push('\n');
    }
    text
}

fn whose(owner: &Owner) -> &'static str {
    match owner {
        Owner::Site => "the site",
        Owner::User(_) => "the user",
        Owner::Namespace(_) => "the job",
    }
}

fn decided(wished: &Wished) -> String {
    let by = format!(
        "handler \"{}\" of {}",
        plain(&wished.handler),
        whose(&wished.owner)
    );
    match wished.wish {
        TerminationRequest::Termination => format!("is to end: {by} wants termination"),
        TerminationRequest::NoTermination => format!("goes on: {by} wants no termination"),
    }
}

fn name(step: &ChainResult) -> String {
    if step.name.is_empty() {
        "(no name)".to_owned()
    } else {
        plain(&step.name)
    }
}

/// A text of a program or component, with nothing in it that could end a line or move the cursor.
fn plain(text: &str) -> String {
    text.escape_debug().take(LONGEST).collect()
}

/// A value in few characters, none of which can move the cursor.
fn short(value: &Value) -> String {
    value.to_string().chars().take(LONGEST).collect()
}
