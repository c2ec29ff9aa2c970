//! Event codes, their rates and handlers.
use super::{chains, drawing, events, number, status, status_with_number, text};
use crate::top::{
    detail::{Detail, Fact},
    form::Glyphs,
    table::{DataCell, DataRow, DataTable, RowKey, Tone, is_positive},
};
use peal_model::shown_rate;
use peal_server::admin::{ActivityCodeCount, LiveData};

/// Title of the column by which codes are usually sorted.
pub const EVENT_RATE: &str = "EVENTS/S";

/// Returns the table of codes.
pub fn table(data: &LiveData, glyphs: Glyphs) -> DataTable {
    let row = |of: &ActivityCodeCount| {
        let trend = data.code(of.code.number);
        let latest = trend.latest();
        let handlers = handlers_of(data, of.code.number);
        DataRow {
            key: RowKey::Code(of.code.number),
            cells: vec![
                DataCell::text(status(&of.code)),
                DataCell::number(of.code.number.to_string(), of.code.number.into()),
                DataCell::number(shown_rate(latest), latest.unwrap_or_default())
                    .tone_if(is_positive, Tone::Good),
                DataCell::text(glyphs.trend(&trend, 20)).tone(Tone::Good),
                DataCell::count(of.count),
                DataCell::count(handlers as u64).tone_if(is_positive, Tone::Plain),
            ],
        }
    };
    let further = data.counts.further_events;
    DataTable {
        columns: vec![
            text("CODE", 0),
            number("NUMBER", 100),
            number(EVENT_RATE, 0),
            drawing("TREND"),
            number("EVENTS", 0),
            number("HANDLERS", 0),
        ],
        flexible: 0,
        rows: data.counts.events.iter().map(row).collect(),
        empty: "no event was raised since this began",
        remark: if data.counts.uncounted {
            Some("so many users raise events that yours are not counted".to_owned())
        } else {
            (further > 0).then(|| format!("and {further} events of further codes"))
        },
    }
}

/// Returns the number of hosted handlers that are registered for a code.
fn handlers_of(data: &LiveData, code: i32) -> usize {
    let handlers = data.chains.iter().flat_map(|chain| &chain.handlers);
    handlers
        .filter(|handler| handler.codes.is_empty() || handler.codes.contains(&code))
        .count()
}

/// Returns the details of a code; none if no event has it.
pub fn detail(code: i32, data: &LiveData) -> Option<Detail> {
    let mut counts = data.counts.events.iter();
    let found = counts.find(|of| of.code.number == code)?;
    let trend = data.code(code);
    let handlers = data.chains.iter().flat_map(|chain| {
        let owner = data.owner(&chain.owner);
        let handlers = chain.handlers.iter();
        let matching =
            handlers.filter(|handler| handler.codes.is_empty() || handler.codes.contains(&code));
        matching.map(move |handler| format!("{owner}/{}", chains::handler_name(handler)))
    });
    let handlers = handlers.collect::<Vec<_>>().join(" -> ");
    let passages = data.passages.iter();
    let passages = passages.filter(|of| of.entry.code.number == code);
    let mut table = events::table(passages.map(|of| (of.number, &of.entry)), data);
    table.empty = "no event of this code has passed lately";
    Some(Detail {
        title: format!("Code {}", status_with_number(&found.code)),
        facts: vec![
            Fact::new(
                "events",
                format!("{}, {} a second", found.count, shown_rate(trend.latest())),
            ),
            Fact::new(
                "handlers",
                if handlers.is_empty() {
                    "none".to_owned()
                } else {
                    handlers
                },
            ),
        ],
        table,
    })
}
