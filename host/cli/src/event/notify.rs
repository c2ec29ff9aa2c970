//! `peal event notify`: raises an event at a running server, as a tool.
use super::{print, tool_settings};
use crate::{
    admin::NOTHING_CHANGED,
    args::{EventNotify, OutputFormat},
    output, tool, usage_error,
};
use anyhow::{Result, bail};
use peal_client::ClientError;
use peal_model::{DataArray, Event, Info, Infos, Range, Value, key};
use peal_server::admin::WatchedEvent;
use std::{
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

/// Raises the event, and prints it.
pub async fn notify(args: EventNotify) -> Result<ExitCode> {
    let EventNotify {
        server,
        code,
        range,
        mut infos,
        targets,
        format,
        dry_run,
    } = args;
    let range = match (range, targets.is_empty()) {
        (None, true) => Range::Session,
        (None | Some(Range::Custom), false) => Range::Custom,
        (Some(range), false) => {
            let range = range.name();
            return Err(usage_error(format!(
                "--target makes the range of an event custom; it cannot be {range} as well"
            )));
        }
        (Some(Range::Custom), true) if infos.value_of(key::PMIX_EVENT_CUSTOM_RANGE).is_none() => {
            return Err(usage_error(
                "--range custom needs the recipients of the event: --target NSPACE:RANK",
            ));
        }
        (Some(Range::ProcLocal), true) => {
            return Err(usage_error(
                "an event of range PMIX_RANGE_PROC_LOCAL never leaves the process that raises it",
            ));
        }
        (Some(range), true) => range,
    };
    if !targets.is_empty() {
        infos.push(Info::new(
            key::PMIX_EVENT_CUSTOM_RANGE,
            Value::DataArray(DataArray::procs(targets)),
        ));
    }
    if infos.value_of(key::PMIX_EVENT_TIMESTAMP).is_none() {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        infos.push(Info::new(key::PMIX_EVENT_TIMESTAMP, Value::Time(now)));
    }
    // Attached only now: wrong arguments are reported without a server.
    let tool = tool::attach(tool_settings(server)?).await?;
    let event = Event {
        code,
        source: Some(tool.me().clone()),
        range,
        infos,
    };
    // Attached in a dry run, too: a server that refuses this tool would refuse the event.
    let notified = if dry_run.dry_run {
        crate::print_line(NOTHING_CHANGED);
        Ok(())
    } else {
        tool.notify(code, range, event.infos.clone()).await
    };
    tool::leave(&tool).await;
    notified.or_else(refused)?;
    let seen = WatchedEvent::of(&event);
    output::print(&match format.output {
        OutputFormat::Data(form) => form.document(&seen)?,
        _ if dry_run.dry_run => format!("would raise {}\n", print::line(&seen)),
        _ => print::line(&seen) + "\n",
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Adds the server's reasons to an error.
fn refused(error: ClientError) -> Result<()> {
    let ClientError::Refused { infos, .. } = &error else {
        return Err(error.into());
    };
    let reasons: Vec<String> = infos.iter().map(|info| print::info(&info.into())).collect();
    if reasons.is_empty() {
        return Err(error.into());
    }
    bail!("{error}, because of {}", reasons.join(", "))
}
