//! Any value, and what values are made of.
use peal_model::*;
use peal_wire::{Dialect, UntypedArray};
use proptest::{
    array::{uniform3, uniform8},
    collection::vec,
    num, option,
    prelude::*,
    sample::select,
};

pub fn bytes() -> BoxedStrategy<Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from).boxed()
}

/// A text or NULL; not always UTF-8.
pub fn text() -> BoxedStrategy<Option<Text>> {
    option::of(vec(1u8.., 0..12).prop_map(|bytes| Text::from_bytes(&bytes))).boxed()
}

pub fn nspace() -> BoxedStrategy<Nspace> {
    "[a-z@.é-]{1,12}"
        .prop_map(|name| Nspace::new(&name).unwrap())
        .boxed()
}

pub fn key() -> BoxedStrategy<Key> {
    prop_oneof![
        "[a-z.ü]{0,12}".prop_map(|name| Key::new(&name).unwrap()),
        Just(key::PMIX_COLLECT_DATA.into())
    ]
    .boxed()
}

pub fn proc() -> BoxedStrategy<Proc> {
    (nspace(), any::<u32>())
        .prop_map(|(nspace, rank)| Proc::new(nspace, Rank(rank)))
        .boxed()
}

pub fn some<T: std::fmt::Debug + 'static>(one: BoxedStrategy<T>) -> BoxedStrategy<Vec<T>> {
    vec(one, 0..4).boxed()
}

fn device() -> BoxedStrategy<Device> {
    let all = (text(), text(), any::<u64>());
    all.prop_map(|(uuid, osname, device_type)| Device {
        uuid,
        osname,
        device_type,
    })
    .boxed()
}

pub fn distance() -> BoxedStrategy<DeviceDistance> {
    let all = (device(), any::<u16>(), any::<u16>());
    all.prop_map(
        |(
            Device {
                uuid,
                osname,
                device_type,
            },
            min,
            max,
        )| DeviceDistance {
            uuid,
            osname,
            device_type,
            min,
            max,
        },
    )
    .boxed()
}

pub fn topology() -> BoxedStrategy<Topology> {
    let support = vec(any::<u8>(), 32).prop_map(Bytes::from);
    option::of((text().prop_map(Option::unwrap_or_default), support))
        .prop_map(|xml| Topology { xml })
        .boxed()
}

pub fn unit() -> BoxedStrategy<ResourceUnit> {
    any::<(u64, u64)>()
        .prop_map(|(device_type, count)| ResourceUnit { device_type, count })
        .boxed()
}

fn coord() -> BoxedStrategy<Coord> {
    let all = (any::<u8>(), vec(any::<u32>(), 0..4));
    all.prop_map(|(view, coordinates)| Coord { view, coordinates })
        .boxed()
}

fn number<T: Arbitrary + 'static>(make: fn(T) -> Value) -> BoxedStrategy<Value> {
    any::<T>().prop_map(make).boxed()
}

fn member<T: Clone + std::fmt::Debug + 'static>(
    all: &'static [T],
    make: fn(T) -> Value,
) -> BoxedStrategy<Value> {
    select(all).prop_map(make).boxed()
}

fn of<T: std::fmt::Debug + 'static>(
    one: BoxedStrategy<T>,
    make: fn(T) -> Value,
) -> BoxedStrategy<Value> {
    one.prop_map(make).boxed()
}

fn geometry() -> BoxedStrategy<Geometry> {
    let all = (any::<u64>(), text(), text(), some(coord()));
    all.prop_map(|(fabric, uuid, osname, coordinates)| Geometry {
        fabric,
        uuid,
        osname,
        coordinates,
    })
    .boxed()
}

fn proc_info() -> BoxedStrategy<ProcInfo> {
    let all = (proc(), text(), text(), any::<u32>(), any::<u8>());
    all.prop_map(|(proc, hostname, executable, pid, state)| ProcInfo {
        proc,
        hostname,
        executable,
        pid,
        state: ProcState(state),
    })
    .boxed()
}

fn regattr() -> BoxedStrategy<Regattr> {
    let all = (
        text(),
        text(),
        any::<u16>().prop_map(DataType),
        some(text()),
    );
    all.prop_map(|(name, key, data_type, description)| Regattr {
        name,
        key,
        data_type,
        description,
    })
    .boxed()
}

fn float() -> BoxedStrategy<f32> {
    (num::f32::NORMAL | num::f32::SUBNORMAL | num::f32::ZERO | num::f32::INFINITE).boxed()
}

fn disk_stats() -> BoxedStrategy<DiskStats> {
    (text(), any::<[u64; 11]>())
        .prop_map(|(disk, counters)| DiskStats { disk, counters })
        .boxed()
}

