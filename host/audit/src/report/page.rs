//! Report page: a single HTML file without scripts and without references to other resources.
use super::{
    ModuleSummary, TrailReport,
    chart::{self, ChartParts},
    html::Html,
    top::MAX_JOBS,
};
use crate::{ModuleFacts, shown_time};
use peal_sandbox::{Capability, LimitKind, ModuleLimits};
use std::{cmp::Reverse, collections::BTreeSet};

/// Maximum number of rows in a table.
const MAX_ROWS: usize = 50;
/// Maximum number of bars in a chart with names.
const BARS: usize = 12;
/// The head of the page. Its policy forbids scripts and requests.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\
<meta name=\"referrer\" content=\"no-referrer\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
<link rel=\"icon\" href=\"data:,\"><title>Audit report</title><style>";

/// Renders a report as a page. `of` names the trail, `wanted` describes the filter.
pub fn page(report: &TrailReport, of: &str, wanted: &str) -> String {
    let mut html = Html::default();
    html.raw(HEAD)
        .raw(include_str!("style.css"))
        .raw("</style></head><body><header><h1>Audit report</h1><p>");
    html.text(report.records()).raw(" records of ").text(of);
    if let Some([(first, since), (last, until)]) = report.range {
        html.raw(", ")
            .text(first)
            .raw(" to ")
            .text(last)
            .raw(", from ");
        html.text(shown_time(since))
            .raw(" to ")
            .text(shown_time(until));
    }
    if !wanted.is_empty() {
        html.raw("; only those ").text(wanted);
    }
    html.raw(".</p></header><main>");
    sums(&mut html, report);
    modules(&mut html, report);
    decisions(&mut html, report);
    denials(&mut html, report);
    failures(&mut html, report);
    changes(&mut html, report);
    html.raw("</main><footer><p>Written by <code>peal audit report</code>. <code>peal audit verify</code> checks the records, ");
    html.raw("<code>peal audit show</code> prints one in full.</p></footer>");
    html.raw("</body></html>\n");
    html.finish()
}

/// Writes the most important numbers.
fn sums(html: &mut Html, report: &TrailReport) {
    let sum = report.timeline.sum();
    html.raw("<ul class=\"sums\">");
    for (number, name) in [
        (sum.granted, "requests granted"),
        (sum.denied, "denied"),
        (sum.calls, "calls of modules"),
        (sum.failures, "calls failed"),
        (report.count("quarantined"), "modules quarantined"),
        (report.count("gap"), "gaps"),
        (report.unreadable, "unreadable records"),
    ] {
        html.raw("<li><b>")
            .text(number)
            .raw("</b>")
            .raw(name)
            .raw("</li>");
    }
    html.raw("</ul>");
}

fn modules(html: &mut Html, report: &TrailReport) {
    html.raw("<h2 id=\"modules\">Modules and what they reach</h2>");
    let mut modules: Vec<&ModuleSummary> = report.modules.values().collect();
    // The table is cut, so modules with failures come first.
    modules.sort_by_key(|module| Reverse((module.failures, module.calls)));
    html.heads(
        "Modules with calls, as loaded. A module has a row for each version of its grants and limits.",
        &["Module", "Owner", "Granted", "Sinks", "Directories", "Limits", "Calls", "Failed", "Mean", "Longest", "Hit"],
    );
    for module in modules.iter().take(MAX_ROWS) {
        one_module(html, module);
    }
    html.end();
    more(html, modules.len());
    if report.other_calls > 0 {
        html.raw("<p>")
            .text(report.other_calls)
            .raw(" calls were of modules beyond those.</p>");
    }
}

fn one_module(html: &mut Html, module: &ModuleSummary) {
    html.raw("<tr><td>");
    match &module.facts {
        Some(ModuleFacts {
            name,
            owner,
            digest,
            grants,
            limits,
            sinks,
            directories,
            ..
        }) => {
            html.text(name)
                .raw("<details><summary><code>")
                .text(format_args!("{:.12}", digest.to_string()));
            html.raw("…</code></summary><code>")
                .text(digest)
                .raw("</code></details></td>")
                .cell(owner);
            let granted = Capability::ALL
                .into_iter()
                .filter(|capability| grants.allows(*capability));
            html.cell(listed(granted.map(Capability::name)));
            html.cell(listed(sinks.iter().map(String::as_str)));
            html.cell(listed(directories.iter().map(String::as_str)));
            html.raw("<td><details><summary>all</summary>")
                .text(limited(limits))
                .raw("</details></td>");
        }
        None => {
            html.raw("the facts are missing</td>");
            // The cells from the owner to the limits.
            for _ in 0..5 {
                html.cell("?");
            }
        }
    }
    let calls = u32::try_from(module.calls).unwrap_or(u32::MAX).max(1);
    html.number(module.calls).number(module.failures);
    html.number(format_args!("{:.1?}", module.time / calls))
        .number(format_args!("{:.1?}", module.longest));
    html.cell(listed(module.hits.iter().map(|limit| limit.name())))
        .raw("</tr>");
}

fn decisions(html: &mut Html, report: &TrailReport) {
    html.raw("<h2 id=\"decisions\">Decisions over time</h2>");
    let rulings = ChartParts {
        id: "rulings",
        title: "Requests granted and denied over time",
        names: ["granted", "denied"],
        of: |counts| [counts.granted, counts.denied],
    };
    chart::over_time(html, &report.timeline, &rulings);
    html.raw("<details><summary>The same in numbers, with calls</summary>");
    html.heads(
        "Stretches of time in which something happened.",
        &["From", "Granted", "Denied", "Calls", "Calls failed"],
    );
    for (at, counts) in report
        .timeline
        .stretches()
        .filter(|(_, counts)| *counts != Default::default())
    {
        html.raw("<tr>")
            .cell(shown_time(at))
            .number(counts.granted)
            .number(counts.denied);
        html.number(counts.calls)
            .number(counts.failures)
            .raw("</tr>");
    }
    html.end().raw("</details>");
}

