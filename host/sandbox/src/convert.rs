//! Values between the host's vocabulary and the contract's. Lowering goes to the guest, raising comes from it; both are
//! shallow, for nested arrays travel as numbers.
use crate::bindings::peal::pmix::types as wit;
use crate::data::{Data, Numbers, Place};
use crate::meter::{Meter, Stop};
use peal_model::{
    DataArray, DataType, Info, InfoFlags, Key, Nspace, Proc, Range, Rank, Size, Status, Step, Text, Value,
    data_type as dt, number,
};

/// How deeply a guest may nest what it pushes. The wire carries sixteen levels, and what is pushed may be put into an info
/// in an array.
const MAX_DEPTH: usize = 12;

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

impl From<wit::Range> for Range {
    fn from(range: wit::Range) -> Range {
        match range {
            wit::Range::Undef => Range::Undef,
            wit::Range::Rm => Range::Rm,
            wit::Range::Local => Range::Local,
            wit::Range::Namespace => Range::Namespace,
            wit::Range::Session => Range::Session,
            wit::Range::Global => Range::Global,
            wit::Range::Custom => Range::Custom,
            wit::Range::ProcLocal => Range::ProcLocal,
        }
    }
}

/// The flags that both sides know. Others that an info carries are not shown to guests.
const FLAGS: [(u64, wit::InfoFlags); 5] = [
    (number::PMIX_INFO_REQD, wit::InfoFlags::REQUIRED),
    (number::PMIX_INFO_ARRAY_END, wit::InfoFlags::ARRAY_END),
    (number::PMIX_INFO_REQD_PROCESSED, wit::InfoFlags::REQUIRED_PROCESSED),
    (number::PMIX_INFO_QUALIFIER, wit::InfoFlags::QUALIFIER),
    (number::PMIX_INFO_PERSISTENT, wit::InfoFlags::PERSISTENT),
];

fn lower_flags(flags: InfoFlags) -> wit::InfoFlags {
    let set = FLAGS.into_iter().filter(|(bit, _)| u64::from(flags.0) & bit != 0);
    set.fold(wit::InfoFlags::empty(), |flags, (_, flag)| flags | flag)
}

fn raise_flags(flags: wit::InfoFlags) -> InfoFlags {
    let set = FLAGS.into_iter().filter(|(_, flag)| flags.contains(*flag));
    InfoFlags(set.fold(0, |flags, (bit, _)| flags | bit as u32))
}

pub(crate) fn lower_proc(proc: &Proc) -> wit::Proc {
    wit::Proc { nspace: proc.nspace.as_str().to_owned(), rank: proc.rank.0 }
}

fn raise_proc(proc: &wit::Proc) -> Result<Proc, Stop> {
    Ok(Proc::new(Nspace::new(&proc.nspace)?, Rank(proc.rank)))
}

/// A value as the guest sees it; where it lies is the number of what cannot be shown at once.
pub(crate) fn lower_value(numbers: &mut Numbers, value: &Value, place: Place) -> wit::Value {
    match value {
        Value::Undef | Value::String(None) => wit::Value::Undef,
        Value::Bool(truth) => wit::Value::Boolean(*truth),
        Value::Byte(n) => wit::Value::Byte(*n),
        Value::String(Some(text)) => wit::Value::Text(text.to_string_lossy().into_owned()),
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
        Value::Timeval { seconds, microseconds } => wit::Value::Timeval((*seconds, *microseconds)),
        Value::Time(seconds) => wit::Value::Time(*seconds),
        Value::Status(status) => wit::Value::Status(status.0),
        Value::Proc(proc) => wit::Value::Proc(lower_proc(proc)),
        Value::Nspace(nspace) => wit::Value::Nspace(nspace.as_str().to_owned()),
        Value::Rank(rank) => wit::Value::Rank(rank.0),
        Value::Range(range) => wit::Value::Range((*range).into()),
        Value::ByteObject(bytes) => wit::Value::Bytes(bytes.as_slice().to_owned()),
        Value::DataArray(_) => wit::Value::Array(numbers.number(place)),
        other => wit::Value::Other(wit::Opaque { data_type: other.data_type().0, at: numbers.number(place) }),
    }
}

pub(crate) fn lower_info(numbers: &mut Numbers, info: &Info, place: Place) -> wit::Info {
    wit::Info {
        key: info.key.as_str().to_owned(),
        flags: lower_flags(info.flags),
        value: lower_value(numbers, &info.value, place),
    }
}

/// The infos of a list whose elements lie where `place` says.
pub(crate) fn lower_infos<'a>(
    numbers: &mut Numbers,
    infos: impl IntoIterator<Item = &'a Info>,
    place: impl Fn(usize) -> Place,
) -> Vec<wit::Info> {
    infos.into_iter().enumerate().map(|(at, info)| lower_info(numbers, info, place(at))).collect()
}

pub(crate) fn lower_step(numbers: &mut Numbers, step: &Step, at: usize) -> wit::Step {
    wit::Step {
        name: step.name.clone(),
        status: step.status.0,
        infos: lower_infos(numbers, &step.infos, |info| Place::Step { step: at, info }),
    }
}

