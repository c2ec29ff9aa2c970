//! Handlers in the order in which they run, and modules in other roles.
use super::{events, further, number, status, text, told_by_socket};
use crate::top::{
    detail::{Detail, Fact},
    table::{DataCell, DataRow, DataTable, RowKey, Tone, is_positive},
};
use peal_model::{Status, shown_microseconds, shown_rate};
use peal_server::admin::{
    ActivityModule, ChainHandler, ChainOwner, EventPassage, LiveData, ModuleState,
};

/// Maximum number of codes in the cell of a handler.
const MAX_CODES: usize = 32;

/// Row of the chains: a handler with the meter of its module, or a module in another role.
pub struct ChainRow<'a> {
    key: RowKey,
    owner: &'a ChainOwner,
    /// Owner and position, or the role.
    place: String,
    name: String,
    handler: Option<&'a ChainHandler>,
    module: Option<&'a ActivityModule>,
}

/// Role of the modules in hosted chains.
const HANDLER_ROLE: &str = "event-handler";

/// Returns the handlers in the order in which they run, then the modules in other roles.
pub fn rows(data: &LiveData) -> Vec<ChainRow<'_>> {
    let modules = &data.modules.modules;
    let handlers = data.chains.iter().flat_map(|chain| {
        let owner = data.owner(&chain.owner);
        let handlers = chain.handlers.iter().enumerate();
        handlers.map(move |(at, handler)| ChainRow {
            key: RowKey::Handler(chain.owner.clone(), handler.registration),
            owner: &chain.owner,
            place: format!("{owner} {}", at + 1),
            name: handler_name(handler).to_owned(),
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
            module.owner.clone(),
            module.name.clone(),
            module.role.clone(),
        ),
        owner: &module.owner,
        place: module.role.clone(),
        name: module.name.clone(),
        handler: None,
        module: Some(module),
    });
    handlers.chain(others).collect()
}

/// Returns the name of a handler, or that of its module.
pub fn handler_name(handler: &ChainHandler) -> &str {
    if handler.name.is_empty() {
        &handler.module
    } else {
        &handler.name
    }
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
fn handler_codes(handler: &ChainHandler) -> String {
    if handler.codes.is_empty() {
        return "all codes".to_owned();
    }
    let name = |code: &i32| status(&Status(*code).into());
    let names = handler.codes.iter().take(MAX_CODES).map(name);
    let text = names.collect::<Vec<_>>().join(", ");
    match handler.codes.len().saturating_sub(MAX_CODES) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Returns the table of handlers and modules.
pub fn table(data: &LiveData) -> DataTable {
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
                DataCell::number(shown_rate(Some(rate.calls)), rate.calls)
                    .tone_if(is_positive, Tone::Good),
                DataCell::number(
                    mean.map_or_else(|| "-".to_owned(), shown_microseconds),
                    mean.unwrap_or_default(),
                ),
                DataCell::count(calls).tone_if(is_positive, Tone::Plain),
                DataCell::count(failures).tone_if(is_positive, Tone::Bad),
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
        rows: rows(data).into_iter().map(row).collect(),
        empty: told_by_socket(data, "no module is hosted"),
        remark: further(data.modules.further, "modules")
            .or_else(|| further(data.further.handlers, "handlers")),
    }
}

/// Returns the details of a handler or module; none if it has gone.
pub fn detail(key: &RowKey, data: &LiveData) -> Option<Detail> {
    let row = rows(data).into_iter().find(|row| row.key == *key)?;
    let mut facts = Vec::new();
    facts.push(Fact::new("place", &row.place));
    if let Some(handler) = row.handler {
        facts.push(Fact::new("codes", handler_codes(handler)));
        if handler.oneshot {
            facts.push(Fact::new("lifetime", "one call"));
        }
    }
    if let Some(module) = row.module {
        let rate = data.module_rate(module);
        facts.push(Fact::new(
            "module",
            format!("{}, owner {}", module.name, data.owner(&module.owner)),
        ));
        let mean = rate
            .mean_us
            .map_or_else(|| "-".to_owned(), shown_microseconds);
        facts.push(Fact::new(
            "calls",
            format!(
                "{}, {} a second, {mean} each",
                module.calls,
                shown_rate(Some(rate.calls))
            ),
        ));
        facts.push(Fact::new(
            "failed",
            format!(
                "{}, {} a second",
                module.failures,
                shown_rate(Some(rate.failures))
            ),
        ));
        facts.extend(
            module
                .failure
                .as_ref()
                .map(|failure| Fact::new("latest", failure)),
        );
    }
    let name = row.name.clone();
    let took_part = |passage: &EventPassage| {
        row.handler.is_some_and(|handler| {
            let called = (row.owner, &handler.name, &handler.module);
            let mut steps = passage.steps.iter();
            steps.any(|step| (&step.owner, &step.handler, &step.module) == called)
        })
    };
    let passages = data.passages.iter().filter(|of| took_part(&of.entry));
    let mut table = events::table(passages.map(|of| (of.number, &of.entry)), data);
    table.empty = if row.handler.is_some() {
        "no event has passed this handler lately"
    } else {
        "policies and channels pass no events"
    };
    Some(Detail {
        title: format!("Handler {}", crate::plain(&name)),
        facts,
        table,
    })
}