fn denials(html: &mut Html, report: &TrailReport) {
    html.raw("<h2 id=\"denials\">Denials</h2>");
    html.heads(
        "Who was denied what, the most frequent first.",
        &[
            "User", "Jobs", "What", "By", "Why", "Times", "Last", "Record",
        ],
    );
    let most = report.denials.most(MAX_ROWS);
    for (refusal, times) in &most {
        let user = refusal
            .user
            .map_or("unknown".to_owned(), |user| user.to_string());
        html.raw("<tr>")
            .cell(user)
            .cell(jobs(&times.jobs))
            .cell(&refusal.subject);
        html.cell(&refusal.decided_by)
            .cell(&refusal.reason)
            .number(times.count)
            .cell(shown_time(times.at));
        html.number(times.seq).raw("</tr>");
    }
    html.end();
    // The table is cut, but the total counts all denials.
    let shown: u64 = most.iter().map(|(_, times)| times.count).sum();
    if report.denials.total() > shown {
        html.raw("<p>")
            .text(report.denials.total() - shown)
            .raw(" rarer ones are not shown.</p>");
    }
}

/// Returns the first jobs as text, with a note if there are more.
fn jobs(jobs: &BTreeSet<String>) -> String {
    let named = listed(jobs.iter().take(MAX_JOBS).map(String::as_str));
    if jobs.len() > MAX_JOBS {
        format!("{named} and more")
    } else {
        named
    }
}

fn failures(html: &mut Html, report: &TrailReport) {
    html.raw("<h2 id=\"limits\">Limits that were hit</h2>");
    let mut hits: Vec<(LimitKind, u64)> = report
        .limits
        .iter()
        .map(|(limit, count)| (*limit, *count))
        .collect();
    hits.sort_by_key(|(_, count)| Reverse(*count));
    let bars: Vec<(String, u64)> = hits
        .iter()
        .map(|(limit, count)| (limit.name().to_owned(), *count))
        .collect();
    write_bar_chart(html, "hits", "Limits that calls hit", &bars);
    html.heads(
        "Calls that hit a limit, whether they survived it or not.",
        &["Limit", "What raises it", "Calls"],
    );
    for (limit, count) in hits {
        html.raw("<tr>")
            .cell(limit.name())
            .cell(limit.key())
            .number(count)
            .raw("</tr>");
    }
    html.end();
    html.raw("<h2 id=\"failures\">Calls that failed</h2>");
    let calls = ChartParts {
        id: "calls",
        title: "Calls of modules over time",
        names: ["returned", "failed"],
        of: |counts| {
            [
                counts.calls.saturating_sub(counts.failures),
                counts.failures,
            ]
        },
    };
    chart::over_time(html, &report.timeline, &calls);
    let mut failures: Vec<(String, u64)> = report
        .failures
        .iter()
        .map(|(how, count)| (how.clone(), *count))
        .collect();
    failures.sort_by_key(|(_, count)| Reverse(*count));
    write_bar_chart(html, "ways", "In which ways calls failed", &failures);
    html.heads("In which ways, the most frequent first.", &["How", "Calls"]);
    for (how, count) in failures.iter().take(MAX_ROWS) {
        html.raw("<tr>").cell(how).number(count).raw("</tr>");
    }
    html.end();
}

fn write_bar_chart(html: &mut Html, id: &'static str, title: &'static str, bars: &[(String, u64)]) {
    if let Some(bars) = bars
        .get(..bars.len().min(BARS))
        .filter(|bars| !bars.is_empty())
    {
        chart::by_name(html, id, title, bars);
    }
}

fn changes(html: &mut Html, report: &TrailReport) {
    html.raw("<h2 id=\"changes\">What changed, and what is missing</h2>");
    html.heads("The latest first.", &["Record", "When", "Kind", "What"]);
    for change in report.changes.iter().rev().take(MAX_ROWS) {
        html.raw("<tr>")
            .number(change.seq)
            .cell(shown_time(change.at))
            .cell(change.kind)
            .raw("<td>");
        for line in &change.texts {
            html.raw("<div>").text(line).raw("</div>");
        }
        html.raw("</td></tr>");
    }
    html.end();
}

fn more(html: &mut Html, all: usize) {
    if all > MAX_ROWS {
        html.raw("<p>")
            .text(all - MAX_ROWS)
            .raw(" more are not shown.</p>");
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Returns all limits by the names of their settings.
fn limited(limits: &ModuleLimits) -> String {
    let ModuleLimits {
        memory_bytes,
        total_memory_bytes,
        call_time,
        host_call_time,
        fuel,
        output_bytes,
        raised_events,
        host_calls,
        log_lines_per_second,
        ..
    } = limits;
    let ModuleLimits {
        calls_per_instance,
        idle_instances,
        isolation,
        failures,
        failure_window,
        ..
    } = limits;
    let fuel = fuel.map_or("none".to_owned(), |fuel| fuel.to_string());
    format!(
        "memory_bytes {memory_bytes}, total_memory_bytes {total_memory_bytes}, call_time {call_time:?}, \
         host_call_time {host_call_time:?}, fuel {fuel}, output_bytes {output_bytes}, raised_events {raised_events}, \
         host_calls {host_calls}, log_lines_per_second {log_lines_per_second}, calls_per_instance {calls_per_instance}, \
         idle_instances {idle_instances}, isolation {isolation:?}, failures {failures} in {failure_window:?}"
    )
}
