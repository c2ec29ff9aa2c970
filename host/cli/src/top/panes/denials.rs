//! Latest denials, and the details of one.
use super::{status, status_with_number, text, told_by_socket};
use crate::top::{
    detail::{Detail, Fact},
    form,
    table::{DataCell, DataRow, DataTable, RowKey, Tone},
};
use peal_server::admin::{ActivityDenial, LiveData};

/// Returns the table of denials.
pub fn table(data: &LiveData) -> DataTable {
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
        remark: (missed > 0).then(|| format!("{missed} more came too fast to be listed")),
    }
}

/// Returns the details of a denial.
pub fn detail(denial: &ActivityDenial, data: &LiveData) -> Detail {
    let user = denial.uid.map_or_else(
        || "unknown user".to_owned(),
        |uid| format!("user {}", data.user(uid)),
    );
    let requester = denial
        .requester
        .as_deref()
        .unwrap_or("a tool without a name");
    let mut facts = vec![
        Fact::new("time", format!("{} UTC", form::time_of_day(denial.at_ms))),
        Fact::new("requester", format!("{requester}, {user}")),
        Fact::new("denied by", &denial.by),
        Fact::new("status", status_with_number(&denial.status)),
    ];
    if !denial.targets.is_empty() {
        facts.push(Fact::new("targets", denial.targets.join(", ")));
    }
    if !denial.reason.is_empty() {
        facts.push(Fact::new("reason", &denial.reason));
    }
    Detail {
        title: format!("Denial of {}", crate::plain(&denial.hook)),
        facts,
        table: DataTable::default(),
    }
}
