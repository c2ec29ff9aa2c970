//! `peal log --dry-run`: the channels to which a request would go. Nothing is logged.
use crate::{
    admin::NOTHING_CHANGED,
    args::{OutputFormat, ToolArgs},
    event, node, output, tool,
};
use anyhow::{Context, Result, bail};
use peal_client::Tool;
use peal_core::log::{
    self, AvailableChannels, LogArrival, LogSettings, Logged, Malformed, NextChannel,
    directives::Directives,
};
use peal_model::{Infos, Key, LogRequest, Query, Status, Value, code, key};
use serde::Serialize;
use std::{collections::BTreeSet, fmt::Write, process::ExitCode, sync::Arc};

/// Request that would be sent.
pub(super) struct PlannedRequest {
    /// Data and directives.
    pub(super) request: LogRequest,
    /// Channels that the command line names.
    pub(super) named: Vec<Key>,
    /// Those of them that are required.
    pub(super) required: Vec<Key>,
}

/// Part that a channel would have in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum ChannelUse {
    /// The channel would be written to.
    Written,
    /// The channel would be written to if those before it fail.
    Fallback,
    /// The server does not list the channel.
    Missing,
}

/// Channel of a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct PlannedChannel {
    channel: Key,
    required: bool,
    would_be: ChannelUse,
}

/// Result that a request would have if each channel that the server lists could be written to.
#[derive(Serialize)]
struct LogPlan {
    status: i32,
    name: Option<&'static str>,
    channels: Vec<PlannedChannel>,
    /// Reason of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Settings of the server on which the plan depends.
    #[serde(skip_serializing_if = "Option::is_none")]
    depends_on: Option<&'static str>,
}

/// Asks the server for its channels, and prints those to which the request would go.
pub(super) fn run(
    server: ToolArgs,
    planned: PlannedRequest,
    format: OutputFormat,
) -> Result<ExitCode> {
    let available = node::as_tool(async {
        let tool = tool::attach(event::tool_settings(server)?).await?;
        let available = listed_channels(&tool).await;
        tool::leave(&tool).await;
        available
    })?;
    crate::print_line(NOTHING_CHANGED);
    let plan = plan(planned, available);
    output::print(&match format {
        OutputFormat::Data(form) => form.document(&plan)?,
        _ => text(&plan),
    })?;
    if Status(plan.status).is_success() {
        return Ok(ExitCode::SUCCESS);
    }
    let reason = plan.reason.map(|reason| format!(": {reason}"));
    crate::print_line(&format!(
        "the request would end with {}{}",
        Status(plan.status),
        reason.unwrap_or_default()
    ));
    Ok(ExitCode::from(super::NOT_LOGGED))
}

/// Returns the log channels that the server has for this tool, in their order.
async fn listed_channels(tool: &Tool) -> Result<Vec<Key>> {
    let queried = key::PMIX_QUERY_LOG_CHANNELS;
    let query = Query {
        keys: vec![Some(queried.0.into())],
        qualifiers: Vec::new(),
    };
    let answer = tool.query(&[query]).await;
    let infos = answer
        .context("cannot ask the server for its log channels")?
        .infos;
    let Some(Value::String(Some(listed))) = infos.value_of(queried) else {
        bail!("the server does not say which log channels it has; servers of Peal do");
    };
    let listed = listed.to_string_lossy();
    let keys = listed.split(',').filter(|key| !key.is_empty());
    let keys = keys.map(|key| Key::new(key).context("the server lists an invalid log channel"));
    keys.collect()
}

