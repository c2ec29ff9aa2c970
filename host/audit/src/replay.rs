//! Replay: components do again what was recorded of them, or another one in their place, and what differs is said. An instance is
//! replayed from its first call on, since it carries memory from call to call.
use crate::{
    AuditError, CallEntry, EntryError, HandshakeFacts, ModuleFacts, TrailSource,
    entry::{kind, to_cbor},
    outcome::outcome,
    secret::MARK,
    source::call_of,
};
use peal_sandbox::{
    CallEnd, CallRecord, Digest, Engine, HostCall, LimitKind, LoadError, Replay, ReplayInstance,
};
use peal_store::Filter;
use serde::Serialize;
use std::{collections::BTreeMap, fmt};
use thiserror::Error;

/// Why nothing can be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The records cannot be read.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// A component does not load.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl From<EntryError> for ReplayError {
    fn from(error: EntryError) -> ReplayError {
        ReplayError::Audit(error.into())
    }
}

/// What became of one call.
#[derive(Clone, PartialEq, Debug)]
pub struct Replayed {
    /// Its record.
    pub seq: u64,
    /// The module.
    pub module: String,
    /// How it ended, in a word or two.
    pub was: String,
    /// What came of it now.
    pub outcome: ReplayResult,
}

/// What came of a call that was replayed.
#[derive(Clone, PartialEq, Debug)]
pub enum ReplayResult {
    /// The same.
    Same,
    /// Something else.
    Differs(Vec<ReplayDifference>),
    /// It cannot be replayed, for this reason.
    Not(&'static str),
}

/// How a call differs from what it was.
#[derive(Clone, PartialEq, Debug)]
pub enum ReplayDifference {
    /// It ended in another way.
    End {
        /// How it ended.
        was: String,
        /// How it ends now.
        is: String,
    },
    /// It ended as it did, and handed over something else before.
    Output,
    /// It asked the host for something else.
    HostCall {
        /// Which host call is the first to differ, from 1.
        number: usize,
        /// What it was, if it was one.
        was: Option<String>,
        /// What it is, if it is one.
        is: Option<String>,
    },
    /// It used something else.
    Usage {
        /// What.
        what: &'static str,
        /// How much it was.
        was: u64,
        /// How much it is.
        is: u64,
    },
}

impl fmt::Display for ReplayDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |call: &Option<String>| call.clone().unwrap_or_else(|| "none".to_owned());
        match self {
            ReplayDifference::End { was, is } => write!(f, "{was} -> {is}"),
            ReplayDifference::Output => f.write_str("other results"),
            ReplayDifference::HostCall { number, was, is } => {
                write!(f, "host call {number}: {} -> {}", shown(was), shown(is))
            }
            ReplayDifference::Usage { what, was, is } => write!(f, "{what}: {was} -> {is}"),
        }
    }
}

/// Replays what a source has.
pub struct Replayer<'a> {
    source: &'a TrailSource,
    engine: Engine,
    /// What is called in the place of each module; itself, if nothing is said.
    instead: Option<Vec<u8>>,
    /// By the digests of their facts.
    modules: BTreeMap<Digest, Option<(ModuleFacts, Replay)>>,
}

/// The calls of one instance: numbers and records.
type Calls = Vec<u64>;

