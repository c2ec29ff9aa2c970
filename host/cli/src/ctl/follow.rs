//! Polling of accepted requests until they have ended.
use super::{progress::Progress, result::CtlResult};
use anyhow::{Result, bail};
use peal_client::{Client, ControlStatus};
use std::time::Duration;

/// Interval of the polls: short for a person, and no load for a server.
const BETWEEN: Duration = Duration::from_millis(200);

/// Polls one request until it has ended.
pub async fn to_the_end(client: &Client, id: &str, progress: &Progress) -> Result<CtlResult> {
    loop {
        let Some(status) = client.control_status(id).await? else {
            bail!(
                "the request was accepted, but the server keeps none called {id:?}: it is not known how it ends"
            )
        };
        if status.state.is_final() {
            return Ok(CtlResult::ended(status));
        }
        progress.show(format!("{}: {}", status.action, status.state));
        tokio::time::sleep(BETWEEN).await;
    }
}

/// Polls requests until all have ended: those with these ids, or all if there are no ids.
pub async fn all_to_the_end(
    client: &Client,
    ids: &[String],
    progress: &Progress,
) -> Result<Vec<ControlStatus>> {
    loop {
        let kept = query_requests(client, ids).await?;
        let open = kept
            .iter()
            .filter(|status| !status.state.is_final())
            .count();
        if open == 0 {
            return Ok(kept);
        }
        progress.show(format!("{open} of {} requests go on", kept.len()));
        tokio::time::sleep(BETWEEN).await;
    }
}

/// Returns the requests with these ids that the server keeps, or all if there are no ids.
pub async fn query_requests(client: &Client, ids: &[String]) -> Result<Vec<ControlStatus>> {
    let mut kept = Vec::new();
    for id in ids {
        kept.extend(client.control_status(id).await?);
    }
    Ok(if ids.is_empty() {
        client.control_statuses().await?
    } else {
        kept
    })
}
