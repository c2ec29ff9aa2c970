//! Panes of `peal top`: what each shows, and its table.
use super::{
    form::{self, Glyphs},
    live::LiveData,
    table::{
        ColumnContent, DataCell, DataColumn, DataRow, DataTable, RowKey, SortOrder, Tone, is_some,
    },
};
use crate::{plain, sort_value::SortDirection, table::Side, units};
use peal_model::Status;
use peal_server::admin::{
    ActivityDenial, ActivityModule, ChainHandler, EventPassage, ModuleState, PassageStep,
    UserResources, WatchedStatus,
};

/// Pane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Pane {
    /// Jobs.
    Jobs,
    /// Event codes and their rates.
    Codes,
    /// Handlers and policies.
    Chains,
    /// Latest events.
    Events,
    /// Latest denials.
    Denials,
    /// Sinks.
    Sinks,
    /// Users.
    Users,
}

impl Pane {
    /// All panes, in the order of their number keys.
    pub const ALL: [Pane; 7] = [
        Pane::Jobs,
        Pane::Codes,
        Pane::Chains,
        Pane::Events,
        Pane::Denials,
        Pane::Sinks,
        Pane::Users,
    ];

    /// Returns the title.
    pub fn title(self) -> &'static str {
        match self {
            Pane::Jobs => "Jobs",
            Pane::Codes => "Codes",
            Pane::Chains => "Chains",
            Pane::Events => "Events",
            Pane::Denials => "Denials",
            Pane::Sinks => "Sinks",
            Pane::Users => "Users",
        }
    }

    /// Returns the position.
    pub fn position(self) -> usize {
        Pane::ALL
            .iter()
            .position(|pane| *pane == self)
            .unwrap_or_default()
    }

    /// Returns the pane at a position, which wraps around.
    pub fn at(position: usize) -> Pane {
        let position = position % Pane::ALL.len();
        Pane::ALL.get(position).copied().unwrap_or(Pane::Jobs)
    }

    /// Returns the order before another one is chosen; none for the order of the data.
    pub fn usual_order(self) -> Option<SortOrder> {
        let column = match self {
            Pane::Codes => 2,
            Pane::Users => 4,
            _ => return None,
        };
        Some(SortOrder {
            column,
            direction: SortDirection::Descending,
        })
    }

    /// Returns the number of rows.
    pub fn count(self, data: &LiveData) -> usize {
        match self {
            Pane::Jobs => data.jobs.jobs.len(),
            Pane::Codes => data.counts.events.len(),
            Pane::Chains => chain_rows(data).len(),
            Pane::Events => data.passages.len(),
            Pane::Denials => data.denials.len(),
            Pane::Sinks => data.sinks.len(),
            Pane::Users => data.users.users.len(),
        }
    }

    /// Returns the table.
    pub fn table(self, data: &LiveData, glyphs: Glyphs) -> DataTable {
        match self {
            Pane::Jobs => jobs(data),
            Pane::Codes => codes(data, glyphs),
            Pane::Chains => chains(data),
            Pane::Events => events(data.passages.iter().map(|of| (of.number, &of.entry)), data),
            Pane::Denials => denials(data),
            Pane::Sinks => sinks(data),
            Pane::Users => users(data),
        }
    }
}

/// Returns a column of texts that is shown on screens from this width on.
pub(super) const fn text(title: &'static str, screen: u16) -> DataColumn {
    DataColumn {
        title,
        side: Side::Left,
        screen,
        content: ColumnContent::Values,
    }
}

/// Returns a column of drawings.
pub(super) const fn drawing(title: &'static str) -> DataColumn {
    DataColumn {
        content: ColumnContent::Drawings,
        ..text(title, 0)
    }
}

/// Returns a column of numbers that is shown on screens from this width on.
pub(super) const fn number(title: &'static str, screen: u16) -> DataColumn {
    DataColumn {
        title,
        side: Side::Right,
        screen,
        content: ColumnContent::Values,
    }
}

