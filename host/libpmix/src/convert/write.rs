//! Values and arrays of values, to C.
use super::{
    BufferBytes, ConvertError, CpusetList, ToC,
    element::{self, Storage},
    text::{nspace_array, text_to_c},
};
use crate::{
    abi::{CDataArray, CNspace, CTimeval, CValue},
    memory,
};
use peal_model::{
    DataArray, DataType, IofChannel, JobState, LinkState, ProcState, Rank, Status, Value,
    data_type as dt,
};
use std::ffi::{c_char, c_void};

fn known(data_type: DataType, place: &'static str) -> Result<element::ElementLayout, ConvertError> {
    element::layout(data_type).ok_or(ConvertError::UnsupportedType { data_type, place })
}

impl ToC for Value {
    type Target = CValue;

    fn fill(&self, target: &mut CValue) -> Result<(), ConvertError> {
        let data_type = self.data_type();
        let layout = known(data_type, "in a value")?;
        match layout.storage {
            Storage::Inline => {
                target.r#type = data_type.0;
                // SAFETY: the union is zeroed, and has room and alignment for each of its members,
                // of which the element is one.
                unsafe { element(self, (&raw mut target.data).cast()) }
            }
            Storage::Pointer => {
                let at = memory::allocate_bytes(1, layout.size)?;
                target.r#type = data_type.0;
                target.data.ptr = at;
                // SAFETY: the memory is new, zeroed, and has the size of the element.
                unsafe { element(self, at) }
            }
            Storage::ArrayOnly => Err(ConvertError::UnsupportedType {
                data_type,
                place: "in a value",
            }),
        }
    }
}

impl ToC for DataArray {
    type Target = CDataArray;

    fn fill(&self, target: &mut CDataArray) -> Result<(), ConvertError> {
        target.r#type = self.element().0;
        if self.items().is_empty() || self.element() == dt::PMIX_UNDEF {
            return Ok(());
        }
        let size = known(self.element(), "in an array")?.size;
        target.array = memory::allocate_bytes(self.items().len(), size)?;
        target.size = self.items().len();
        for (at, item) in self.items().iter().enumerate() {
            // SAFETY: the array is new, zeroed, and has an element of this size for each item.
            unsafe { element(item, target.array.byte_add(at * size)) }?;
        }
        Ok(())
    }
}

/// Writes one element. Whatever the result is, the element can be destructed.
///
/// # Safety
///
/// `at` points to zeroed memory for an element of the value's type, aligned.
pub(crate) unsafe fn element(value: &Value, at: *mut c_void) -> Result<(), ConvertError> {
    macro_rules! number {
        ($type:ty, $number:expr) => {
            // SAFETY: the caller guarantees memory for an element of the data type, which is this C
            // type.
            unsafe { at.cast::<$type>().write($number) }
        };
    }
    /// Borrows the element as the C type of a value.
    ///
    /// # Safety
    ///
    /// `at` points to a zeroed structure of that type.
    unsafe fn fill<M: ToC>(model: &M, at: *mut c_void) -> Result<(), ConvertError> {
        // SAFETY: the caller guarantees a structure of the type.
        model.fill(unsafe { &mut *at.cast::<M::Target>() })
    }
    macro_rules! compound {
        ($model:expr) => {
            // SAFETY: the caller guarantees memory for an element of the data type, which is the C
            // type of this model type.
            unsafe { fill($model, at) }?
        };
    }
    match value {
        Value::Undef | Value::Pointer => {}
        Value::Bool(truth) => number!(u8, u8::from(*truth)),
        Value::Byte(n)
        | Value::Uint8(n)
        | Value::Command(n)
        | Value::AllocDirective(n)
        | Value::ResourceBlockDirective(n)
        | Value::AllocInheritance(n)
        | Value::ProcState(ProcState(n))
        | Value::JobState(JobState(n))
        | Value::LinkState(LinkState(n)) => number!(u8, *n),
        Value::Persistence(persistence) => number!(u8, persistence.number()),
        Value::Scope(scope) => number!(u8, scope.number()),
        Value::Range(range) => number!(u8, range.number()),
        Value::Int8(n) => number!(i8, *n),
        Value::Int16(n) => number!(i16, *n),
        Value::Uint16(n)
        | Value::Locality(n)
        | Value::StorageAccessType(n)
        | Value::DataType(DataType(n))
        | Value::IofChannel(IofChannel(n)) => number!(u16, *n),
        Value::Int(n) | Value::Int32(n) | Value::Status(Status(n)) => number!(i32, *n),
        Value::Pid(n)
        | Value::Uint(n)
        | Value::Uint32(n)
        | Value::InfoDirectives(n)
        | Value::Rank(Rank(n)) => number!(u32, *n),
        Value::Int64(n) => number!(i64, *n),
        Value::Size(n)
        | Value::Uint64(n)
        | Value::Time(n)
        | Value::DeviceType(n)
        | Value::StorageMedium(n)
        | Value::StorageAccess(n)
        | Value::StoragePersistence(n) => number!(u64, *n),
        Value::Float(n) => number!(f32, *n),
        Value::Double(n) => number!(f64, *n),
        Value::Timeval {
            seconds,
            microseconds,
        } => number!(
            CTimeval,
            CTimeval {
                tv_sec: *seconds,
                tv_usec: *microseconds,
            }
        ),
        Value::String(text) => number!(*mut c_char, text_to_c(text.as_ref())?),
        Value::ByteObject(bytes)
        | Value::CompressedString(bytes)
        | Value::CompressedByteObject(bytes) => compound!(bytes),
        Value::DataBuffer(bytes) => compound!(&BufferBytes(bytes.clone())),
        Value::Nspace(nspace) => number!(CNspace, nspace_array(nspace)),
        Value::Value(value) => compound!(&**value),
        Value::Proc(proc) => compound!(proc),
        Value::App(app) => compound!(&**app),
        Value::Info(info) => compound!(&**info),
        Value::Pdata(data) => compound!(&**data),
        Value::ProcInfo(info) => compound!(&**info),
        Value::DataArray(array) => compound!(array),
        Value::Query(query) => compound!(&**query),
        Value::Envar(envar) => compound!(&**envar),
        Value::Coord(coord) => compound!(&**coord),
        Value::Regattr(attribute) => compound!(&**attribute),
        Value::Cpuset(list) => compound!(&CpusetList(list.clone())),
        Value::Geometry(geometry) => compound!(&**geometry),
        Value::DeviceDistance(distance) => compound!(&**distance),
        Value::Endpoint(endpoint) => compound!(&**endpoint),
        Value::Topology(topology) => compound!(&**topology),
        Value::DiskStats(disk) => compound!(&**disk),
        Value::NetStats(net) => compound!(&**net),
        Value::NodeStats(node) => compound!(&**node),
        Value::Device(device) => compound!(&**device),
        Value::ResourceUnit(unit) => compound!(&**unit),
        Value::NodePid(node) => compound!(&**node),
        Value::Kval(_) => {
            return Err(ConvertError::UnsupportedType {
                data_type: dt::PMIX_KVAL,
                place: "in C",
            });
        }
    }
    Ok(())
}
