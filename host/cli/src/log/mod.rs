//! `peal log`: a log request to a running server, as a tool.
mod dry_run;

use crate::{
    args::{Log, OutputFormat},
    event, node, output, tool,
};
use anyhow::{Context, Result, bail};
use dry_run::PlannedRequest;
use peal_client::ClientError;
use peal_model::{DataArray, Info, InfoFlags, Key, KeyName, LogRequest, Status, Value, code, key};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io::{self, Read},
    process::ExitCode,
};

/// Limit of a message's length, in bytes.
const MAX_MESSAGE_BYTES: u64 = 1 << 20;
/// Exit status if the message was not logged by all channels.
const NOT_LOGGED: u8 = 1;

/// Result for programs.
#[derive(Serialize)]
struct Outcome {
    status: i32,
    name: Option<&'static str>,
    /// Statuses of the channels by key, if some failed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    channels: BTreeMap<String, i32>,
}

/// Sends the log request, and prints the result.
pub fn run(mut args: Log) -> Result<ExitCode> {
    let message = match args.message.take() {
        // The channels do not depend on the text, so standard input is left alone.
        None if args.dry_run.dry_run => String::new(),
        given => message(given)?,
    };
    let data = data(&args, &message)?;
    let directives = directives(&args);
    let Log {
        server,
        format,
        dry_run,
        ..
    } = args;
    if dry_run.dry_run {
        let request = LogRequest {
            source: None,
            identity: None,
            timestamp: None,
            data,
            directives,
        };
        let planned = PlannedRequest {
            request,
            named: [args.channels, args.required.clone()].concat(),
            required: args.required,
        };
        return dry_run::run(server, planned, format.output);
    }
    let (status, channels) = node::as_tool(async {
        let tool = tool::attach(event::tool_settings(server)?).await?;
        let answer = tool.log(&data, &directives).await;
        tool::leave(&tool).await;
        match answer {
            Ok(channels) => Ok((code::PMIX_SUCCESS, channels)),
            // A refusal has the statuses of the channels, too.
            Err(ClientError::Refused { status, infos, .. }) => Ok((status, infos)),
            Err(error) => Err(error.into()),
        }
    })?;
    let channels: Vec<(&Key, Status)> = channels
        .iter()
        .filter_map(|info| Some((&info.key, status_in(info)?)))
        .collect();
    if let OutputFormat::Data(form) = format.output {
        let by_key = channels
            .iter()
            .map(|(key, status)| (key.to_string(), status.0))
            .collect();
        let outcome = Outcome {
            status: status.0,
            name: status.name(),
            channels: by_key,
        };
        output::print(&form.document(&outcome)?)?;
    }
    for (channel, status) in &channels {
        crate::print_line(&format!("{channel}: {status}"));
    }
    if status.is_success() {
        return Ok(ExitCode::SUCCESS);
    }
    crate::print_line(&format!("{} ({status})", meaning(status)));
    Ok(ExitCode::from(NOT_LOGGED))
}

fn status_in(info: &Info) -> Option<Status> {
    if let Value::Status(status) = info.value {
        Some(status)
    } else {
        None
    }
}

fn meaning(status: Status) -> String {
    match status {
        code::PMIX_ERR_PARTIAL_SUCCESS => format!(
            "some channels have it, others failed: {}",
            crate::REASON_IN_TRACE
        ),
        code::PMIX_ERR_NOT_AVAILABLE => {
            "nothing was logged: none of these channels is there".to_owned()
        }
        code::PMIX_ERR_BAD_PARAM => {
            "nothing was logged: the request makes no sense to the server".to_owned()
        }
        code::PMIX_ERR_NO_PERMISSIONS => "nothing was logged: it is not allowed".to_owned(),
        _ => format!("not logged as it should be: {}", crate::REASON_IN_TRACE),
    }
}

fn message(given: Option<String>) -> Result<String> {
    if let Some(given) = given.filter(|given| given != "-") {
        return Ok(given);
    }
    let mut text = String::new();
    let read = io::stdin()
        // One byte above the limit shows that the message is too long.
        .take(MAX_MESSAGE_BYTES + 1)
        .read_to_string(&mut text)
        .context("cannot read the message from standard input")?;
    if read as u64 > MAX_MESSAGE_BYTES {
        bail!("the message on standard input has more than {MAX_MESSAGE_BYTES} bytes");
    }
    Ok(text)
}

/// Returns a copy of the message for each named channel, and the data for all of them.
fn data(args: &Log, message: &str) -> Result<Vec<Info>> {
    let mut channels: Vec<&Key> = args.channels.iter().collect();
    channels.extend(
        args.required
            .iter()
            .filter(|channel| !args.channels.contains(channel)),
    );
    let is_mail = |channel: &Key| *channel == key::PMIX_LOG_EMAIL;
    let has_mail = channels.is_empty() || channels.iter().any(|channel| is_mail(channel));
    if !has_mail && (args.subject.is_some() || !args.mail_to.is_empty()) {
        return Err(crate::usage_error(
            "--mail-to and --subject require a mail channel: --channel email",
        ));
    }
    let mut data: Vec<Info> = Vec::new();
    for channel in &channels {
        let value = if is_mail(channel) {
            Value::DataArray(DataArray::infos(mail(args, message)))
        } else {
            Value::string(message)
        };
        let flags = if args.required.contains(channel) {
            InfoFlags::REQUIRED
        } else {
            InfoFlags::NONE
        };
        data.push(Info {
            flags,
            ..Info::new((*channel).clone(), value)
        });
    }
    // A key that names no channel is payload, which a server copies to each available channel.
    if channels.is_empty() {
        data.push(Info::new(key::PMIX_LOG_MSG, Value::string(message)));
        data.extend(
            mail(args, message)
                .into_iter()
                .filter(|info| info.key != key::PMIX_LOG_EMAIL_MSG),
        );
    }
    data.extend(args.data.iter().cloned());
    Ok(data)
}

fn mail(args: &Log, message: &str) -> Vec<Info> {
    let mut mail = vec![Info::new(key::PMIX_LOG_EMAIL_MSG, Value::string(message))];
    if !args.mail_to.is_empty() {
        mail.push(Info::new(
            key::PMIX_LOG_EMAIL_ADDR,
            // The value is one text: addresses with commas between them.
            Value::string(&args.mail_to.join(",")),
        ));
    }
    mail.extend(
        args.subject
            .iter()
            .map(|subject| Info::new(key::PMIX_LOG_EMAIL_SUBJECT, Value::string(subject))),
    );
    mail
}

fn directives(args: &Log) -> Vec<Info> {
    let switches: [(KeyName, bool); 5] = [
        (key::PMIX_LOG_ONCE, args.once),
        (key::PMIX_LOG_TAG_OUTPUT, args.tag),
        // This one has the channels print a time; the next but one has the client send it.
        (key::PMIX_LOG_TIMESTAMP_OUTPUT, args.timestamp),
        (key::PMIX_LOG_GENERATE_TIMESTAMP, args.timestamp),
        (key::PMIX_LOG_XML_OUTPUT, args.xml),
    ];
    let set = switches.into_iter().filter(|switch| switch.1);
    let mut directives: Vec<Info> = set
        .map(|(key, _)| Info::new(key, Value::Bool(true)))
        .collect();
    directives.extend(
        args.priority
            .map(|priority| Info::new(key::PMIX_LOG_SYSLOG_PRI, Value::Int32(priority))),
    );
    directives.extend(args.directives.iter().cloned());
    directives
}
