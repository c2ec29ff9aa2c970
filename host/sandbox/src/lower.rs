//! Conversion of values from the host's form to the contract's, in which nested arrays lie flat
//! beside the infos.
use crate::bindings::{exports::peal::pmix::spawn_policy, peal::pmix::types as wit};
use crate::call_data::{InfoList, OpaqueTable, ValuePath};
use peal_model::{
    Application, ChainResult, DataArray, Info, InfoFlags, Proc, Range, UserIdentity, Value, number,
};

impl From<Range> for wit::Range {
    fn from(range: Range) -> wit::Range {
        match range {
            Range::Undef => wit::Range::Undef,
            Range::Rm => wit::Range::Rm,
            Range::Local => wit::Range::Local,
            Range::Namespace => wit::Range::Namespace,
            Range::Session => wit::Range::Session,
            Range::Global => wit::Range::Global,
            Range::Custom => wit::Range::Custom,
            Range::ProcLocal => wit::Range::ProcLocal,
        }
    }
}

impl From<&Application> for spawn_policy::Application {
    fn from(application: &Application) -> spawn_policy::Application {
        let Application {
            command,
            arguments,
            environment,
            directory,
            procs,
            directives,
        } = application.clone();
        let directives = u32::try_from(directives).unwrap_or(u32::MAX);
        spawn_policy::Application {
            command,
            arguments,
            environment,
            directory,
            procs,
            directives,
        }
    }
}

/// Info flags that the contract has. Guests do not see other flags.
pub(crate) const FLAGS: [(u64, wit::InfoFlags); 5] = [
    (number::PMIX_INFO_REQD, wit::InfoFlags::REQUIRED),
    (number::PMIX_INFO_ARRAY_END, wit::InfoFlags::ARRAY_END),
    (
        number::PMIX_INFO_REQD_PROCESSED,
        wit::InfoFlags::REQUIRED_PROCESSED,
    ),
    (number::PMIX_INFO_QUALIFIER, wit::InfoFlags::QUALIFIER),
    (number::PMIX_INFO_PERSISTENT, wit::InfoFlags::PERSISTENT),
];

fn lower_flags(flags: InfoFlags) -> wit::InfoFlags {
    let set = FLAGS
        .into_iter()
        .filter(|(bit, _)| u64::from(flags.0) & bit != 0);
    set.fold(wit::InfoFlags::empty(), |flags, (_, flag)| flags | flag)
}

pub(crate) fn lower_proc(proc: &Proc) -> wit::Proc {
    wit::Proc {
        nspace: proc.nspace.as_str().to_owned(),
        rank: proc.rank.0,
    }
}

pub(crate) fn lower_identity(identity: UserIdentity) -> wit::UserIdentity {
    wit::UserIdentity {
        uid: identity.uid,
        gid: identity.gid,
    }
}

/// Lowers infos, settings or directives.
pub(crate) fn lower_content(
    opaques: &mut OpaqueTable,
    list: InfoList,
    infos: &[Info],
) -> wit::FlatInfos {
    let mut lower = Lower::new(
        opaques,
        ValuePath {
            list,
            path: Vec::new(),
        },
    );
    wit::FlatInfos {
        infos: lower.infos(infos),
        arrays: lower.arrays,
    }
}

/// Lowers the value of an info at a position.
pub(crate) fn lower_found(
    opaques: &mut OpaqueTable,
    value: &Value,
    place: ValuePath,
) -> wit::FlatValue {
    let mut lower = Lower::new(opaques, place);
    wit::FlatValue {
        value: lower.value(value),
        arrays: lower.arrays,
    }
}

/// Lowers chain results.
pub(crate) fn lower_steps(opaques: &mut OpaqueTable, steps: &[ChainResult]) -> wit::ChainResults {
    let mut lower = Lower::new(
        opaques,
        ValuePath {
            list: InfoList::Step(0),
            path: Vec::new(),
        },
    );
    let steps = steps.iter().enumerate().map(|(at, step)| {
        // The position of a value begins with its step.
        lower.place.list = InfoList::Step(at);
        wit::ChainResult {
            name: step.name.to_string(),
            status: step.status.0,
            infos: lower.infos(&step.infos),
        }
    });
    wit::ChainResults {
        results: steps.collect(),
        arrays: lower.arrays,
    }
}