fn net_stats() -> BoxedStrategy<NetStats> {
    (text(), any::<[u64; 6]>())
        .prop_map(|(interface, counters)| NetStats {
            interface,
            counters,
        })
        .boxed()
}

fn node_stats() -> BoxedStrategy<NodeStats> {
    let all = (
        text(),
        uniform3(float()),
        uniform8(float()),
        any::<(i64, i64)>(),
    );
    all.prop_map(|(node, load, memory, sample_time)| NodeStats {
        node,
        load,
        memory,
        sample_time,
    })
    .boxed()
}

/// Any value that holds no other value.
fn simple() -> Vec<BoxedStrategy<Value>> {
    let double = num::f64::NORMAL | num::f64::SUBNORMAL | num::f64::ZERO | num::f64::INFINITE;
    let envar = (text(), text(), any::<u8>()).prop_map(|(name, value, separator)| Envar {
        name,
        value,
        separator,
    });
    let endpoint = (text(), text(), bytes()).prop_map(|(uuid, osname, address)| Endpoint {
        uuid,
        osname,
        address,
    });
    let node = (text(), any::<u32>(), any::<u32>());
    let node = node.prop_map(|(hostname, node_id, pid)| NodePid {
        hostname,
        node_id,
        pid,
    });
    vec![
        Just(Value::Undef).boxed(),
        number(Value::Bool),
        number(Value::Byte),
        of(text(), Value::String),
        number(Value::Size),
        number(Value::Pid),
        number(Value::Int),
        number(Value::Int8),
        number(Value::Int16),
        number(Value::Int32),
        number(Value::Int64),
        number(Value::Uint),
        number(Value::Uint8),
        number(Value::Uint16),
        number(Value::Uint32),
        number(Value::Uint64),
        of(float(), Value::Float),
        double.prop_map(Value::Double).boxed(),
        number(|(seconds, microseconds)| Value::Timeval {
            seconds,
            microseconds,
        }),
        number(Value::Time),
        number(|code| Value::Status(Status(code))),
        of(proc(), Value::Proc),
        of(bytes(), Value::ByteObject),
        member(Persistence::ALL, Value::Persistence),
        Just(Value::Pointer).boxed(),
        member(Scope::ALL, Value::Scope),
        member(Range::ALL, Value::Range),
        number(Value::Command),
        number(Value::InfoDirectives),
        number(|code| Value::DataType(DataType(code))),
        number(|state| Value::ProcState(ProcState(state))),
        of(proc_info(), |info| Value::ProcInfo(Box::new(info))),
        number(|rank| Value::Rank(Rank(rank))),
        of(bytes(), Value::CompressedString),
        number(Value::AllocDirective),
        number(|channels| Value::IofChannel(IofChannel(channels))),
        envar
            .prop_map(|envar| Value::Envar(Box::new(envar)))
            .boxed(),
        of(coord(), |coord| Value::Coord(Box::new(coord))),
        of(regattr(), |attribute| Value::Regattr(Box::new(attribute))),
        number(|state| Value::JobState(JobState(state))),
        number(|state| Value::LinkState(LinkState(state))),
        of(text(), Value::Cpuset),
        of(geometry(), |geometry| Value::Geometry(Box::new(geometry))),
        of(distance(), |distance| {
            Value::DeviceDistance(Box::new(distance))
        }),
        endpoint
            .prop_map(|endpoint| Value::Endpoint(Box::new(endpoint)))
            .boxed(),
        of(topology(), |topology| Value::Topology(Box::new(topology))),
        number(Value::DeviceType),
        number(Value::Locality),
        of(bytes(), Value::CompressedByteObject),
        of(nspace(), Value::Nspace),
        of(disk_stats(), |disk| Value::DiskStats(Box::new(disk))),
        of(net_stats(), |net| Value::NetStats(Box::new(net))),
        of(node_stats(), |node| Value::NodeStats(Box::new(node))),
        of(bytes(), Value::DataBuffer),
        number(Value::StorageMedium),
        number(Value::StorageAccess),
        number(Value::StoragePersistence),
        number(Value::StorageAccessType),
        of(device(), |device| Value::Device(Box::new(device))),
        number(Value::ResourceBlockDirective),
        of(unit(), |unit| Value::ResourceUnit(Box::new(unit))),
        node.prop_map(|node| Value::NodePid(Box::new(node))).boxed(),
        number(Value::AllocInheritance),
    ]
}

