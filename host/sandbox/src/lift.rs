//! Conversion of values from the contract's form to the host's. Values are checked and charged to
//! the call.
use crate::bindings::peal::pmix::types as wit;
use crate::call_data::{CallSubject, OpaqueTable};
use crate::lower::FLAGS;
use crate::meter::{CallAbort, CallMeter};
use peal_model::{
    DataArray, DataType, Info, InfoFlags, Key, Nspace, Proc, Range, Rank, Size, Status, Text,
    Value, data_type as dt,
};

/// Bound on the nesting of values that a guest pushes. It equals the bound of the wire format, so
/// that a guest can push any value that it has read.
const MAX_DEPTH: usize = 16;

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

fn lift_flags(flags: wit::InfoFlags) -> InfoFlags {
    let set = FLAGS.into_iter().filter(|(_, flag)| flags.contains(*flag));
    InfoFlags(set.fold(0, |flags, (bit, _)| flags | bit as u32))
}

pub(crate) fn lift_proc(proc: &wit::Proc) -> Result<Proc, CallAbort> {
    Ok(Proc::new(Nspace::new(&proc.nspace)?, Rank(proc.rank)))
}

/// Lifter of values that a guest pushes, at the cost of its call.
pub(crate) struct Lifter<'a> {
    subject: &'a CallSubject,
    opaques: &'a OpaqueTable,
    meter: &'a mut CallMeter,
    /// Arrays passed along with the infos.
    arrays: Vec<DataArray>,
}

impl<'a> Lifter<'a> {
    pub(crate) fn new(
        subject: &'a CallSubject,
        opaques: &'a OpaqueTable,
        meter: &'a mut CallMeter,
    ) -> Lifter<'a> {
        Lifter {
            subject,
            opaques,
            meter,
            arrays: Vec::new(),
        }
    }

    /// Lifts infos with the arrays that they refer to.
    pub(crate) fn content(mut self, content: wit::FlatInfos) -> Result<Vec<Info>, CallAbort> {
        self.lift_arrays(content.arrays)?.infos(content.infos)
    }

    /// Lifts an info with the arrays that it refers to.
    pub(crate) fn single(
        mut self,
        info: wit::Info,
        arrays: Vec<wit::Array>,
    ) -> Result<Info, CallAbort> {
        self.lift_arrays(arrays)?.info(info)
    }

    /// Lifts arrays. An array can refer only to earlier ones, so none contains itself.
    fn lift_arrays(&mut self, arrays: Vec<wit::Array>) -> Result<&mut Self, CallAbort> {
        for array in arrays {
            let array = self.array(array)?;
            self.arrays.push(array);
        }
        Ok(self)
    }

    fn infos(&mut self, infos: Vec<wit::Info>) -> Result<Vec<Info>, CallAbort> {
        infos.into_iter().map(|info| self.info(info)).collect()
    }

    fn info(&mut self, info: wit::Info) -> Result<Info, CallAbort> {
        self.meter.charge(size_of::<Info>() + info.key.len())?;
        Ok(Info {
            key: Key::new(&info.key)?,
            flags: lift_flags(info.flags),
            value: self.value(info.value)?,
        })
    }

    fn array(&mut self, array: wit::Array) -> Result<DataArray, CallAbort> {
        self.meter.charge(size_of::<DataArray>())?;
        let element = DataType(array.element);
        let items = match array.items {
            wit::ArrayItems::Infos(infos) => self
                .infos(infos)?
                .into_iter()
                .map(|info| Value::Info(Box::new(info)))
                .collect(),
            wit::ArrayItems::Procs(procs) => procs
                .into_iter()
                .map(|proc| self.value(wit::Value::Proc(proc)))
                .collect::<Result<_, _>>()?,
            wit::ArrayItems::Values(values) => values
                .into_iter()
                .map(|value| self.element(value, element))
                .collect::<Result<_, _>>()?,
        };
        let array = DataArray::new(element, items)?;
        // The array holds copies of earlier ones, so each reference can nest one level deeper.
        let depth = array
            .items()
            .iter()
            .map(|item| Size::of(item).depth)
            .max()
            .unwrap_or(0)
            + 1;
        if depth > MAX_DEPTH {
            Err(CallAbort::Depth(MAX_DEPTH))
        } else {
            Ok(array)
        }
    }

    /// Lifts an element. An undefined value among strings is a NULL string, as [`crate::lower`]
    /// makes it.
    fn element(&mut self, value: wit::Value, element: DataType) -> Result<Value, CallAbort> {
        match self.value(value)? {
            Value::Undef if element == dt::PMIX_STRING => Ok(Value::String(None)),
            value => Ok(value),
        }
    }

    fn value(&mut self, value: wit::Value) -> Result<Value, CallAbort> {
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
            wit::Value::Timeval((seconds, microseconds)) => Value::Timeval {
                seconds,
                microseconds,
            },
            wit::Value::Time(seconds) => Value::Time(seconds),
            wit::Value::Status(status) => Value::Status(Status(status)),
            wit::Value::Proc(proc) => Value::Proc(lift_proc(&proc)?),
            wit::Value::Nspace(nspace) => Value::Nspace(Nspace::new(&nspace)?),
            wit::Value::Rank(rank) => Value::Rank(Rank(rank)),
            wit::Value::Range(range) => Value::Range(range.into()),
            wit::Value::Bytes(bytes) => Value::ByteObject(bytes.into()),
            // These two charge the call themselves, before they copy.
            wit::Value::Array(at) => return self.array_value(at),
            wit::Value::Other(opaque) => return self.opaque_value(opaque),
        };
        self.meter.charge(Size::of(&value).bytes)?;
        Ok(value)
    }

    /// Returns a copy of an array. It is charged before the copy: a few references can stand for a
    /// lot of memory.
    fn array_value(&mut self, at: wit::ArrayRef) -> Result<Value, CallAbort> {
        let array = usize::try_from(at)
            .ok()
            .and_then(|at| self.arrays.get(at))
            .ok_or(CallAbort::NoArray(at))?;
        let items = array.items().iter().map(|item| Size::of(item).bytes);
        self.meter
            .charge(items.fold(size_of::<Value>(), usize::saturating_add))?;
        Ok(Value::DataArray(array.clone()))
    }

    fn opaque_value(&mut self, opaque: wit::Opaque) -> Result<Value, CallAbort> {
        let wanted = DataType(opaque.data_type);
        let value = self
            .subject
            .opaque(self.opaques, opaque.handle)
            .filter(|value| value.data_type() == wanted);
        let value = value.ok_or(CallAbort::NoOpaque {
            at: opaque.handle,
            data_type: opaque.data_type,
        })?;
        self.meter.charge(Size::of(value).bytes)?;
        Ok(value.clone())
    }
}