/// Returns the message in place of rows that only an admin socket tells of.
fn told_by_socket(data: &LiveData, empty: &'static str) -> &'static str {
    match data.tool_server {
        Some(_) => "a server without an admin socket does not tell of this",
        None => empty,
    }
}

fn further(count: u64, what: &str) -> Option<String> {
    (count > 0).then(|| format!("and {count} more {what}, which the report has no room for"))
}

fn jobs(data: &LiveData) -> DataTable {
    let row = |job: &peal_server::admin::ActivityJob| {
        let status = &job.status;
        let waiting = DataCell::count(status.expected.into());
        DataRow {
            key: RowKey::Job(status.nspace.clone()),
            cells: vec![
                DataCell::text(&status.nspace),
                DataCell::text(data.user(status.uid)),
                DataCell::count(status.size.into()),
                DataCell::count(status.connected.into()).tone_if(is_some, Tone::Good),
                waiting.tone_if(is_some, Tone::Plain),
                DataCell::count(status.finalized.into()).tone_if(is_some, Tone::Plain),
                DataCell::count(status.lost.into()).tone_if(is_some, Tone::Bad),
            ],
        }
    };
    DataTable {
        columns: vec![
            text("JOB", 0),
            text("USER", 0),
            number("PROCS", 0),
            number("CONNECTED", 0),
            number("EXPECTED", 0),
            number("FINALIZED", 0),
            number("LOST", 0),
        ],
        flexible: 0,
        rows: data.jobs.jobs.iter().map(row).collect(),
        empty: "no jobs are registered",
        remark: further(data.jobs.further, "jobs"),
    }
}

/// Returns the name of a status, or its number.
pub(super) fn status(status: &WatchedStatus) -> String {
    status
        .name
        .clone()
        .unwrap_or_else(|| status.number.to_string())
}

/// Returns the name and the number of a status.
pub(super) fn status_with_number(of: &WatchedStatus) -> String {
    match &of.name {
        Some(name) => format!("{} ({})", plain(name), of.number),
        None => of.number.to_string(),
    }
}

fn codes(data: &LiveData, glyphs: Glyphs) -> DataTable {
    let row = |of: &peal_server::admin::ActivityCodeCount| {
        let trend = data.code(of.code.number);
        let latest = trend.latest();
        let handlers = handlers_of(data, of.code.number);
        DataRow {
            key: RowKey::Code(of.code.number),
            cells: vec![
                DataCell::text(status(&of.code)),
                DataCell::number(of.code.number.to_string(), of.code.number.into()),
                DataCell::number(form::rate(latest), latest.unwrap_or_default())
                    .tone_if(is_some, Tone::Good),
                DataCell::text(glyphs.trend(&trend, 20)).tone(Tone::Good),
                DataCell::count(of.count),
                DataCell::count(handlers as u64).tone_if(is_some, Tone::Plain),
            ],
        }
    };
    let further = data.counts.further_events;
    DataTable {
        columns: vec![
            text("CODE", 0),
            number("NUMBER", 100),
            number("EVENTS/S", 0),
            drawing("TREND"),
            number("EVENTS", 0),
            number("HANDLERS", 0),
        ],
        flexible: 0,
        rows: data.counts.events.iter().map(row).collect(),
        empty: "no event was raised since this began",
        remark: (further > 0).then(|| format!("and {further} events of further codes")),
    }
}

/// Returns the number of hosted handlers that are registered for a code.
fn handlers_of(data: &LiveData, code: i32) -> usize {
    let handlers = data.chains.iter().flat_map(|chain| &chain.handlers);
    handlers
        .filter(|handler| handler.codes.is_empty() || handler.codes.contains(&code))
        .count()
}

/// Row of the chains: a handler with the meter of its module, or a module in another role.
pub(super) struct ChainRow<'a> {
    pub(super) key: RowKey,
    /// Owner and position, or the role.
    pub(super) place: String,
    pub(super) name: String,
    pub(super) handler: Option<&'a ChainHandler>,
    pub(super) module: Option<&'a ActivityModule>,
}

/// Role of the modules in hosted chains.
const HANDLER_ROLE: &str = "event-handler";