fn info_of(value: BoxedStrategy<Value>) -> BoxedStrategy<Info> {
    let all = (key(), any::<u32>(), value);
    all.prop_map(|(key, flags, value)| Info {
        key,
        flags: InfoFlags(flags),
        value,
    })
    .boxed()
}

fn kval_of(value: BoxedStrategy<Value>) -> BoxedStrategy<Kval> {
    (key(), value)
        .prop_map(|(key, value)| Kval { key, value })
        .boxed()
}

fn pdata_of(value: BoxedStrategy<Value>) -> BoxedStrategy<Pdata> {
    (proc(), key(), value)
        .prop_map(|(proc, key, value)| Pdata { proc, key, value })
        .boxed()
}

fn app_of(info: BoxedStrategy<Info>) -> BoxedStrategy<App> {
    let all = (
        text(),
        some(text()),
        some(text()),
        text(),
        any::<i32>(),
        some(info),
    );
    all.prop_map(|(command, args, env, cwd, max_procs, infos)| App {
        command,
        args,
        env,
        cwd,
        max_procs,
        infos,
    })
    .boxed()
}

fn query_of(info: BoxedStrategy<Info>) -> BoxedStrategy<Query> {
    (some(text()), some(info))
        .prop_map(|(keys, qualifiers)| Query { keys, qualifiers })
        .boxed()
}

/// An array of one type; one without type is empty. Behind an array without type in it nothing else
/// may travel in some dialects.
fn array_of(element: BoxedStrategy<Value>, dialect: Dialect) -> BoxedStrategy<DataArray> {
    let untyped = DataArray::new(data_type::PMIX_UNDEF, Vec::new()).unwrap();
    let untyped = Value::DataArray(untyped);
    let items = vec(element, 0..4).prop_map(move |mut items| {
        let element = items
            .first()
            .map_or(data_type::PMIX_UNDEF, Value::data_type);
        items.retain(|item| item.data_type() == element && element != data_type::PMIX_UNDEF);
        let end = items
            .iter()
            .position(|item| *item == untyped)
            .unwrap_or(items.len());
        if dialect.untyped_array() == UntypedArray::TypeAlone {
            items
                .iter_mut()
                .skip(end)
                .for_each(|item| *item = untyped.clone());
        }
        DataArray::new(element, items).unwrap()
    });
    items.boxed()
}

fn holding(value: BoxedStrategy<Value>, dialect: Dialect) -> BoxedStrategy<Value> {
    prop_oneof![
        of(value.clone(), |value| Value::Value(Box::new(value))),
        of(info_of(value.clone()), |info| Value::Info(Box::new(info))),
        of(kval_of(value.clone()), |kval| Value::Kval(Box::new(kval))),
        of(pdata_of(value.clone()), |data| Value::Pdata(Box::new(data))),
        of(app_of(info_of(value.clone())), |app| Value::App(Box::new(
            app
        ))),
        of(query_of(info_of(value.clone())), |query| Value::Query(
            Box::new(query)
        )),
        vec(info_of(value.clone()), 0..4)
            .prop_map(|infos| Value::DataArray(DataArray::infos(infos))),
        of(array_of(value, dialect), Value::DataArray),
    ]
    .boxed()
}

/// Any value that may travel in a dialect.
pub fn value(dialect: Dialect) -> BoxedStrategy<Value> {
    let fits = move |value: &Value| dialect.has_type(value.data_type());
    let simple = proptest::strategy::Union::new(simple()).prop_filter("too new", fits);
    simple
        .prop_recursive(3, 24, 4, move |value| holding(value, dialect))
        .boxed()
}

/// The type of every kind of value that [`value`] makes.
pub fn value_types() -> Vec<DataType> {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let simple = simple()
        .into_iter()
        .map(|one| one.new_tree(&mut runner).unwrap().current().data_type());
    let holding = [
        data_type::PMIX_VALUE,
        data_type::PMIX_INFO,
        data_type::PMIX_KVAL,
        data_type::PMIX_PDATA,
        data_type::PMIX_APP,
        data_type::PMIX_QUERY,
        data_type::PMIX_DATA_ARRAY,
    ];
    simple.chain(holding).collect()
}

pub fn info(dialect: Dialect) -> BoxedStrategy<Info> {
    info_of(value(dialect))
}

pub fn kval(dialect: Dialect) -> BoxedStrategy<Kval> {
    kval_of(value(dialect))
}

pub fn pdata(dialect: Dialect) -> BoxedStrategy<Pdata> {
    pdata_of(value(dialect))
}

pub fn app(dialect: Dialect) -> BoxedStrategy<App> {
    app_of(info(dialect))
}

pub fn query(dialect: Dialect) -> BoxedStrategy<Query> {
    query_of(info(dialect))
}
