//! Users, and what they hold of limited resources.
use super::{drawing, further, number, text, told_by_socket};
use crate::top::{
    detail::Detail,
    form::Glyphs,
    table::{DataCell, DataRow, DataTable, RowKey, Tone, is_positive},
};
use peal_server::admin::{LiveData, ResourceUse, UserResources};

/// Title of the column by which users are usually sorted.
pub const PART_OF_SHARE: &str = "OF SHARE";

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
fn part_tone(part: f64) -> Tone {
    match part {
        part if part >= 0.9 => Tone::Bad,
        part if part >= 0.7 => Tone::Warning,
        part if part > 0.0 => Tone::Plain,
        _ => Tone::Faint,
    }
}

/// Formats a part in percent.
fn percent(part: f64) -> String {
    format!("{:.0}%", part * 100.0)
}

/// Returns the table of users.
pub fn table(data: &LiveData) -> DataTable {
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
                DataCell::count(own.count() as u64).tone_if(is_positive, Tone::Plain),
                DataCell::count(procs).tone_if(is_positive, Tone::Plain),
                DataCell::text(fullest.map_or_else(|| "-".to_owned(), |fullest| fullest.name)),
                DataCell::number(
                    part.map_or_else(|| "-".to_owned(), percent),
                    part.unwrap_or_default(),
                )
                .tone(part.map_or(Tone::Faint, part_tone)),
                DataCell::count(refused).tone_if(is_positive, Tone::Bad),
            ],
        }
    };
    DataTable {
        columns: vec![
            text("USER", 0),
            number("JOBS", 0),
            number("PROCS", 0),
            text("FULLEST RESOURCE", 0),
            number(PART_OF_SHARE, 0),
            number("REFUSED", 0),
        ],
        flexible: 3,
        rows: data.users.users.iter().map(row).collect(),
        empty: told_by_socket(data, "no user holds anything"),
        remark: further(data.further.users, "users"),
    }
}

/// Returns the details of a user: all resources that it holds.
pub fn detail(user: &UserResources, data: &LiveData, glyphs: Glyphs) -> Detail {
    let limits = |resource: &str| {
        let mut limits = data.users.resources.iter();
        limits.find(|limits| limits.resource == resource)
    };
    let row = |used: &ResourceUse| {
        let share = used.share.filter(|share| *share > 0);
        let part = share.map(|share| used.held as f64 / share as f64);
        let setting = limits(&used.resource).map(|limits| limits.share_setting.as_str());
        DataRow {
            key: RowKey::Resource(used.resource.clone()),
            cells: vec![
                DataCell::text(&used.resource),
                DataCell::count(used.held).tone_if(is_positive, Tone::Plain),
                DataCell::number(
                    share.map_or_else(|| "-".to_owned(), |share| share.to_string()),
                    share.unwrap_or_default() as f64,
                ),
                DataCell::number(
                    part.map_or_else(|| "-".to_owned(), percent),
                    part.unwrap_or_default(),
                )
                .tone(part.map_or(Tone::Faint, part_tone)),
                DataCell::text(glyphs.part(part.unwrap_or_default(), 1.0, 10))
                    .tone(part.map_or(Tone::Faint, part_tone)),
                DataCell::count(used.refused).tone_if(is_positive, Tone::Bad),
                DataCell::text(setting.unwrap_or("-")).tone(Tone::Faint),
            ],
        }
    };
    Detail {
        title: format!(
            "User {} (uid {})",
            crate::plain(&data.user(user.uid)),
            user.uid
        ),
        facts: Vec::new(),
        table: DataTable {
            columns: vec![
                text("RESOURCE", 0),
                number("HELD", 0),
                number("SHARE", 0),
                number("USED", 0),
                drawing(""),
                number("REFUSED", 0),
                text("SETTING OF THE SHARE", 110),
            ],
            flexible: 0,
            rows: user.resources.iter().map(row).collect(),
            empty: "the user holds nothing",
            remark: None,
        },
    }
}
