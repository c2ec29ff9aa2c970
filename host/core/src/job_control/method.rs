//! Declarations of procs: their checkpoint methods, and whether they are preemptible.
use super::JobControlError;
use peal_model::{Info, Nspace, Proc, Rank, Status, Value, code, key};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, ops::RangeInclusive};

/// Maximum number of methods that one proc declares.
const MAX_METHODS: usize = 16;

/// Numbers of the signals of Linux, with those for real time.
const SIGNALS: RangeInclusive<u8> = 1..=64;

/// The way in which a checkpoint is requested from a proc.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum CheckpointMethod {
    /// An event with this code (`PMIX_JOB_CTRL_CHECKPOINT_EVENT`).
    Event(Status),
    /// A signal with this number (`PMIX_JOB_CTRL_CHECKPOINT_SIGNAL`).
    Signal(u8),
}

/// Returns true if a proc can declare these methods.
pub(crate) fn methods_are_valid(methods: &[CheckpointMethod]) -> bool {
    (1..=MAX_METHODS).contains(&methods.len()) && methods.iter().all(CheckpointMethod::is_valid)
}

impl CheckpointMethod {
    /// Returns the info that declares the method.
    pub(crate) fn info(&self) -> Info {
        match self {
            CheckpointMethod::Event(code) => {
                Info::new(key::PMIX_JOB_CTRL_CHECKPOINT_EVENT, Value::Status(*code))
            }
            CheckpointMethod::Signal(number) => Info::new(
                key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL,
                Value::Int(i32::from(*number)),
            ),
        }
    }

    /// Returns true if a proc can declare the method.
    pub(crate) fn is_valid(&self) -> bool {
        match self {
            CheckpointMethod::Event(code) => code.0 < 0,
            CheckpointMethod::Signal(number) => SIGNALS.contains(number),
        }
    }
}

impl fmt::Display for CheckpointMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckpointMethod::Event(code) => write!(f, "event {code}"),
            CheckpointMethod::Signal(number) => write!(f, "signal {number}"),
        }
    }
}

/// A declaration of a proc (`PMIX_JOB_CTRL_PREEMPTIBLE`, `PMIX_JOB_CTRL_CHECKPOINT_METHOD`). Parts
/// that it leaves out stay as they were.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Declaration {
    /// True if the proc may be preempted.
    pub preemptible: Option<bool>,
    /// The checkpoint methods. The first one that is possible is used.
    pub methods: Option<Vec<CheckpointMethod>>,
}

impl Declaration {
    /// Returns true if a proc can declare this.
    pub(crate) fn is_valid(&self) -> bool {
        let methods = self.methods.as_deref();
        methods.is_none_or(methods_are_valid)
    }

    /// Returns true if nothing is declared.
    pub fn is_empty(&self) -> bool {
        *self == Declaration::default()
    }
}

/// All declarations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Declared(BTreeMap<Nspace, BTreeMap<Rank, Declaration>>);

impl Declared {
    /// Adds the declaration of a proc.
    pub(crate) fn declare(&mut self, proc: &Proc, declaration: Declaration) {
        let declared = self
            .0
            .entry(proc.nspace.clone())
            .or_default()
            .entry(proc.rank)
            .or_default();
        declared.preemptible = declaration.preemptible.or(declared.preemptible);
        declared.methods = declaration.methods.or(declared.methods.take());
    }

    /// Adds all declarations of others.
    pub(crate) fn add_all(&mut self, others: &Declared) {
        for (nspace, job) in &others.0 {
            for (rank, declaration) in job {
                let proc = Proc::new(nspace.clone(), *rank);
                self.declare(&proc, declaration.clone());
            }
        }
    }

    /// Returns the declarations of a job's procs.
    pub(crate) fn of_job(&self, nspace: &Nspace) -> impl Iterator<Item = (Rank, &Declaration)> {
        let job = self.0.get(nspace).into_iter().flatten();
        job.map(|(rank, declaration)| (*rank, declaration))
    }

    /// Removes the declaration of a proc.
    pub(crate) fn drop_proc(&mut self, proc: &Proc) {
        self.0
            .get_mut(&proc.nspace)
            .and_then(|job| job.remove(&proc.rank));
    }

    /// Removes the declarations of a job's procs.
    pub(crate) fn drop_job(&mut self, nspace: &Nspace) {
        self.0.remove(nspace);
    }

