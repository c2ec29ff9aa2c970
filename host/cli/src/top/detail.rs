//! Details of `peal top`: what a row of a table consists of.
use super::{
    form::Glyphs,
    panes::{chains, codes, denials, events, jobs, users},
    table::{DataTable, RowKey},
};
use crate::plain;
use peal_server::admin::LiveData;

/// Name and value.
pub struct Fact {
    /// Name.
    pub name: &'static str,
    /// Value, without control characters.
    pub value: String,
}

impl Fact {
    /// Returns a fact with a text from outside.
    pub fn new(name: &'static str, value: impl AsRef<str>) -> Fact {
        Fact {
            name,
            value: plain(value.as_ref()),
        }
    }
}

/// Details of a row.
pub struct Detail {
    /// Title.
    pub title: String,
    /// Facts above the table.
    pub facts: Vec<Fact>,
    /// Table.
    pub table: DataTable,
}

impl Detail {
    /// Returns the details of a row; none if there are none, or the row has gone.
    pub fn of(key: &RowKey, data: &LiveData, glyphs: Glyphs) -> Option<Detail> {
        match key {
            RowKey::Job(nspace) => {
                let mut jobs = data.jobs.jobs.iter();
                let job = jobs.find(|job| job.status.nspace == *nspace)?;
                Some(jobs::detail(job, data))
            }
            RowKey::Code(code) => codes::detail(*code, data),
            RowKey::Handler(..) | RowKey::Module(..) => chains::detail(key, data),
            RowKey::Passage(number) => {
                Some(events::detail(data.passages.get(*number)?, data, glyphs))
            }
            RowKey::Denial(number) => Some(denials::detail(data.denials.get(*number)?, data)),
            RowKey::User(uid) => {
                let user = data.users.users.iter().find(|user| user.uid == *uid)?;
                Some(users::detail(user, data, glyphs))
            }
            RowKey::Proc(_) | RowKey::Step(_) | RowKey::Sink(_) | RowKey::Resource(_) => None,
        }
    }
}