/// Returns the handlers in the order in which they run, then the modules in other roles.
pub(super) fn chain_rows(data: &LiveData) -> Vec<ChainRow<'_>> {
    let modules = &data.modules.modules;
    let handlers = data.chains.iter().flat_map(|chain| {
        let owner = data.owner(&chain.owner);
        let handlers = chain.handlers.iter().enumerate();
        handlers.map(move |(at, handler)| ChainRow {
            key: RowKey::Handler(owner.clone(), handler.registration),
            place: format!("{owner} {}", at + 1),
            name: if handler.name.is_empty() {
                handler.module.clone()
            } else {
                handler.name.clone()
            },
            handler: Some(handler),
            module: modules.iter().find(|module| {
                module.owner == chain.owner
                    && module.name == handler.module
                    && module.role == HANDLER_ROLE
            }),
        })
    });
    let others = modules.iter().filter(|module| module.role != HANDLER_ROLE);
    let others = others.map(|module| ChainRow {
        key: RowKey::Module(
            data.owner(&module.owner),
            module.name.clone(),
            module.role.clone(),
        ),
        place: module.role.clone(),
        name: module.name.clone(),
        handler: None,
        module: Some(module),
    });
    handlers.chain(others).collect()
}

fn state_tone(state: &ModuleState) -> Tone {
    match state {
        ModuleState::Active => Tone::Good,
        ModuleState::Quarantined => Tone::Bad,
        ModuleState::Shadow | ModuleState::Disabled => Tone::Faint,
        ModuleState::Waiting | ModuleState::Compiling | ModuleState::Fetching => Tone::Warning,
    }
}

/// Returns the codes of a handler as text.
pub(super) fn handler_codes(handler: &ChainHandler) -> String {
    if handler.codes.is_empty() {
        return "all codes".to_owned();
    }
    let name = |code: &i32| status(&Status(*code).into());
    handler
        .codes
        .iter()
        .map(name)
        .collect::<Vec<_>>()
        .join(", ")
}

fn chains(data: &LiveData) -> DataTable {
    let row = |row: ChainRow<'_>| {
        let rate = row
            .module
            .map(|module| data.module_rate(module))
            .unwrap_or_default();
        let mean = rate.mean_us;
        let calls = row.module.map_or(0, |module| module.calls);
        let failures = row.module.map_or(0, |module| module.failures);
        let state = row.module.and_then(|module| module.state.as_ref());
        let codes = row.handler.map(handler_codes).unwrap_or_default();
        DataRow {
            key: row.key,
            cells: vec![
                DataCell::text(row.place),
                DataCell::text(row.name),
                DataCell::text(row.module.map_or("", |module| module.name.as_str())),
                DataCell::text(codes),
                DataCell::number(form::rate(Some(rate.calls)), rate.calls)
                    .tone_if(is_some, Tone::Good),
                DataCell::number(
                    mean.map_or_else(|| "-".to_owned(), form::micros),
                    mean.unwrap_or_default(),
                ),
                DataCell::count(calls).tone_if(is_some, Tone::Plain),
                DataCell::count(failures).tone_if(is_some, Tone::Bad),
                DataCell::text(state.map_or_else(|| "-".to_owned(), ToString::to_string))
                    .tone(state.map_or(Tone::Faint, state_tone)),
            ],
        }
    };
    DataTable {
        columns: vec![
            text("CHAIN", 0),
            text("HANDLER", 0),
            text("MODULE", 110),
            text("CODES", 120),
            number("CALLS/S", 0),
            number("TIME", 0),
            number("CALLS", 0),
            number("FAILED", 0),
            text("STATE", 0),
        ],
        flexible: 1,
        rows: chain_rows(data).into_iter().map(row).collect(),
        empty: told_by_socket(data, "no module is hosted"),
        remark: further(data.modules.further, "modules"),
    }
}