    /// Returns what holds for a proc of a job that has declared nothing: often one rank declares for
    /// all, so it is the declaration of the lowest rank that has made one, for each part.
    fn default_of(&self, nspace: &Nspace) -> Declaration {
        let declarations = || self.0.get(nspace).into_iter().flat_map(BTreeMap::values);
        Declaration {
            preemptible: declarations().find_map(|declared| declared.preemptible),
            methods: declarations().find_map(|declared| declared.methods.clone()),
        }
    }

    /// Returns what holds for each of these procs: its own declaration, or else that of its job.
    pub(crate) fn of<'a>(
        &self,
        procs: impl IntoIterator<Item = &'a Proc>,
    ) -> BTreeMap<Proc, Declaration> {
        let mut defaults: BTreeMap<&Nspace, Declaration> = BTreeMap::new();
        let mut found = BTreeMap::new();
        for proc in procs {
            let default = defaults
                .entry(&proc.nspace)
                .or_insert_with(|| self.default_of(&proc.nspace));
            let own = self.0.get(&proc.nspace).and_then(|job| job.get(&proc.rank));
            let own = own.cloned().unwrap_or_default();
            let declared = Declaration {
                preemptible: own.preemptible.or(default.preemptible),
                methods: own.methods.or_else(|| default.methods.clone()),
            };
            found.insert(proc.clone(), declared);
        }
        found
    }
}

/// Parses the methods of a `PMIX_JOB_CTRL_CHECKPOINT_METHOD`: an array of infos, each a method and
/// its value. The key that releases use for two directives (`pmix.jctrl.ckptsig`) can only be a
/// signal here.
pub(super) fn methods(value: &Value) -> Result<Vec<CheckpointMethod>, JobControlError> {
    let wrong = || JobControlError::BadDirective {
        key: key::PMIX_JOB_CTRL_CHECKPOINT_METHOD.0,
        expected: "an array of 1 to 16 infos, each pmix.jctrl.ckptev or pmix.jctrl.ckptsig",
    };
    let Value::DataArray(array) = value else {
        return Err(wrong());
    };
    let infos = array.as_infos().ok_or_else(wrong)?;
    if infos.is_empty() || infos.len() > MAX_METHODS {
        return Err(wrong());
    }
    infos
        .into_iter()
        .map(method)
        .collect::<Result<Option<Vec<CheckpointMethod>>, _>>()?
        .ok_or_else(wrong)
}

fn method(info: &Info) -> Result<Option<CheckpointMethod>, JobControlError> {
    if info.key == key::PMIX_JOB_CTRL_CHECKPOINT_EVENT {
        event(&info.value).map(Some)
    } else if info.key == key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL {
        Ok(Some(CheckpointMethod::Signal(signal(
            &info.value,
            key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL.0,
        )?)))
    } else {
        Ok(None)
    }
}

/// Parses an event method: its code or, in later releases, a boolean.
pub(super) fn event(value: &Value) -> Result<CheckpointMethod, JobControlError> {
    match value {
        // An info without a value is true, as the Standard's macros read it.
        Value::Bool(true) | Value::Undef => {
            Ok(CheckpointMethod::Event(code::PMIX_JCTRL_CHECKPOINT))
        }
        number => match number.as_status().filter(|code| code.0 < 0) {
            Some(code) => Ok(CheckpointMethod::Event(code)),
            None => Err(JobControlError::BadDirective {
                key: key::PMIX_JOB_CTRL_CHECKPOINT_EVENT.0,
                expected: "the code of an event, a PMIX_STATUS below 0, or true for PMIX_JCTRL_CHECKPOINT",
            }),
        },
    }
}

/// Parses the number of a signal. A boolean is rejected, although it could be converted, because it
/// does not mean SIGHUP.
pub(super) fn signal(value: &Value, key: &'static str) -> Result<u8, JobControlError> {
    let number = value.as_u64().filter(|_| !matches!(value, Value::Bool(_)));
    let number = number
        .and_then(|number| u8::try_from(number).ok())
        .filter(|number| SIGNALS.contains(number));
    number.ok_or(JobControlError::BadDirective {
        key,
        expected: "the number of a signal, a PMIX_INT from 1 to 64",
    })
}
