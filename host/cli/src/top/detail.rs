//! Details of `peal top`: what a row of a table consists of.
use super::{
    form::{self, Glyphs},
    live::LiveData,
    pane::{self, number, text},
    table::{DataCell, DataRow, DataTable, RowKey, Tone, is_some},
};
use crate::plain;
use peal_server::admin::{
    ActivityDenial, ActivityJob, ActivityProcState, EventPassage, UserResources,
};

/// Name and value.
pub struct Fact {
    /// Name.
    pub name: &'static str,
    /// Value, without control characters.
    pub value: String,
}

impl Fact {
    fn new(name: &'static str, value: impl AsRef<str>) -> Fact {
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
                Some(of_job(job, data))
            }
            RowKey::Code(code) => of_code(*code, data),
            RowKey::Handler(..) | RowKey::Module(..) => of_handler(key, data),
            RowKey::Passage(number) => Some(of_event(data.passages.get(*number)?, data, glyphs)),
            RowKey::Denial(number) => Some(of_denial(data.denials.get(*number)?, data)),
            RowKey::User(uid) => {
                let user = data.users.users.iter().find(|user| user.uid == *uid)?;
                Some(of_user(user, data, glyphs))
            }
            RowKey::Proc(_) | RowKey::Step(_) | RowKey::Sink(_) | RowKey::Resource(_) => None,
        }
    }
}

fn of_job(job: &ActivityJob, data: &LiveData) -> Detail {
    let status = &job.status;
    let row = |proc: &peal_server::admin::ActivityProc| {
        let tone = match proc.state {
            ActivityProcState::Connected | ActivityProcState::Running => Tone::Good,
            ActivityProcState::Expected => Tone::Warning,
            ActivityProcState::Lost => Tone::Bad,
            ActivityProcState::Finalized | ActivityProcState::Ended => Tone::Faint,
        };
        DataRow {
            key: RowKey::Proc(proc.rank),
            cells: vec![
                DataCell::count(proc.rank.into()),
                DataCell::text(proc.state.name()).tone(tone),
                DataCell::number(
                    proc.pid
                        .map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
                    proc.pid.unwrap_or_default().into(),
                ),
            ],
        }
    };
    let shown = u32::try_from(job.procs.len()).unwrap_or(u32::MAX);
    let elsewhere = status.size.saturating_sub(shown);
    Detail {
        title: format!("Job {}", plain(&status.nspace)),
        facts: vec![
            Fact::new(
                "user",
                format!("{}, group {}", data.user(status.uid), status.gid),
            ),
            Fact::new(
                "procs",
                format!(
                    "{}: {} connected, {} expected, {} finalized, {} lost",
                    status.size, status.connected, status.expected, status.finalized, status.lost
                ),
            ),
        ],
        table: DataTable {
            columns: vec![number("RANK", 0), text("STATE", 0), number("PID", 0)],
            flexible: 1,
            rows: job.procs.iter().map(row).collect(),
            empty: "no proc of the job is on this node",
            remark: (elsewhere > 0).then(|| {
                format!("and {elsewhere} more procs, on other nodes or beyond the report")
            }),
        },
    }
}

