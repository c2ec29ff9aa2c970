//! Snapshot of a server for scripts: all panes as text, or everything as JSON.
use super::{
    form::{self, Glyphs},
    panes::Pane,
    table::{ColumnContent, DataColumn, DataTable},
};
use crate::{
    plain,
    table::{self, Side},
};
use peal_model::shown_rate;
use peal_server::admin::{ActivityModule, LiveData};
use serde_json::{Value, json};
use std::fmt::Write;

/// Formats the server and all panes with rows.
pub fn text(data: &LiveData, glyphs: Glyphs) -> String {
    let mut text = String::new();
    if let Some(server) = &data.server {
        // A write to a string cannot fail.
        let _ = writeln!(
            text,
            "peal {} on {}, process {}, {}, up {}",
            server.release,
            plain(&server.node),
            server.pid,
            server.phase,
            form::uptime(data.uptime_ms)
        );
        for trouble in &server.troubles {
            let message = trouble.message.lines().next().unwrap_or_default();
            let _ = writeln!(text, "TROUBLE {}: {}", trouble.kind, plain(message));
        }
    }
    if let Some(name) = &data.tool_server {
        let _ = writeln!(text, "server {}, as one of its tools", plain(name));
    }
    let _ = writeln!(
        text,
        "events/s {}, denials/s {}",
        shown_rate(data.events.latest()),
        shown_rate(data.denial_rate.latest())
    );
    for pane in Pane::ALL {
        let mut table = pane.table(data, glyphs);
        if let Some(order) = pane
            .usual_order()
            .and_then(|title| table.descending_by(title))
        {
            table.sort(order);
        }
        let _ = write!(text, "\n{}\n{}", pane.title().to_uppercase(), lines(&table));
    }
    text
}

fn lines(table: &DataTable) -> String {
    let remark = table.remark.iter().map(|remark| format!("{remark}\n"));
    if table.rows.is_empty() {
        return format!("{}\n", table.empty) + &remark.collect::<String>();
    }
    let is_value = |column: &&DataColumn| column.content == ColumnContent::Values;
    let columns = table.columns.iter().filter(is_value);
    let head: Vec<(&str, Side)> = columns.map(|column| (column.title, column.side)).collect();
    let cells = table.rows.iter().map(|row| {
        let cells = table.columns.iter().zip(&row.cells);
        let values = cells.filter(|(column, _)| is_value(column));
        values
            .map(|(_, cell)| cell.text.clone())
            .collect::<Vec<String>>()
    });
    table::lines(&head, cells) + &remark.collect::<String>()
}

/// Returns everything as JSON, with rates.
pub fn json(data: &LiveData) -> Value {
    let codes = data.counts.events.iter().map(|of| {
        json!({
            "code": of.code,
            "count": of.count,
            "per_second": data.code(of.code.number).latest(),
        })
    });
    let module = |module: &ActivityModule| {
        let rate = data.module_rate(module);
        json!({
            "owner": module.owner,
            "name": module.name,
            "role": module.role,
            "state": module.state,
            "calls": module.calls,
            "calls_per_second": rate.calls,
            "failures": module.failures,
            "failure": module.failure,
            "mean_time_us": rate.mean_us,
        })
    };
    let entries = |values: Vec<Value>| Value::Array(values);
    json!({
        "server": data.server,
        "uptime_ms": data.uptime_ms,
        "only_user": data.only_user,
        "events_per_second": data.events.latest(),
        "further_events": data.counts.further_events,
        "events_uncounted": data.counts.uncounted,
        "denials_per_second": data.denial_rate.latest(),
        "denials_total": data.counts.denials,
        "jobs": data.jobs.jobs,
        "codes": codes.collect::<Vec<Value>>(),
        "chains": data.chains,
        "modules": data.modules.modules.iter().map(module).collect::<Vec<Value>>(),
        "events": entries(data.passages.iter().map(|of| json!(of.entry)).collect()),
        "denials": entries(data.denials.iter().map(|of| json!(of.entry)).collect()),
        "missed": data.missed,
        "further": {
            "jobs": data.jobs.further,
            "handlers": data.further.handlers,
            "modules": data.modules.further,
            "sinks": data.further.sinks,
            "users": data.further.users,
        },
        "sinks": data.sinks,
        "users": data.users,
    })
}
