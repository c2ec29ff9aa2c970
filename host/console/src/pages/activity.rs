//! Overview: the server, its jobs, users and sinks; and the modules with their calls.
use crate::{
    console::Console,
    guard::Visitor,
    html::{Column, HtmlTable, Page, live_part, number, text},
    live::{Fragment, LivePage},
};
use axum::{Extension, extract::State};
use maud::{Markup, html};
use peal_model::{plain_lines, shown_microseconds, shown_rate};
use peal_server::admin::{
    ActivityJob, ActivityModule, ActivityProcState, ActivitySink, LiveData, ModuleState,
    UserResources,
};
use std::{collections::BTreeMap, sync::Arc};

/// Procs of a job that are listed by rank.
const MAX_PROCS: usize = 64;

/// Shows the overview.
pub(crate) async fn overview_page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
) -> Markup {
    let loaded = console.feed.look(LivePage::Overview).await;
    let data = console.feed.data();
    let content = html! {
        @for fragment in LivePage::Overview.fragments() { (live_part(*fragment, &data)) }
    };
    Page {
        visitor: &visitor,
        at: "/",
        title: "Overview",
        live: Some(loaded),
    }
    .with(&content)
}

/// Returns the identity, the phase, the numbers and the troubles of the server.
pub(crate) fn server(data: &LiveData) -> Markup {
    let Some(server) = &data.server else {
        return html! { p.bad { "The server does not answer." } };
    };
    let seconds = data.uptime_ms / 1000;
    html! {
        @for trouble in &server.troubles {
            p.bad { (trouble.kind) ": " (plain_lines(&trouble.message)) }
        }
        dl {
            dt { "Server" } dd { "peal " (server.release) " on " (plain_lines(&server.node)) ", process " (server.pid) }
            dt { "Phase" } dd { (server.phase) }
            dt { "Up" } dd { (seconds / 3600) " h " (seconds % 3600 / 60) " min" }
            dt { "Connections" } dd { (server.connections.unwrap_or_default()) }
            dt { "Procs" } dd { (data.proc_count()) }
            dt { "Events a second" } dd { (shown_rate(data.events.latest())) }
            dt { "Denials" } dd { (data.counts.denials) ", " (shown_rate(data.denial_rate.latest())) " a second" }
        }
    }
}

/// Returns the jobs and their procs.
pub(crate) fn jobs(data: &LiveData) -> Markup {
    let table = HtmlTable {
        caption: "Jobs",
        columns: &[
            Column::Text("Job"),
            Column::Text("User"),
            Column::Number("Procs"),
            Column::Number("Connected"),
            Column::Number("Expected"),
            Column::Number("Finalized"),
            Column::Number("Lost"),
            Column::Text("Ranks"),
        ],
        empty: "No jobs are registered.",
    };
    let row = |job: &ActivityJob| {
        let status = &job.status;
        vec![
            text(&status.nspace),
            text(data.user(status.uid)),
            number(status.size),
            number(status.connected),
            number(status.expected),
            number(status.finalized),
            html! { span.bad[status.lost > 0] { (status.lost) } },
            ranks(job),
        ]
    };
    let rows = data.jobs.jobs.iter().map(row).collect();
    html! {
        (table.with(rows))
        @if data.jobs.further > 0 { p.faint { "and " (data.jobs.further) " more jobs" } }
    }
}

/// Returns the ranks of a job by state.
fn ranks(job: &ActivityJob) -> Markup {
    let mut states: BTreeMap<ActivityProcState, Vec<u32>> = BTreeMap::new();
    for proc in job.procs.iter().take(MAX_PROCS) {
        states.entry(proc.state).or_default().push(proc.rank);
    }
    let list = |ranks: &[u32]| {
        let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
        ranks.join(", ")
    };
    html! {
        @for (at, (state, of)) in states.iter().enumerate() {
            @if at > 0 { "; " }
            (state.name()) " " (list(of))
        }
        @let further = (job.procs.len().saturating_sub(MAX_PROCS) as u64).saturating_add(job.further_procs);
        @if further > 0 { "; and " (further) " more procs" }
    }
}