/// The elements of the array that has this number.
pub(crate) fn lower_array(numbers: &mut Numbers, array: &DataArray, number: u32) -> wit::Array {
    let within = |at| Place::Within { array: number, at };
    if let Some(procs) = array.as_procs() {
        return wit::Array::Procs(procs.iter().map(lower_proc).collect());
    }
    if let Some(infos) = array.as_infos() {
        return wit::Array::Infos(lower_infos(numbers, infos, within));
    }
    let values = array.items().iter().enumerate();
    wit::Array::Values(values.map(|(at, value)| lower_value(numbers, value, within(at))).collect())
}

/// Raises what a guest pushes, at its cost.
pub(crate) struct Raise<'a> {
    pub(crate) data: &'a Data,
    pub(crate) numbers: &'a Numbers,
    pub(crate) meter: &'a mut Meter,
}

impl Raise<'_> {
    pub(crate) fn infos(&mut self, infos: Vec<wit::Info>) -> Result<Vec<Info>, Stop> {
        infos.into_iter().map(|info| self.info(info)).collect()
    }

    pub(crate) fn info(&mut self, info: wit::Info) -> Result<Info, Stop> {
        self.meter.charge(size_of::<Info>() + info.key.len())?;
        Ok(Info { key: Key::new(&info.key)?, flags: raise_flags(info.flags), value: self.value(info.value)? })
    }

    pub(crate) fn array(&mut self, array: wit::Array) -> Result<DataArray, Stop> {
        let array = match array {
            wit::Array::Infos(infos) => DataArray::infos(self.infos(infos)?),
            wit::Array::Procs(procs) => {
                let values = procs.into_iter().map(|proc| self.value(wit::Value::Proc(proc)));
                DataArray::new(dt::PMIX_PROC, values.collect::<Result<_, _>>()?)?
            }
            wit::Array::Values(values) => {
                let values: Vec<Value> = values.into_iter().map(|value| self.value(value)).collect::<Result<_, _>>()?;
                let element = values.first().map_or(dt::PMIX_UNDEF, Value::data_type);
                DataArray::new(element, values)?
            }
        };
        let depth = array.items().iter().map(|item| Size::of(item).depth).max().unwrap_or(0) + 1;
        if depth > MAX_DEPTH { Err(Stop::Depth(MAX_DEPTH)) } else { Ok(array) }
    }

    fn value(&mut self, value: wit::Value) -> Result<Value, Stop> {
        let value = match value {
            wit::Value::Undef => Value::Undef,
            wit::Value::Boolean(truth) => Value::Bool(truth),
            wit::Value::Byte(n) => Value::Byte(n),
            wit::Value::Text(text) => Value::String(Some(Text::from(text.as_str()))),
            wit::Value::Size(n) => Value::Size(n),
            wit::Value::Pid(n) => Value::Pid(n),
            wit::Value::Int(n) => Value::Int(n),
            wit::Value::Int8(n) => Value::Int8(n),
            wit::Value::Int16(n) => Value::Int16(n),
            wit::Value::Int32(n) => Value::Int32(n),
            wit::Value::Int64(n) => Value::Int64(n),
            wit::Value::Uint(n) => Value::Uint(n),
            wit::Value::Uint8(n) => Value::Uint8(n),
            wit::Value::Uint16(n) => Value::Uint16(n),
            wit::Value::Uint32(n) => Value::Uint32(n),
            wit::Value::Uint64(n) => Value::Uint64(n),
            wit::Value::Float32(n) => Value::Float(n),
            wit::Value::Float64(n) => Value::Double(n),
            wit::Value::Timeval((seconds, microseconds)) => Value::Timeval { seconds, microseconds },
            wit::Value::Time(seconds) => Value::Time(seconds),
            wit::Value::Status(status) => Value::Status(Status(status)),
            wit::Value::Proc(proc) => Value::Proc(raise_proc(&proc)?),
            wit::Value::Nspace(nspace) => Value::Nspace(Nspace::new(&nspace)?),
            wit::Value::Rank(rank) => Value::Rank(Rank(rank)),
            wit::Value::Range(range) => Value::Range(range.into()),
            wit::Value::Bytes(bytes) => Value::ByteObject(bytes.into()),
            wit::Value::Array(number) => return self.copied_array(number),
            wit::Value::Other(opaque) => return self.copied_opaque(opaque),
        };
        self.meter.charge(Size::of(&value).bytes)?;
        Ok(value)
    }

    fn copied_array(&mut self, number: u32) -> Result<Value, Stop> {
        let array = self.data.value(self.numbers, number).filter(|value| matches!(value, Value::DataArray(_)));
        self.copied(array.ok_or(Stop::NoArray(number))?)
    }

    fn copied_opaque(&mut self, opaque: wit::Opaque) -> Result<Value, Stop> {
        let wanted = DataType(opaque.data_type);
        let value = self.data.value(self.numbers, opaque.at).filter(|value| value.data_type() == wanted);
        self.copied(value.ok_or(Stop::NoOpaque { at: opaque.at, data_type: opaque.data_type })?)
    }

    /// Charged before it is copied: a few references can stand for very much.
    fn copied(&mut self, value: &Value) -> Result<Value, Stop> {
        self.meter.charge(Size::of(value).bytes)?;
        Ok(value.clone())
    }
}