/// Plans a request for these channels, as a server does it.
fn plan(planned: PlannedRequest, listed: Vec<Key>) -> LogPlan {
    let PlannedRequest {
        request,
        named,
        required,
    } = planned;
    let request = Arc::new(request);
    let available = AvailableChannels {
        of_modules: listed.into(),
        of_host: Vec::new(),
    };
    let result = |written| result_if(&request, &available, written);
    // After failures all channels are tried.
    let (written, tried) = match (
        result(code::PMIX_SUCCESS),
        result(code::PMIX_ERR_OPERATION_FAILED),
    ) {
        (Ok(written), Ok(tried)) => (written, tried),
        (Err(malformed), _) | (_, Err(malformed)) => {
            return LogPlan {
                status: malformed.status().0,
                name: malformed.status().name(),
                channels: Vec::new(),
                reason: Some(malformed.to_string()),
                depends_on: None,
            };
        }
    };
    let has_written: BTreeSet<&str> = written.steps.iter().map(|step| &*step.name).collect();
    let use_of = |channel: &str, status: Status| {
        if status == code::PMIX_ERR_NOT_AVAILABLE {
            ChannelUse::Missing
        } else if has_written.contains(channel) {
            ChannelUse::Written
        } else {
            ChannelUse::Fallback
        }
    };
    let mut channels: Vec<PlannedChannel> = Vec::new();
    for step in &tried.steps {
        let Ok(channel) = Key::new(&step.name) else {
            continue;
        };
        channels.push(PlannedChannel {
            required: required.contains(&channel),
            would_be: use_of(&step.name, step.status),
            channel,
        });
    }
    let depends_on = depends_on(&request, &channels);
    // The key of a site's own channel that the server does not list is data to it.
    for channel in named {
        if !channels.iter().any(|known| known.channel == channel) {
            channels.push(PlannedChannel {
                required: required.contains(&channel),
                would_be: ChannelUse::Missing,
                channel,
            });
        }
    }
    LogPlan {
        status: written.status.0,
        name: written.status.name(),
        channels,
        reason: None,
        depends_on,
    }
}

/// Returns the end of a request if each channel that the server lists returns this status.
fn result_if(
    request: &Arc<LogRequest>,
    available: &AvailableChannels,
    status: Status,
) -> Result<Logged, Malformed> {
    // The settings and the gateway are known to the server alone.
    let mut run = log::route(
        request.clone(),
        available,
        &LogSettings::default(),
        &LogArrival::default(),
    )?;
    loop {
        match run.advance() {
            NextChannel::Done(logged) => return Ok(logged),
            NextChannel::Try(pending) => {
                let is_listed = available.of_modules.contains(pending.channel());
                let status = if is_listed {
                    status
                } else {
                    code::PMIX_ERR_NOT_AVAILABLE
                };
                run = pending.finish(status, Vec::new());
            }
        }
    }
}

/// Names the settings of the server that would change the plan.
fn depends_on(request: &LogRequest, channels: &[PlannedChannel]) -> Option<&'static str> {
    if channels.len() < 2 {
        return None;
    }
    let is_named = |planned: &PlannedChannel| {
        let mut data = request.data.iter();
        data.any(|info| info.key == planned.channel)
    };
    let are_named = channels.iter().all(is_named);
    let says_once = Directives::read(request).is_ok_and(|read| read.once.is_some());
    match (are_named, says_once) {
        (true, true) => None,
        (true, false) => Some("log.once"),
        (false, true) => Some("log.order"),
        (false, false) => Some("log.order and log.once"),
    }
}

fn text(plan: &LogPlan) -> String {
    let mut text = String::new();
    for PlannedChannel {
        channel,
        required,
        would_be,
    } in &plan.channels
    {
        let name = crate::plain(name_of(channel));
        let required = if *required { ", which is required" } else { "" };
        // A write to a string cannot fail.
        let _ = match would_be {
            ChannelUse::Written => writeln!(text, "would log to {name}{required}"),
            ChannelUse::Fallback => {
                writeln!(text, "would log to {name} if all before it fail")
            }
            ChannelUse::Missing => writeln!(
                text,
                "would not log to {name}{required}: the server does not list it"
            ),
        };
    }
    if let Some(settings) = plan.depends_on {
        let _ = writeln!(text, "{settings} of the server may change this");
    }
    text
}

