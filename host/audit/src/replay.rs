//! Replay: repeats recorded calls with the same component, or with another one, and reports
//! differences. An instance is replayed from its first call, since it keeps memory between calls.
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

/// Error of a replay.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The records could not be read.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// A component could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl From<EntryError> for ReplayError {
    fn from(error: EntryError) -> ReplayError {
        ReplayError::Audit(error.into())
    }
}

/// The result for one call.
#[derive(Clone, PartialEq, Debug)]
pub struct Replayed {
    /// The number of the record.
    pub seq: u64,
    /// The name of the module.
    pub module: String,
    /// The recorded outcome.
    pub was: String,
    /// The result of the replay.
    pub outcome: ReplayResult,
}

/// Result of the replay of a call.
#[derive(Clone, PartialEq, Debug)]
pub enum ReplayResult {
    /// The call ended as recorded.
    Same,
    /// The call differed.
    Differs(Vec<ReplayDifference>),
    /// The call could not be replayed, for this reason.
    Not(&'static str),
}

/// Difference between a recorded call and its replay.
#[derive(Clone, PartialEq, Debug)]
pub enum ReplayDifference {
    /// The call ended in another way.
    End {
        /// The recorded end.
        was: String,
        /// The present end.
        is: String,
    },
    /// The call ended in the same way and returned other results.
    Output,
    /// The call made other host calls.
    HostCall {
        /// The number of the first host call that differs, from 1.
        number: usize,
        /// The recorded host call, if there was one.
        was: Option<String>,
        /// The present host call, if there is one.
        is: Option<String>,
    },
    /// The call used more or less of a resource.
    Usage {
        /// The resource.
        resource: &'static str,
        /// The recorded amount.
        was: u64,
        /// The present amount.
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
            ReplayDifference::Usage { resource, was, is } => write!(f, "{resource}: {was} -> {is}"),
        }
    }
}

/// Replays the calls of a source.
pub struct Replayer<'a> {
    source: &'a TrailSource,
    engine: Engine,
    /// The component that replaces each module's own, if any.
    instead: Option<Vec<u8>>,
    /// Loaded modules by the digests of their facts.
    modules: BTreeMap<Digest, Option<(ModuleFacts, Replay)>>,
}

/// The numbers of the records of one instance's calls.
type Calls = Vec<u64>;

