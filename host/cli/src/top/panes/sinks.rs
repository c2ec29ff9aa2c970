//! Sinks of log channels.
use super::{further, number, text, told_by_socket};
use crate::{
    top::table::{DataCell, DataRow, DataTable, RowKey, Tone, is_positive},
    units,
};
use peal_model::shown_rate;
use peal_server::admin::{ActivitySink, LiveData};

/// Returns the table of sinks.
pub fn table(data: &LiveData) -> DataTable {
    let row = |sink: &ActivitySink| {
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
                DataCell::count(sink.queued).tone_if(is_positive, Tone::Warning),
                DataCell::number(units::bytes(bytes), bytes).tone_if(is_positive, Tone::Plain),
                DataCell::number(shown_rate(Some(delivered)), delivered)
                    .tone_if(is_positive, Tone::Good),
                DataCell::count(sink.delivered),
                DataCell::count(sink.refused).tone_if(is_positive, Tone::Warning),
                DataCell::count(sink.retried).tone_if(is_positive, Tone::Warning),
                DataCell::count(sink.dropped).tone_if(is_positive, Tone::Bad),
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
        remark: further(data.further.sinks, "sinks"),
    }
}