/// Returns the name of a channel on the command line.
fn name_of(channel: &Key) -> &str {
    let known = log::CHANNELS.iter().find(|(_, key, _)| channel == key);
    known.map_or(channel.as_str(), |(name, ..)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Info, InfoFlags};
    use serde_json::json;

    /// Returns the plan of a request for these channels at a server with stdout, the job record and a channel of
    /// the site.
    fn planned(named: &[(&str, InfoFlags)], directives: Vec<Info>) -> LogPlan {
        let listed = ["stdout", "job_record", "site.log.board"];
        let keys = listed.map(|name| log::channel(name).unwrap());
        let named = named
            .iter()
            .map(|(name, flags)| (log::channel(name).unwrap(), *flags));
        let info = |(key, flags): (Key, InfoFlags)| Info {
            flags,
            ..Info::new(key, Value::string("half way"))
        };
        let mut data: Vec<Info> = named.clone().map(info).collect();
        if data.is_empty() {
            data.push(Info::new(key::PMIX_LOG_MSG, Value::string("half way")));
        }
        let is_required = |flags: InfoFlags| flags.contains(InfoFlags::REQUIRED);
        let request = LogRequest {
            source: None,
            identity: None,
            timestamp: None,
            data,
            directives,
        };
        let required = named.clone().filter(|(_, flags)| is_required(*flags));
        let planned = PlannedRequest {
            request,
            required: required.map(|(key, _)| key).collect(),
            named: named.map(|(key, _)| key).collect(),
        };
        plan(planned, keys.into())
    }

    fn once() -> Vec<Info> {
        vec![Info::new(key::PMIX_LOG_ONCE, Value::Bool(true))]
    }

    #[test]
    fn request_without_channels_goes_to_all_that_are_listed() {
        let plan = planned(&[], Vec::new());
        assert_eq!(
            text(&plan),
            "would log to stdout\nwould log to job_record\nwould log to site.log.board\n\
             log.order and log.once of the server may change this\n"
        );
        assert_eq!(plan.status, 0);
    }

    #[test]
    fn one_channel_is_enough_if_the_request_says_so() {
        let (none, required) = (InfoFlags::NONE, InfoFlags::REQUIRED);
        let plan = planned(
            &[
                ("global_syslog", none),
                ("job_record", none),
                ("stdout", none),
                ("site.log.board", required),
            ],
            once(),
        );
        assert_eq!(
            text(&plan),
            "would not log to global_syslog: the server does not list it\nwould log to job_record\n\
             would log to stdout if all before it fail\nwould log to site.log.board, which is required\n"
        );
        assert_eq!(plan.status, 0);
    }

    #[test]
    fn missing_channels_have_the_status_of_the_request() {
        let required = InfoFlags::REQUIRED;
        for (named, status) in [
            (
                &[("global_syslog", InfoFlags::NONE)][..],
                code::PMIX_ERR_NOT_AVAILABLE,
            ),
            (
                &[("global_syslog", required), ("stdout", InfoFlags::NONE)],
                code::PMIX_ERR_OPERATION_FAILED,
            ),
            (
                &[
                    ("global_syslog", InfoFlags::NONE),
                    ("stdout", InfoFlags::NONE),
                ],
                code::PMIX_ERR_PARTIAL_SUCCESS,
            ),
        ] {
            assert_eq!(planned(named, Vec::new()).status, status.0);
        }
        // Data to the server, which then logs everywhere.
        let other = planned(&[("site.log.other", InfoFlags::NONE)], Vec::new());
        let told = serde_json::to_value(&other).unwrap();
        assert_eq!(told["channels"].as_array().unwrap().len(), 4);
        assert_eq!(
            told["channels"][3],
            json!({ "channel": "site.log.other", "required": false, "would_be": "missing" })
        );
    }

    #[test]
    fn malformed_request_is_refused_with_its_reason() {
        let directive = Info::new(key::PMIX_LOG_ONCE, Value::string("often"));
        let plan = planned(&[], vec![directive]);
        assert_eq!(plan.name, Some("PMIX_ERR_BAD_PARAM"));
        assert_eq!(
            plan.reason.as_deref(),
            Some("pmix.log.once takes another type of value")
        );
    }
}
