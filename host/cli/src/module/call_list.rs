//! Calls of a component in one case, with its host calls in their order, for `peal module test --debug`.
use super::{
    call_steps::{CallSteps, StepEnd},
    case_results::CaseResults,
};
use crate::plain;
use anyhow::{Result, bail};
use peal_model::counted;
use peal_sandbox::{CallEnd, CallRecord, CallSubject, HostCall, HostCallAnswer, Returned};
use serde_json::Value;
use std::io::{self, BufRead, IsTerminal, Write};

/// Longest text of an argument or answer, in characters.
const MAX_TEXT: usize = 160;

/// Prints the calls of the cases with this name. At a terminal each host call waits for a command.
///
/// # Errors
///
/// Fails if there is none; names those that there are.
pub fn print(all: &[CaseResults], name: &str, out: &mut impl Write) -> Result<()> {
    let reports = || all.iter().flat_map(|results| &results.reports);
    let mut named = reports().filter(|report| report.case == name).peekable();
    if named.peek().is_none() {
        let names: Vec<String> = reports()
            .map(|report| format!("{:?}", report.case))
            .collect();
        bail!("no case is named {name:?}; there are {}", names.join(", "));
    }
    // Both: of what is printed into a file nobody sees where it waits.
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mut steps = CallSteps::new(is_terminal.then(|| io::stdin().lock()), out)?;
    for report in named {
        writeln!(out, "{}", plain(&report.case))?;
        for record in &report.records {
            if print_call(record, &mut steps, out)? == StepEnd::Quit {
                return Ok(());
            }
        }
        writeln!(out, "  result: {}", plain(&report.outcome))?;
    }
    Ok(())
}

fn print_call<R: BufRead>(
    record: &CallRecord,
    steps: &mut CallSteps<R>,
    out: &mut impl Write,
) -> io::Result<StepEnd> {
    writeln!(out, "  {}", call_name(&record.subject, record.number))?;
    for call in &record.host_calls {
        writeln!(out, "    {}", host_call(call))?;
        if steps.wait(call, out)? == StepEnd::Quit {
            return Ok(StepEnd::Quit);
        }
    }
    let end = match &record.end {
        CallEnd::Returned { answer, .. } => match answer {
            Returned::Nothing => "returned".to_owned(),
            Returned::Init(Ok(registrations)) => {
                format!("returned {}", counted(registrations.len(), "registration"))
            }
            Returned::Init(Err(reason)) => format!("refused to start: {reason}"),
            Returned::Status(status) => format!("returned {status}"),
            Returned::Outcome(outcome) => format!("returned {outcome:?}"),
        },
        CallEnd::Failed(failure) => format!("failed: {failure}"),
    };
    let fuel = record
        .usage
        .fuel
        .map(|fuel| format!(", {fuel} instructions"));
    let memory = record.memory.div_ceil(1024);
    writeln!(
        out,
        "    {}{}, {memory} KiB of memory",
        plain(&end),
        fuel.unwrap_or_default()
    )?;
    Ok(StepEnd::Next)
}

fn call_name(subject: &CallSubject, number: u64) -> String {
    match subject {
        CallSubject::Event(call) => format!("handler, for {}", call.event.code),
        CallSubject::Policy(call) => format!("policy, for {}", call.request.subject.hook()),
        CallSubject::Log(_) => "log channel".to_owned(),
        CallSubject::Settings(_) => "lifecycle.init".to_owned(),
        CallSubject::None if number == 0 => "start of the instance".to_owned(),
        CallSubject::None => "lifecycle.stop".to_owned(),
    }
}

/// Formats a host call: the function, its arguments, and the answer.
fn host_call(call: &HostCall) -> String {
    let mut text = call.request.name().to_owned();
    // A request without arguments is a string.
    if let Ok(Value::Object(request)) = serde_json::to_value(&call.request) {
        let arguments = request.values().filter_map(Value::as_object).flatten();
        for (name, value) in arguments {
            text.push_str(&format!(" {name}={}", short(&value.to_string())));
        }
    }
    if let Some(answer) = &call.answer {
        text.push_str(&format!(" -> {}", short(&answer_text(answer))));
    }
    plain(&text)
}

fn answer_text(answer: &HostCallAnswer) -> String {
    match answer {
        HostCallAnswer::Done => "done".to_owned(),
        HostCallAnswer::Refused(status) => format!("refused, {status}"),
        HostCallAnswer::Number(number) => number.to_string(),
        HostCallAnswer::Bytes(bytes) => format!("{:?}", String::from_utf8_lossy(bytes.as_slice())),
        HostCallAnswer::Nothing => "nothing".to_owned(),
        HostCallAnswer::Names(names) => names.join(", "),
        HostCallAnswer::Infos(infos) => format!("{infos:?}"),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