/// Returns the table of events.
pub(super) fn events<'a>(
    passages: impl Iterator<Item = (u64, &'a EventPassage)>,
    data: &LiveData,
) -> DataTable {
    let row = |(number, passage): (u64, &EventPassage)| {
        let has_failed = passage.steps.iter().any(|step| step.failure.is_some());
        let tone = if has_failed { Tone::Bad } else { Tone::Plain };
        let steps = passage.steps.len() as u64 + passage.further_steps;
        let result = match passage.steps.last() {
            Some(step) => status(&step.status),
            None if data.tool_server.is_some() => "unknown".to_owned(),
            None => "no handler".to_owned(),
        };
        DataRow {
            key: RowKey::Passage(number),
            cells: vec![
                DataCell {
                    text: form::time_of_day(passage.at_ms),
                    ..DataCell::count(passage.at_ms)
                },
                DataCell::count(passage.number),
                DataCell::text(status(&passage.code)),
                DataCell::text(passage.source.as_deref().unwrap_or("-")),
                DataCell::text(
                    passage
                        .uid
                        .map_or_else(|| "-".to_owned(), |uid| data.user(uid)),
                ),
                DataCell::count(steps).tone_if(is_some, Tone::Plain),
                DataCell::text(result).tone(tone),
                DataCell::number(form::micros(passage.time_us as f64), passage.time_us as f64),
            ],
        }
    };
    let missed = data.missed.passages;
    DataTable {
        columns: vec![
            text("TIME (UTC)", 0),
            number("NUMBER", 100),
            text("CODE", 0),
            text("SOURCE", 0),
            text("USER", 110),
            number("CALLS", 0),
            text("LAST RESULT", 120),
            number("TOOK", 0),
        ],
        flexible: 3,
        rows: passages.map(row).collect(),
        empty: "no event has passed the chains since this began",
        remark: (missed > 0).then(|| format!("{missed} more came faster than they were read")),
    }
}

/// Returns the table of the steps of an event.
pub(super) fn steps(passage: &EventPassage, data: &LiveData, glyphs: Glyphs) -> DataTable {
    let longest = passage.steps.iter().map(|step| step.time_us).max();
    let longest = longest.unwrap_or_default() as f64;
    let row = |(at, step): (usize, &PassageStep)| {
        let tone = if step.failure.is_some() {
            Tone::Bad
        } else {
            Tone::Plain
        };
        let result = match &step.failure {
            Some(failure) => format!("{}: {failure}", status(&step.status)),
            None => status(&step.status),
        };
        let time = step.time_us as f64;
        DataRow {
            key: RowKey::Step(at),
            cells: vec![
                DataCell::count(at as u64 + 1),
                DataCell::text(data.owner(&step.owner)),
                DataCell::text(&step.handler),
                DataCell::text(&step.module),
                DataCell::text(result).tone(tone),
                DataCell::number(form::micros(time), time),
                DataCell::text(glyphs.part(time, longest, 10)).tone(Tone::Good),
            ],
        }
    };
    DataTable {
        columns: vec![
            number("#", 0),
            text("OWNER", 0),
            text("HANDLER", 0),
            text("MODULE", 110),
            text("RESULT", 0),
            number("TIME", 0),
            drawing("SHARE"),
        ],
        flexible: 4,
        rows: passage.steps.iter().enumerate().map(row).collect(),
        empty: "no handler was registered for the event",
        remark: further(passage.further_steps, "calls"),
    }
}

fn denials(data: &LiveData) -> DataTable {
    let row = |number: u64, denial: &ActivityDenial| DataRow {
        key: RowKey::Denial(number),
        cells: vec![
            DataCell {
                text: form::time_of_day(denial.at_ms),
                ..DataCell::count(denial.at_ms)
            },
            DataCell::text(&denial.hook),
            DataCell::text(
                denial
                    .uid
                    .map_or_else(|| "-".to_owned(), |uid| data.user(uid)),
            ),
            DataCell::text(denial.requester.as_deref().unwrap_or("-")),
            DataCell::text(&denial.by).tone(Tone::Warning),
            DataCell::text(status(&denial.status)),
            DataCell::text(&denial.reason),
        ],
    };
    let missed = data.missed.denials;
    DataTable {
        columns: vec![
            text("TIME (UTC)", 0),
            text("HOOK", 0),
            text("USER", 0),
            text("REQUESTER", 110),
            text("BY", 0),
            text("STATUS", 130),
            text("REASON", 0),
        ],
        flexible: 6,
        rows: data
            .denials
            .iter()
            .map(|of| row(of.number, &of.entry))
            .collect(),
        empty: told_by_socket(data, "nothing was denied"),
        remark: (missed > 0).then(|| format!("{missed} more came faster than they were read")),
    }
}

