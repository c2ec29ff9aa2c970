//! `peal monitor file`: waits for the alert that a file shows no sign of life.
use super::{EventListener, refused};
use crate::{
    args::MonitorFile,
    event::print::{self, EventFormat},
};
use anyhow::{Context, Result};
use peal_client::{FileSign, MonitorRequest};
use peal_model::code;
use peal_server::admin::WatchedEvent;
use std::process::ExitCode;

/// Prints the alerts.
pub async fn file(args: MonitorFile) -> Result<ExitCode> {
    let MonitorFile {
        server,
        path,
        time,
        drops,
        size: _,
        access,
        modify,
        count,
        format,
    } = args;
    let sign = match (access, modify) {
        (true, _) => FileSign::Access,
        (false, true) => FileSign::Modify,
        (false, false) => FileSign::Size,
    };
    // The server has another working directory.
    let path = std::path::absolute(&path).with_context(|| format!("{path:?} means no file"))?;
    let form = EventFormat::of(format.output);
    // The handler is registered before the monitoring starts: an alert may come at once.
    let mut listening = EventListener::begin(server, code::PMIX_MONITOR_FILE_ALERT).await?;
    let request = MonitorRequest::file(&path, sign, time, drops);
    let ended = match listening.tool.watch(request).await {
        Ok(_) => listening
            .print(Some(count), |event| {
                print::whole(&WatchedEvent::of(event), form)
            })
            .await
            .map(|()| ExitCode::SUCCESS),
        Err(error) => refused(error),
    };
    listening.leave().await;
    ended
}