fn of_code(code: i32, data: &LiveData) -> Option<Detail> {
    let mut counts = data.counts.events.iter();
    let found = counts.find(|of| of.code.number == code)?;
    let trend = data.code(code);
    let handlers = data.chains.iter().flat_map(|chain| {
        let owner = data.owner(&chain.owner);
        let handlers = chain.handlers.iter();
        let matching =
            handlers.filter(|handler| handler.codes.is_empty() || handler.codes.contains(&code));
        matching.map(move |handler| format!("{owner}/{}", handler.name))
    });
    let handlers = handlers.collect::<Vec<_>>().join(" -> ");
    let passages = data.passages.iter();
    let passages = passages.filter(|of| of.entry.code.number == code);
    let mut table = pane::events(passages.map(|of| (of.number, &of.entry)), data);
    table.empty = "no event of this code has passed lately";
    Some(Detail {
        title: format!("Code {}", pane::status_with_number(&found.code)),
        facts: vec![
            Fact::new(
                "events",
                format!("{}, {} a second", found.count, form::rate(trend.latest())),
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

fn of_handler(key: &RowKey, data: &LiveData) -> Option<Detail> {
    let row = pane::chain_rows(data)
        .into_iter()
        .find(|row| row.key == *key)?;
    let mut facts = Vec::new();
    facts.push(Fact::new("place", &row.place));
    if let Some(handler) = row.handler {
        facts.push(Fact::new("codes", pane::handler_codes(handler)));
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
        let mean = rate.mean_us.map_or_else(|| "-".to_owned(), form::micros);
        facts.push(Fact::new(
            "calls",
            format!(
                "{}, {} a second, {mean} each",
                module.calls,
                form::rate(Some(rate.calls))
            ),
        ));
        facts.push(Fact::new(
            "failed",
            format!(
                "{}, {} a second",
                module.failures,
                form::rate(Some(rate.failures))
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
        let mut steps = passage.steps.iter();
        steps.any(|step| {
            let module = row.module.map(|module| (&module.owner, &module.name));
            module == Some((&step.owner, &step.module)) && row.handler.is_some()
        })
    };
    let passages = data.passages.iter().filter(|of| took_part(&of.entry));
    let mut table = pane::events(passages.map(|of| (of.number, &of.entry)), data);
    table.empty = if row.handler.is_some() {
        "no event has passed this handler lately"
    } else {
        "policies and channels pass no events"
    };
    Some(Detail {
        title: format!("Handler {}", plain(&name)),
        facts,
        table,
    })
}

fn of_event(passage: &EventPassage, data: &LiveData, glyphs: Glyphs) -> Detail {
    let source = passage.source.as_deref().unwrap_or("the resource manager");
    let user = passage
        .uid
        .map(|uid| format!(", user {}", data.user(uid)))
        .unwrap_or_default();
    Detail {
        title: format!(
            "Event {}  {}",
            passage.number,
            pane::status_with_number(&passage.code)
        ),
        facts: vec![
            Fact::new("source", format!("{source}{user}")),
            Fact::new("range", &passage.range),
            Fact::new(
                "passed",
                format!(
                    "{} UTC, took {}",
                    form::time_of_day(passage.at_ms),
                    form::micros(passage.time_us as f64)
                ),
            ),
        ],
        table: pane::steps(passage, data, glyphs),
    }
}

fn of_denial(denial: &ActivityDenial, data: &LiveData) -> Detail {
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
        Fact::new("status", pane::status_with_number(&denial.status)),
    ];
    if !denial.targets.is_empty() {
        facts.push(Fact::new("targets", denial.targets.join(", ")));
    }
    if !denial.reason.is_empty() {
        facts.push(Fact::new("reason", &denial.reason));
    }
    Detail {
        title: format!("Denial of {}", plain(&denial.hook)),
        facts,
        table: DataTable::default(),
    }
}

fn of_user(user: &UserResources, data: &LiveData, glyphs: Glyphs) -> Detail {
    let limits = |resource: &str| {
        let mut limits = data.users.resources.iter();
        limits.find(|limits| limits.resource == resource)
    };
    let row = |used: &peal_server::admin::ResourceUse| {
        let share = used.share.filter(|share| *share > 0);
        let part = share.map(|share| used.held as f64 / share as f64);
        let setting = limits(&used.resource).map(|limits| limits.share_setting.as_str());
        DataRow {
            key: RowKey::Resource(used.resource.clone()),
            cells: vec![
                DataCell::text(&used.resource),
                DataCell::count(used.held).tone_if(is_some, Tone::Plain),
                DataCell::number(
                    share.map_or_else(|| "-".to_owned(), |share| share.to_string()),
                    share.unwrap_or_default() as f64,
                ),
                DataCell::number(
                    part.map_or_else(|| "-".to_owned(), pane::percent),
                    part.unwrap_or_default(),
                )
                .tone(part.map_or(Tone::Faint, pane::part_tone)),
                DataCell::text(glyphs.part(part.unwrap_or_default(), 1.0, 10))
                    .tone(part.map_or(Tone::Faint, pane::part_tone)),
                DataCell::count(used.refused).tone_if(is_some, Tone::Bad),
                DataCell::text(setting.unwrap_or("-")).tone(Tone::Faint),
            ],
        }
    };
    Detail {
        title: format!("User {} (uid {})", plain(&data.user(user.uid)), user.uid),
        facts: Vec::new(),
        table: DataTable {
            columns: vec![
                text("RESOURCE", 0),
                number("HELD", 0),
                number("SHARE", 0),
                number("USED", 0),
                pane::drawing(""),
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