fn sinks(data: &LiveData) -> DataTable {
    let row = |sink: &peal_server::admin::ActivitySink| {
        let delivered = data.sink_rate(&sink.name);
        let (link, tone) = if sink.unreachable {
            ("unreachable", Tone::Bad)
        } else {
            ("ok", Tone::Good)
        };
        let bytes = sink.queued_bytes as f64;
        DataRow {
            key: RowKey::Sink(sink.name.clone()),
            cells: vec![
                DataCell::text(&sink.name),
                DataCell::count(sink.queued).tone_if(is_some, Tone::Warning),
                DataCell::number(units::bytes(bytes), bytes).tone_if(is_some, Tone::Plain),
                DataCell::number(form::rate(Some(delivered)), delivered)
                    .tone_if(is_some, Tone::Good),
                DataCell::count(sink.delivered),
                DataCell::count(sink.refused).tone_if(is_some, Tone::Warning),
                DataCell::count(sink.retried).tone_if(is_some, Tone::Warning),
                DataCell::count(sink.dropped).tone_if(is_some, Tone::Bad),
                DataCell::text(link).tone(tone),
            ],
        }
    };
    DataTable {
        columns: vec![
            text("SINK", 0),
            number("QUEUED", 0),
            number("SIZE", 90),
            number("SENT/S", 0),
            number("SENT", 0),
            number("REFUSED", 0),
            number("RETRIED", 0),
            number("DROPPED", 0),
            text("LINK", 0),
        ],
        flexible: 0,
        rows: data.sinks.iter().map(row).collect(),
        empty: match data.only_user {
            None => told_by_socket(data, "no sink is open"),
            Some(_) => "sinks are shown to administrators",
        },
        remark: None,
    }
}

/// Resource of which a user holds the largest part of its share.
struct FullestResource {
    name: String,
    part: f64,
}

fn fullest(user: &UserResources) -> Option<FullestResource> {
    let parts = user.resources.iter().filter_map(|used| {
        let share = used.share.filter(|share| *share > 0)?;
        Some(FullestResource {
            name: used.resource.clone(),
            part: used.held as f64 / share as f64,
        })
    });
    parts.max_by(|one, other| one.part.total_cmp(&other.part))
}

/// Returns the tone of a used part.
pub(super) fn part_tone(part: f64) -> Tone {
    match part {
        part if part >= 0.9 => Tone::Bad,
        part if part >= 0.7 => Tone::Warning,
        part if part > 0.0 => Tone::Plain,
        _ => Tone::Faint,
    }
}

/// Formats a part in percent.
pub(super) fn percent(part: f64) -> String {
    format!("{:.0}%", part * 100.0)
}

fn users(data: &LiveData) -> DataTable {
    let row = |user: &UserResources| {
        let own = data
            .jobs
            .jobs
            .iter()
            .filter(|job| job.status.uid == user.uid);
        let procs: u64 = own.clone().map(|job| u64::from(job.status.size)).sum();
        let fullest = fullest(user);
        let part = fullest.as_ref().map(|fullest| fullest.part);
        let refused = user.resources.iter().map(|used| used.refused).sum();
        DataRow {
            key: RowKey::User(user.uid),
            cells: vec![
                DataCell::text(data.user(user.uid)),
                DataCell::count(own.count() as u64).tone_if(is_some, Tone::Plain),
                DataCell::count(procs).tone_if(is_some, Tone::Plain),
                DataCell::text(fullest.map_or_else(|| "-".to_owned(), |fullest| fullest.name)),
                DataCell::number(
                    part.map_or_else(|| "-".to_owned(), percent),
                    part.unwrap_or_default(),
                )
                .tone(part.map_or(Tone::Faint, part_tone)),
                DataCell::count(refused).tone_if(is_some, Tone::Bad),
            ],
        }
    };
    DataTable {
        columns: vec![
            text("USER", 0),
            number("JOBS", 0),
            number("PROCS", 0),
            text("FULLEST RESOURCE", 0),
            number("OF SHARE", 0),
            number("REFUSED", 0),
        ],
        flexible: 3,
        rows: data.users.users.iter().map(row).collect(),
        empty: told_by_socket(data, "no user holds anything"),
        remark: None,
    }
}