impl<'a> Replayer<'a> {
    /// Creates a replayer that calls the recorded components, or `instead` in place of each.
    ///
    /// The engine has to count fuel for all calls.
    pub fn new(source: &'a TrailSource, engine: Engine, instead: Option<Vec<u8>>) -> Replayer<'a> {
        Replayer {
            source,
            engine,
            instead,
            modules: BTreeMap::new(),
        }
    }

    /// Replays the calls that match `filter`, instance by instance, and passes each result to
    /// `report`.
    pub fn replay(
        &mut self,
        filter: &Filter,
        mut report: impl FnMut(Replayed),
    ) -> Result<(), ReplayError> {
        let wanted = Filter {
            kinds: vec![kind::CALL.to_owned()],
            ..filter.clone()
        };
        // Collect the instances first: their earlier calls may lie outside of the filter.
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
                    report(replayed);
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
        report: &mut dyn FnMut(Replayed),
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
            // Each call is reported, so that none of the selected ones is left out silently.
            for seq in calls {
                if let Some((seq, _, call)) = self.read(*seq)? {
                    let was = outcome(&call.record.end).into_owned();
                    let why = ReplayResult::Not("the facts of its module are not kept any more");
                    report(Replayed {
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
            // Instance 0 stands for a call that was not made.
            let done = if number == 0 {
                ReplayResult::Not("no instance was called")
            } else {
                let is_whole = call.handshake.as_ref().is_none_or(HandshakeFacts::is_whole);
                if is_whole {
                    running.step(replay, record, at, is_itself)?
                } else {
                    running.skip()
                }
            };
            report(Replayed {
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

    /// Loads the module of a call, unless it is loaded or missing.
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
            // Remembered as missing, so that the source is not asked again for each call.
            _ => None,
        };
        self.modules.insert(call.facts, loaded);
        Ok(())
    }
}

/// State of an instance during its replay.
enum Running<'a> {
    NotYet,
    /// The instance and the number of its next call.
    Yes(Box<ReplayInstance<'a>>, Trust, u64),
    No(&'static str),
}

/// Completeness of the data that an instance received.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    Full,
    /// The instance may have received a secret or a handshake that is not kept.
    Blinded,
}

const FROM_THE_FIRST: &str = "the first call of its instance is not kept any more";
const BLINDED: &str = "its instance received a secret or a handshake, which is not kept";
const HANDSHAKE: &str = "the content of a handshake is not kept";
const GONE: &str = "its instance ended earlier in the replay";

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
                // Without some of its input an instance may differ for good reason, so only
                // equality counts.
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
                // A gap in the numbers is a call that is not recorded, so its input is unknown
                // here.
                let is_blinded = record.number > next || has_secret(record)?;
                let trust = if is_blinded { Trust::Blinded } else { trust };
                let compared = self.compared(record, again, is_itself)?;
                // A failed call ends its instance, in the server and here.
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

    /// Skips a call whose input is not kept.
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
        // Another component may reach the same result by other host calls and with other usage.
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

/// Returns true if a secret was removed from the record.
fn has_secret(record: &CallRecord) -> Result<bool, ReplayError> {
    let bytes = to_cbor(record)?;
    Ok(bytes
        .windows(MARK.len())
        .any(|window| window == MARK.as_bytes()))
}

/// Returns the difference of the ends, if any.
fn outcome_differences(
    was: &CallRecord,
    is: &CallRecord,
) -> Result<Vec<ReplayDifference>, ReplayError> {
    let before = outcome(&was.end);
    let now = outcome(&is.end);
    // Ends are compared in full: the outcome is only their summary.
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

/// Returns all differences, bit for bit.
fn all_differences(
    was: &CallRecord,
    is: &CallRecord,
) -> Result<Vec<ReplayDifference>, ReplayError> {
    let mut differences = outcome_differences(was, is)?;
    let calls = was.host_calls.len().max(is.host_calls.len());
    for at in 0..calls {
        let before = was.host_calls.get(at);
        let now = is.host_calls.get(at);
        if !same(&before, &now)? {
            let shown = |call: Option<&HostCall>| call.map(|call| call.request.name().to_owned());
            differences.push(ReplayDifference::HostCall {
                number: at + 1,
                was: shown(before),
                is: shown(now),
            });
            // One difference shifts all host calls after it, so only the first is reported.
            break;
        }
    }
    // A call ended by a clock was interrupted after the last count, so its usage cannot be
    // compared.
    if !was_timed_out(was) {
        let mut used = |resource, was: u64, is: u64| {
            if was != is {
                differences.push(ReplayDifference::Usage { resource, was, is });
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
    matches!(&was.end, CallEnd::Failed(failure) if matches!(failure.limit, Some(LimitKind::CallTime | LimitKind::HostCallTime)))
}

/// Returns true if both ended in the same way. A call that a clock ended may be ended by fuel in
/// the replay.
fn same_end(was: &CallRecord, is: &CallRecord) -> Result<bool, ReplayError> {
    match (&was.end, &is.end) {
        (CallEnd::Failed(before), CallEnd::Failed(now)) => Ok(match (before.limit, now.limit) {
            (Some(LimitKind::CallTime), Some(LimitKind::Fuel | LimitKind::CallTime)) => true,
            (Some(LimitKind::HostCallTime), limit) => limit == Some(LimitKind::HostCallTime),
            _ => {
                before.kind == now.kind && before.limit == now.limit && before.reason == now.reason
            }
        }),
        (before, now) => same(before, now),
    }
}

/// Compares values in their serialized form, in which NaN equals itself.
fn same<T: Serialize>(one: &T, other: &T) -> Result<bool, ReplayError> {
    Ok(to_cbor(one)? == to_cbor(other)?)
}