impl<'a> Replayer<'a> {
    /// Has the components do it again that did it, or this one in the place of each.
    ///
    /// The engine has to count fuel for all.
    pub fn new(source: &'a TrailSource, engine: Engine, instead: Option<Vec<u8>>) -> Replayer<'a> {
        Replayer {
            source,
            engine,
            instead,
            modules: BTreeMap::new(),
        }
    }

    /// Replays the calls that are wanted, instance by instance, and tells of each.
    pub fn replay(
        &mut self,
        filter: &Filter,
        mut tell: impl FnMut(Replayed),
    ) -> Result<(), ReplayError> {
        let wanted = Filter {
            kinds: vec![kind::CALL.to_owned()],
            ..filter.clone()
        };
        // Of which instances, and where these may begin.
        let mut instances: BTreeMap<(u64, u64), Calls> = BTreeMap::new();
        let mut seqs = std::collections::BTreeSet::new();
        let mut last = 0;
        self.source.each::<ReplayError>(&wanted, |row| {
            if let Some(call) = call_of(&row)? {
                instances
                    .entry((call.run, call.record.instance))
                    .or_default();
                seqs.insert(row.seq);
                last = row.seq;
            }
            Ok(())
        })?;
        let Some(first_run) = instances.keys().map(|(run, _)| *run).min() else {
            return Ok(());
        };
        let calls = vec![kind::CALL.to_owned()];
        let all = Filter {
            from: Some(first_run),
            to: Some(last),
            kinds: calls,
            ..Filter::default()
        };
        self.source.each::<ReplayError>(&all, |row| {
            if let Some(call) = call_of(&row)?
                && let Some(seqs) = instances.get_mut(&(call.run, call.record.instance))
            {
                seqs.push(row.seq);
            }
            Ok(())
        })?;
        for ((_, instance), calls) in instances {
            self.instance(instance, &calls, &mut |replayed: Replayed| {
                if seqs.contains(&replayed.seq) {
                    tell(replayed);
                }
            })?;
        }
        Ok(())
    }

    /// Replays one instance.
    fn instance(
        &mut self,
        number: u64,
        calls: &[u64],
        tell: &mut dyn FnMut(Replayed),
    ) -> Result<(), ReplayError> {
        let mut running: Running<'_> = Running::NotYet;
        let Some(first) = calls
            .first()
            .map(|seq| self.read(*seq))
            .transpose()?
            .flatten()
        else {
            return Ok(());
        };
        self.load(&first.2)?;
        let Some((facts, replay)) = self.modules.get(&first.2.facts).and_then(Option::as_ref)
        else {
            for seq in calls {
                if let Some((seq, _, call)) = self.read(*seq)? {
                    let was = outcome(&call.record.end).into_owned();
                    let why = ReplayResult::Not("what its module was is not kept any more");
                    tell(Replayed {
                        seq,
                        module: String::new(),
                        was,
                        outcome: why,
                    });
                }
            }
            return Ok(());
        };
        let is_itself = self.instead.is_none();
        for seq in calls {
            let Some((seq, at, call)) = self.read(*seq)? else {
                continue;
            };
            let record = &call.record;
            let outcome_was = outcome(&record.end).into_owned();
            let done = if number == 0 {
                ReplayResult::Not("nothing was called")
            } else {
                let is_whole = call.handshake.as_ref().is_none_or(HandshakeFacts::is_whole);
                if is_whole {
                    running.step(replay, record, at, is_itself)?
                } else {
                    running.skip()
                }
            };
            tell(Replayed {
                seq,
                module: facts.name.clone(),
                was: outcome_was,
                outcome: done,
            });
        }
        Ok(())
    }

    fn read(&self, seq: u64) -> Result<Option<(u64, u64, CallEntry)>, ReplayError> {
        let Some(row) = self.source.row(seq)? else {
            return Ok(None);
        };
        Ok(call_of(&row)?.map(|call| (row.seq, row.at, call)))
    }

    /// Loads the module of a call, unless it is there or cannot be had.
    fn load(&mut self, call: &CallEntry) -> Result<(), ReplayError> {
        if self.modules.contains_key(&call.facts) {
            return Ok(());
        }
        let facts = self.source.facts(call)?;
        let component = match (&self.instead, &facts) {
            (Some(instead), _) => Some(instead.clone()),
            (None, Some(facts)) => self.source.blob(&facts.digest)?,
            (None, None) => None,
        };
        let loaded = match (facts, component) {
            (Some(facts), Some(component)) => {
                let replay = Replay::load(
                    &self.engine,
                    &facts.name,
                    &component,
                    &facts.grants,
                    facts.limits,
                )?;
                Some((facts, replay))
            }
            _ => None,
        };
        self.modules.insert(call.facts, loaded);
        Ok(())
    }
}

/// An instance on its way through its calls.
enum Running<'a> {
    NotYet,
    /// With the number of its next call.
    Yes(Box<ReplayInstance<'a>>, Trust, u64),
    No(&'static str),
}

/// Whether an instance knows what it knew.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    Full,
    /// It may have been handed a secret or a handshake, which nobody has any more.
    Blinded,
}

const FROM_THE_FIRST: &str = "the first call of its instance is not kept any more";
const BLINDED: &str = "its instance was handed a secret or a handshake, which is not kept";
const HANDSHAKE: &str = "what a handshake says is not kept";
const GONE: &str = "its instance did not come so far now";

impl<'a> Running<'a> {
    fn step(
        &mut self,
        replay: &'a Replay,
        record: &CallRecord,
        at: u64,
        is_itself: bool,
    ) -> Result<ReplayResult, ReplayError> {
        if matches!(self, Running::NotYet) {
            if record.number > 0 {
                *self = Running::No(FROM_THE_FIRST);
                return Ok(ReplayResult::Not(FROM_THE_FIRST));
            }
            let (again, instance) = replay.start(record, at);
            *self = instance.map_or(Running::No(GONE), |instance| {
                Running::Yes(Box::new(instance), Trust::Full, 1)
            });
            return self.compared(record, again, is_itself);
        }
        match std::mem::replace(self, Running::No(GONE)) {
            Running::Yes(instance, trust, _)
                if matches!(record.subject, peal_sandbox::CallSubject::None) =>
            {
                let again = instance.stop(record, at);
                let compared = self.compared(record, again, is_itself)?;
                Ok(
                    if trust == Trust::Blinded && compared != ReplayResult::Same {
                        ReplayResult::Not(BLINDED)
                    } else {
                        compared
                    },
                )
            }
            Running::Yes(mut instance, trust, next) => {
                let again = instance.call(record, at);
                let is_blinded = record.number > next || has_secret(record)?;
                let trust = if is_blinded { Trust::Blinded } else { trust };
                let compared = self.compared(record, again, is_itself)?;
                if !matches!(record.end, CallEnd::Failed(_)) {
                    *self = Running::Yes(instance, trust, record.number + 1);
                }
                Ok(
                    if trust == Trust::Blinded && compared != ReplayResult::Same {
                        ReplayResult::Not(BLINDED)
                    } else {
                        compared
                    },
                )
            }
            Running::No(why) => {
                *self = Running::No(why);
                Ok(ReplayResult::Not(why))
            }
            Running::NotYet => Ok(ReplayResult::Not(GONE)),
        }
    }