/// Returns the users and what they hold of limited resources.
pub(crate) fn users(data: &LiveData) -> Markup {
    let table = HtmlTable {
        caption: "Users and their quotas",
        columns: &[
            Column::Text("User"),
            Column::Text("Resource"),
            Column::Number("Held"),
            Column::Number("Share"),
            Column::Number("Refused"),
        ],
        empty: "No user holds a limited resource.",
    };
    let rows = |user: &UserResources| {
        let name = data.user(user.uid);
        let row = move |of: &peal_server::admin::ResourceUse| {
            vec![
                text(&name),
                text(&of.resource),
                number(of.held),
                html! { @match of.share { Some(share) => (share), None => "no limit" } },
                html! { span.bad[of.refused > 0] { (of.refused) } },
            ]
        };
        user.resources.iter().map(row).collect::<Vec<_>>()
    };
    let further = data.further.users;
    html! {
        (table.with(data.users.users.iter().flat_map(rows).collect()))
        @if further > 0 { p.faint { "and " (further) " more users" } }
    }
}

/// Returns the sinks.
pub(crate) fn sinks(data: &LiveData) -> Markup {
    let table = HtmlTable {
        caption: "Sinks",
        columns: &[
            Column::Text("Sink"),
            Column::Text("Peer"),
            Column::Number("Queued"),
            Column::Number("Delivered"),
            Column::Number("A second"),
            Column::Number("Refused"),
            Column::Number("Retried"),
            Column::Number("Dropped"),
        ],
        empty: "No sinks are configured.",
    };
    let row = |sink: &ActivitySink| {
        vec![
            text(&sink.name),
            html! {
                @if sink.unreachable { span.bad { "unreachable" } } @else { "reachable" }
            },
            number(sink.queued),
            number(sink.delivered),
            number(shown_rate(Some(data.sink_rate(&sink.name)))),
            number(sink.refused),
            number(sink.retried),
            html! { span.bad[sink.dropped > 0] { (sink.dropped) } },
        ]
    };
    let further = data.further.sinks;
    html! {
        (table.with(data.sinks.iter().map(row).collect()))
        @if further > 0 { p.faint { "and " (further) " more sinks" } }
    }
}

/// Returns the modules in their roles, with calls, times and failures.
pub(crate) fn modules(data: &LiveData) -> Markup {
    let table = HtmlTable {
        caption: "Calls of modules",
        columns: &[
            Column::Text("Module"),
            Column::Text("Owner"),
            Column::Text("Role"),
            Column::Text("State"),
            Column::Number("Calls a second"),
            Column::Number("Time of a call"),
            Column::Number("Calls"),
            Column::Number("Failures"),
            Column::Text("Latest failure"),
        ],
        empty: "No module is called.",
    };
    let row = |module: &ActivityModule| {
        let of = data.module_rate(module);
        vec![
            text(&module.name),
            text(data.owner(&module.owner)),
            text(&module.role),
            module.state.as_ref().map_or_else(|| html! { "-" }, state),
            number(shown_rate(Some(of.calls))),
            number(of.mean_us.map_or("-".to_owned(), shown_microseconds)),
            number(module.calls),
            html! { span.bad[module.failures > 0] { (module.failures) } },
            text(module.failure.as_deref().unwrap_or_default()),
        ]
    };
    let rows = data.modules.modules.iter().map(row).collect();
    html! {
        (table.with(rows))
        @if data.modules.further > 0 { p.faint { "and " (data.modules.further) " more modules" } }
    }
}

/// Returns the state of a module, with its tone.
pub(crate) fn state(of: &ModuleState) -> Markup {
    let class = match of {
        ModuleState::Active => Some("good"),
        ModuleState::Quarantined => Some("bad"),
        _ => None,
    };
    html! { span class=[class] { (of) } }
}

/// Returns a live part alone, for pages of another kind.
pub(crate) fn calls(data: &LiveData) -> Markup {
    live_part(Fragment::Modules, data)
}
