//! `peal top`: live view of what a server does.
//!
//! A source sends reports. The model takes reports and keys, and returns what the screen shows. Only the
//! source and the terminal do I/O.
mod detail;
mod draw;
mod form;
mod help;
mod model;
mod panes;
mod snapshot;
mod source;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod tool_source;

use crate::{
    args::{OutputFormat, Top},
    node, output, users,
};
use anyhow::{Result, bail};
use draw::Colours;
use form::Glyphs;
use model::TopModel;
use peal_server::admin::LiveData;
use source::{ReportQueue, SourceItem, SourceSettings};
use std::{
    env,
    io::{self, IsTerminal},
    ops::RangeInclusive,
    process::ExitCode,
    time::Duration,
};

/// Bounds of the time between two reports.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);
/// Number of reports that a snapshot needs: rates are differences.
const REPORTS_OF_SNAPSHOT: usize = 2;

/// Shows a server until a key or signal ends the command, or prints one snapshot.
pub fn run(args: Top) -> Result<ExitCode> {
    let Top {
        server,
        socket,
        config,
        every,
        once,
        format,
    } = args;
    let format = format.output;
    if !once && format != OutputFormat::Text {
        return Err(crate::usage_error(
            "-o is the format of a snapshot; add --once",
        ));
    }
    if !INTERVALS.contains(&every) {
        return Err(crate::usage_error(
            "--every is the time between two updates: 100ms to 1m",
        ));
    }
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !once && !has_terminal {
        bail!("`peal top` needs a terminal; --once prints a snapshot without one");
    }
    let settings = SourceSettings {
        server,
        socket,
        config,
        every,
    };
    node::as_tool(async move {
        let mut source = source::open(settings).await?;
        let data = LiveData::new(users::shown, source.name.take());
        let shown = if once {
            print_snapshot(data, &mut source.reports, format).await
        } else {
            let model = TopModel::new(data, glyphs());
            terminal::show(model, &mut source.reports, colours()).await
        };
        source.leave().await;
        shown.map(|()| ExitCode::SUCCESS)
    })
}

/// Prints a snapshot of the first reports.
async fn print_snapshot(
    mut data: LiveData,
    reports: &mut ReportQueue,
    format: OutputFormat,
) -> Result<()> {
    for _ in 0..REPORTS_OF_SNAPSHOT {
        match reports.recv().await {
            Some(SourceItem::Report(report)) => data.apply(*report),
            Some(SourceItem::Over(reason)) => bail!(reason),
            None => bail!("no source of reports is left"),
        }
    }
    if let OutputFormat::Data(form) = format {
        return output::print(&form.document(&snapshot::json(&data))?);
    }
    output::print(&snapshot::text(&data, glyphs()))
}

fn colours() -> Colours {
    if output::has_colour() {
        Colours::Coloured
    } else {
        Colours::Plain
    }
}

/// Returns the characters that the terminal shows, by the locale of this process.
fn glyphs() -> Glyphs {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(env::var_os)
        .find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_string_lossy().to_lowercase();
    if locale.contains("utf-8") || locale.contains("utf8") {
        Glyphs::Unicode
    } else {
        Glyphs::Ascii
    }
}