/// Walker of values that collects their arrays, the inner before the outer.
struct Lower<'a> {
    opaques: &'a mut OpaqueTable,
    /// Current position.
    place: ValuePath,
    arrays: Vec<wit::Array>,
}

impl Lower<'_> {
    fn new(opaques: &mut OpaqueTable, place: ValuePath) -> Lower<'_> {
        Lower {
            opaques,
            place,
            arrays: Vec::new(),
        }
    }

    /// Runs `work` one level further down.
    fn at<R>(&mut self, at: usize, work: impl FnOnce(&mut Self) -> R) -> R {
        self.place.path.push(at);
        let done = work(self);
        self.place.path.pop();
        done
    }

    fn infos<'i>(&mut self, infos: impl IntoIterator<Item = &'i Info>) -> Vec<wit::Info> {
        infos
            .into_iter()
            .enumerate()
            .map(|(at, info)| self.at(at, |lower| lower.info(info)))
            .collect()
    }

    fn info(&mut self, info: &Info) -> wit::Info {
        wit::Info {
            key: info.key.as_str().to_owned(),
            flags: lower_flags(info.flags),
            value: self.value(&info.value),
        }
    }

    fn value(&mut self, value: &Value) -> wit::Value {
        match value {
            Value::Undef | Value::String(None) => wit::Value::Undef,
            Value::Bool(truth) => wit::Value::Boolean(*truth),
            Value::Byte(n) => wit::Value::Byte(*n),
            Value::String(Some(text)) => match text.as_str() {
                Some(text) => wit::Value::Text(text.to_owned()),
                // Strings of the contract are UTF-8; text of a PMIx client need not be.
                None => self.opaque(value),
            },
            Value::Size(n) => wit::Value::Size(*n),
            Value::Pid(n) => wit::Value::Pid(*n),
            Value::Int(n) => wit::Value::Int(*n),
            Value::Int8(n) => wit::Value::Int8(*n),
            Value::Int16(n) => wit::Value::Int16(*n),
            Value::Int32(n) => wit::Value::Int32(*n),
            Value::Int64(n) => wit::Value::Int64(*n),
            Value::Uint(n) => wit::Value::Uint(*n),
            Value::Uint8(n) => wit::Value::Uint8(*n),
            Value::Uint16(n) => wit::Value::Uint16(*n),
            Value::Uint32(n) => wit::Value::Uint32(*n),
            Value::Uint64(n) => wit::Value::Uint64(*n),
            Value::Float(n) => wit::Value::Float32(*n),
            Value::Double(n) => wit::Value::Float64(*n),
            Value::Timeval {
                seconds,
                microseconds,
            } => wit::Value::Timeval((*seconds, *microseconds)),
            Value::Time(seconds) => wit::Value::Time(*seconds),
            Value::Status(status) => wit::Value::Status(status.0),
            Value::Proc(proc) => wit::Value::Proc(lower_proc(proc)),
            Value::Nspace(nspace) => wit::Value::Nspace(nspace.as_str().to_owned()),
            Value::Rank(rank) => wit::Value::Rank(rank.0),
            Value::Range(range) => wit::Value::Range((*range).into()),
            Value::ByteObject(bytes) => wit::Value::Bytes(bytes.as_slice().to_owned()),
            Value::DataArray(array) => wit::Value::Array(self.array(array)),
            other => self.opaque(other),
        }
    }

    fn opaque(&mut self, value: &Value) -> wit::Value {
        wit::Value::Other(wit::Opaque {
            data_type: value.data_type().0,
            handle: self.opaques.number(&self.place),
        })
    }

    fn array(&mut self, array: &DataArray) -> wit::ArrayRef {
        let items = self.items(array);
        self.arrays.push(wit::Array {
            element: array.element().0,
            items,
        });
        u32::try_from(self.arrays.len() - 1).unwrap_or(u32::MAX)
    }

    fn items(&mut self, array: &DataArray) -> wit::ArrayItems {
        if let Some(procs) = array.as_procs() {
            return wit::ArrayItems::Procs(procs.iter().map(lower_proc).collect());
        }
        if let Some(infos) = array.as_infos() {
            return wit::ArrayItems::Infos(self.infos(infos));
        }
        let values = array.items().iter().enumerate();
        wit::ArrayItems::Values(
            values
                .map(|(at, value)| self.at(at, |lower| lower.value(value)))
                .collect(),
        )
    }
}