    /// Leaves out a call that was handed what is not kept.
    fn skip(&mut self) -> ReplayResult {
        if let Running::Yes(_, trust, next) = self {
            (*trust, *next) = (Trust::Blinded, *next + 1);
        }
        ReplayResult::Not(HANDSHAKE)
    }

    fn compared(
        &self,
        was: &CallRecord,
        is: Option<CallRecord>,
        is_itself: bool,
    ) -> Result<ReplayResult, ReplayError> {
        let Some(is) = is else {
            return Ok(ReplayResult::Not("this component has no such role"));
        };
        let differences = if is_itself {
            all_differences(was, &is)?
        } else {
            outcome_differences(was, &is)?
        };
        Ok(if differences.is_empty() {
            ReplayResult::Same
        } else {
            ReplayResult::Differs(differences)
        })
    }
}

/// Whether what is secret was taken out of a record.
fn has_secret(record: &CallRecord) -> Result<bool, ReplayError> {
    let bytes = to_cbor(record)?;
    Ok(bytes
        .windows(MARK.len())
        .any(|window| window == MARK.as_bytes()))
}

/// In what its end differs.
fn outcome_differences(
    was: &CallRecord,
    is: &CallRecord,
) -> Result<Vec<ReplayDifference>, ReplayError> {
    let (before, now) = (outcome(&was.end), outcome(&is.end));
    if same_end(was, is)? {
        return Ok(Vec::new());
    }
    Ok(vec![if before == now {
        ReplayDifference::Output
    } else {
        ReplayDifference::End {
            was: before.into_owned(),
            is: now.into_owned(),
        }
    }])
}

/// In what it differs at all: bit for bit.
fn all_differences(
    was: &CallRecord,
    is: &CallRecord,
) -> Result<Vec<ReplayDifference>, ReplayError> {
    let mut differences = outcome_differences(was, is)?;
    let calls = was.host_calls.len().max(is.host_calls.len());
    for at in 0..calls {
        let (before, now) = (was.host_calls.get(at), is.host_calls.get(at));
        if !same(&before, &now)? {
            let shown = |call: Option<&HostCall>| call.map(|call| call.ask.name().to_owned());
            differences.push(ReplayDifference::HostCall {
                number: at + 1,
                was: shown(before),
                is: shown(now),
            });
            break;
        }
    }
    // Where a clock ended it, the last stretch was not counted.
    if !was_timed_out(was) {
        let mut used = |what, was: u64, is: u64| {
            if was != is {
                differences.push(ReplayDifference::Usage { what, was, is });
            }
        };
        used(
            "fuel",
            was.usage.fuel.unwrap_or_default(),
            is.usage.fuel.unwrap_or_default(),
        );
        used(
            "host calls",
            was.usage.host_calls.into(),
            is.usage.host_calls.into(),
        );
        used("output", was.usage.output as u64, is.usage.output as u64);
        used("memory", was.memory, is.memory);
    }
    Ok(differences)
}

fn was_timed_out(was: &CallRecord) -> bool {
    matches!(&was.end, CallEnd::Failed(failure) if matches!(failure.limit, Some(LimitKind::CallTime | LimitKind::HostTime)))
}

/// Whether both ended in the same way: what a clock ended then, fuel ends now.
fn same_end(was: &CallRecord, is: &CallRecord) -> Result<bool, ReplayError> {
    match (&was.end, &is.end) {
        (CallEnd::Failed(before), CallEnd::Failed(now)) => Ok(match (before.limit, now.limit) {
            (Some(LimitKind::CallTime), Some(LimitKind::Fuel | LimitKind::CallTime)) => true,
            (Some(LimitKind::HostTime), limit) => limit == Some(LimitKind::HostTime),
            _ => {
                before.kind == now.kind && before.limit == now.limit && before.reason == now.reason
            }
        }),
        (before, now) => same(before, now),
    }
}

/// As they would be written: NaN is the NaN that it is.
fn same<T: Serialize>(one: &T, other: &T) -> Result<bool, ReplayError> {
    Ok(to_cbor(one)? == to_cbor(other)?)
}
