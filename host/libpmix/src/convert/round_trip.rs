//! Values of all types to C and back, without loss and without leaks.
use super::{FromC, ReadBounds, ToC, argv_argument, argv_to_c, read_array, write_into};
use crate::{
    destruct::{Destruct, free_argv},
    heap_array::HeapArray,
    hwloc,
    memory::counter,
};
use peal_model::{
    App, Bytes, Coord, DataArray, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar,
    Geometry, Info, InfoFlags, IofChannel, JobState, Key, Kval, LinkState, NetStats, NodePid,
    NodeStats, Nspace, Pdata, Persistence, Proc, ProcInfo, ProcState, Query, Range, Rank, Regattr,
    ResourceUnit, Scope, Size, Status, Text, Topology, Value, code, data_type as dt,
};
use peal_needs::needs;
use peal_wire::DecodeLimits;
use proptest::{
    array::{uniform3, uniform6, uniform8, uniform11},
    collection::vec,
    option::of,
    prelude::*,
    sample::select,
    strategy::ValueTree,
    test_runner::TestRunner,
};

fn text() -> impl Strategy<Value = Text> {
    vec(1..=u8::MAX, 0..12).prop_map(|bytes| Text::from_bytes(&bytes))
}

fn maybe() -> impl Strategy<Value = Option<Text>> {
    of(text())
}

/// Lists as C has them: without absent strings.
fn texts() -> impl Strategy<Value = Vec<Option<Text>>> {
    vec(text().prop_map(Some), 0..4)
}

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn key() -> impl Strategy<Value = Key> {
    vec(select(vec!["a", "pmix.", "é", "-"]), 0..100)
        .prop_map(|parts| Key::new(&parts.concat()).unwrap())
}

fn nspace() -> impl Strategy<Value = Nspace> {
    vec(select(vec!["n", "é", " "]), 0..100).prop_map(|parts| Nspace::new(&parts.concat()).unwrap())
}

fn process() -> impl Strategy<Value = Proc> {
    (nspace(), any::<u32>()).prop_map(|(nspace, rank)| Proc::new(nspace, Rank(rank)))
}

fn coord() -> impl Strategy<Value = Coord> {
    (any::<u8>(), vec(any::<u32>(), 0..4))
        .prop_map(|(view, coordinates)| Coord { view, coordinates })
}

/// Number of the kinds of `plain`.
pub(crate) const KINDS: usize = 58;

/// Returns values of one type without nested values, by the number of the type.
pub(crate) fn plain(kind: usize) -> BoxedStrategy<Value> {
    let named = || (maybe(), maybe(), any::<u64>());
    match kind {
        0 => Just(Value::Undef).boxed(),
        1 => any::<bool>().prop_map(Value::Bool).boxed(),
        2 => any::<u8>().prop_map(Value::Byte).boxed(),
        3 => maybe().prop_map(Value::String).boxed(),
        4 => any::<u64>().prop_map(Value::Size).boxed(),
        5 => any::<u32>().prop_map(Value::Pid).boxed(),
        6 => any::<i32>().prop_map(Value::Int).boxed(),
        7 => any::<i8>().prop_map(Value::Int8).boxed(),
        8 => any::<i16>().prop_map(Value::Int16).boxed(),
        9 => any::<i32>().prop_map(Value::Int32).boxed(),
        10 => any::<i64>().prop_map(Value::Int64).boxed(),
        11 => any::<u32>().prop_map(Value::Uint).boxed(),
        12 => any::<u8>().prop_map(Value::Uint8).boxed(),
        13 => any::<u16>().prop_map(Value::Uint16).boxed(),
        14 => any::<u32>().prop_map(Value::Uint32).boxed(),
        15 => any::<u64>().prop_map(Value::Uint64).boxed(),
        16 => any::<f32>().prop_map(Value::Float).boxed(),
        17 => any::<f64>().prop_map(Value::Double).boxed(),
        18 => (any::<i64>(), any::<i64>())
            .prop_map(|(seconds, microseconds)| Value::Timeval {
                seconds,
                microseconds,
            })
            .boxed(),
        19 => any::<u64>().prop_map(Value::Time).boxed(),
        20 => any::<i32>().prop_map(|n| Value::Status(Status(n))).boxed(),
        21 => process().prop_map(Value::Proc).boxed(),
        22 => bytes().prop_map(Value::ByteObject).boxed(),
        23 => select(Persistence::ALL)
            .prop_map(Value::Persistence)
            .boxed(),
        24 => Just(Value::Pointer).boxed(),
        25 => select(Scope::ALL).prop_map(Value::Scope).boxed(),
        26 => select(Range::ALL).prop_map(Value::Range).boxed(),
        27 => any::<u8>().prop_map(Value::Command).boxed(),
        28 => any::<u32>().prop_map(Value::InfoDirectives).boxed(),
        29 => any::<u16>()
            .prop_map(|n| Value::DataType(DataType(n)))
            .boxed(),
        30 => any::<u8>()
            .prop_map(|n| Value::ProcState(ProcState(n)))
            .boxed(),
        31 => (process(), maybe(), maybe(), any::<u32>(), any::<u8>())
            .prop_map(|(proc, hostname, executable, pid, state)| {
                Value::ProcInfo(Box::new(ProcInfo {
                    proc,
                    hostname,
                    executable,
                    pid,
                    state: ProcState(state),
                }))
            })
            .boxed(),
        32 => any::<u32>().prop_map(|n| Value::Rank(Rank(n))).boxed(),
        33 => bytes().prop_map(Value::CompressedString).boxed(),
        34 => any::<u8>().prop_map(Value::AllocDirective).boxed(),
        35 => any::<u16>()
            .prop_map(|n| Value::IofChannel(IofChannel(n)))
            .boxed(),
        36 => (maybe(), maybe(), any::<u8>())
            .prop_map(|(name, value, separator)| {
                Value::Envar(Box::new(Envar {
                    name,
                    value,
                    separator,
                }))
            })
            .boxed(),
        37 => coord()
            .prop_map(|coord| Value::Coord(Box::new(coord)))
            .boxed(),
        38 => (maybe(), text(), any::<u16>(), texts())
            .prop_map(|(name, key, data_type, description)| {
                Value::Regattr(Box::new(Regattr {
                    name,
                    key: Some(key),
                    data_type: DataType(data_type),
                    description,
                }))
            })
            .boxed(),
        39 => any::<u8>()
            .prop_map(|n| Value::JobState(JobState(n)))
            .boxed(),
        40 => any::<u8>()
            .prop_map(|n| Value::LinkState(LinkState(n)))
            .boxed(),
        41 => cpuset().prop_map(Value::Cpuset).boxed(),
        42 => (named(), vec(coord(), 0..3))
            .prop_map(|((uuid, osname, fabric), coordinates)| {
                Value::Geometry(Box::new(Geometry {
                    fabric,
                    uuid,
                    osname,
                    coordinates,
                }))
            })
            .boxed(),
        43 => (named(), any::<u16>(), any::<u16>())
            .prop_map(|((uuid, osname, device_type), min, max)| {
                Value::DeviceDistance(Box::new(DeviceDistance {
                    uuid,
                    osname,
                    device_type,
                    min,
                    max,
                }))
            })
            .boxed(),
        44 => (maybe(), maybe(), bytes())
            .prop_map(|(uuid, osname, address)| {
                Value::Endpoint(Box::new(Endpoint {
                    uuid,
                    osname,
                    address,
                }))
            })
            .boxed(),
        45 => Just(Value::Topology(Box::new(Topology { xml: None }))).boxed(),
        46 => any::<u64>().prop_map(Value::DeviceType).boxed(),
        47 => any::<u16>().prop_map(Value::Locality).boxed(),
        48 => bytes().prop_map(Value::CompressedByteObject).boxed(),
        49 => nspace().prop_map(Value::Nspace).boxed(),
        50 => (maybe(), uniform11(any::<u64>()))
            .prop_map(|(disk, counters)| Value::DiskStats(Box::new(DiskStats { disk, counters })))
            .boxed(),
        51 => (maybe(), uniform6(any::<u64>()))
            .prop_map(|(interface, counters)| {
                Value::NetStats(Box::new(NetStats {
                    interface,
                    counters,
                }))
            })
            .boxed(),
        52 => (
            maybe(),
            uniform3(any::<f32>()),
            uniform8(any::<f32>()),
            any::<(i64, i64)>(),
        )
            .prop_map(|(node, load, memory, sample_time)| {
                Value::NodeStats(Box::new(NodeStats {
                    node,
                    load,
                    memory,
                    sample_time,
                }))
            })
            .boxed(),
        53 => bytes().prop_map(Value::DataBuffer).boxed(),
        54 => (any::<u64>(), select(vec![0usize, 1, 2]))
            .prop_map(|(n, which)| {
                let kinds = [
                    Value::StorageMedium,
                    Value::StorageAccess,
                    Value::StoragePersistence,
                ];
                kinds[which](n)
            })
            .boxed(),
        55 => any::<u16>().prop_map(Value::StorageAccessType).boxed(),
        56 => named()
            .prop_map(|(uuid, osname, device_type)| {
                Value::Device(Box::new(Device {
                    uuid,
                    osname,
                    device_type,
                }))
            })
            .boxed(),
        57 => (any::<u64>(), any::<u64>())
            .prop_map(|(device_type, count)| {
                Value::ResourceUnit(Box::new(ResourceUnit { device_type, count }))
            })
            .boxed(),
        _ => (maybe(), any::<u32>(), any::<u32>(), any::<u8>())
            .prop_map(|(hostname, node_id, pid, number)| match number % 3 {
                0 => Value::NodePid(Box::new(NodePid {
                    hostname,
                    node_id,
                    pid,
                })),
                1 => Value::ResourceBlockDirective(number),
                _ => Value::AllocInheritance(number),
            })
            .boxed(),
    }
}

/// Lists of processors in hwloc's own form, where its library is present.
fn cpuset() -> impl Strategy<Value = Option<Text>> {
    let lists: &[&str] = if hwloc::library().is_some() {
        &["", "0", "0-3", "1,3-5,64"]
    } else {
        &[]
    };
    let mut choices = vec![None];
    choices.extend(lists.iter().map(|list| Some(Text::from(*list))));
    select(choices)
}

/// Makes an array of values of one type: those that have the type of the first.
fn array(items: Vec<Value>) -> DataArray {
    let element = items.first().map_or(dt::PMIX_STRING, Value::data_type);
    let items = if element == dt::PMIX_UNDEF {
        // An array of no type has no elements in C.
        Vec::new()
    } else {
        items
            .into_iter()
            .filter(|item| item.data_type() == element)
            .collect()
    };
    DataArray::new(element, items).unwrap()
}

pub(crate) fn info(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Info> {
    // Whether a value is freed is no matter of the model.
    (key(), any::<u32>(), value).prop_map(|(key, flags, value)| Info {
        key,
        flags: InfoFlags(flags & !0x10),
        value,
    })
}

/// Values that a `pmix_value_t` can hold, with nested ones in arrays.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = (0..=KINDS).prop_flat_map(plain);
    let nested = leaf.prop_recursive(4, 40, 4, |inner| {
        let nested = move || inner.clone();
        let infos = move |inner: BoxedStrategy<Value>| vec(info(inner), 0..3);
        let boxed = nested().boxed();
        let items = prop_oneof![
            (0..=KINDS).prop_flat_map(|kind| vec(plain(kind), 0..5)),
            vec(
                nested().prop_map(|value| Value::Value(Box::new(value))),
                0..4
            ),
            vec(
                info(nested()).prop_map(|info| Value::Info(Box::new(info))),
                0..4
            ),
            vec(
                (process(), key(), nested()).prop_map(|(proc, key, value)| {
                    Value::Pdata(Box::new(Pdata { proc, key, value }))
                }),
                0..3
            ),
            vec(
                (
                    maybe(),
                    texts(),
                    texts(),
                    maybe(),
                    any::<i32>(),
                    infos(boxed.clone())
                )
                    .prop_map(|(command, args, env, cwd, max_procs, infos)| {
                        Value::App(Box::new(App {
                            command,
                            args,
                            env,
                            cwd,
                            max_procs,
                            infos,
                        }))
                    }),
                0..3
            ),
            vec(
                (texts(), infos(boxed.clone())).prop_map(|(keys, qualifiers)| {
                    Value::Query(Box::new(Query { keys, qualifiers }))
                }),
                0..3
            ),
            vec(
                vec(boxed.clone(), 0..4).prop_map(|items| {
                    let values = items.into_iter().map(|value| Value::Value(Box::new(value)));
                    Value::DataArray(array(values.collect()))
                }),
                0..3
            ),
        ];
        items.prop_map(|items| Value::DataArray(array(items)))
    });
    // A deeper one is refused when it is read, as a message with it would be.
    let deepest = DecodeLimits::default().max_depth;
    nested.prop_filter("not too deep", move |value| {
        Size::of(value).depth <= deepest
    })
}

/// Converts to C and back, and checks that all memory was freed.
fn round_trip<M: ToC<Target = S> + FromC<Source = S>, S: Destruct>(model: &M) -> M {
    let before = counter::live();
    let mut target = S::zeroed();
    write_into(model, &mut target).unwrap();
    // SAFETY: the structure was written here.
    let back = unsafe { M::from_c(&target, &mut ReadBounds::default()) }.unwrap();
    // SAFETY: the structure owns what it points to.
    unsafe { target.destruct() };
    assert_eq!(counter::live(), before, "leak");
    // SAFETY: what was freed is cleared.
    unsafe { target.destruct() };
    back
}

proptest! {
    #[test]
    fn value_is_the_same_after_c_and_back(value in value()) {
        prop_assert_eq!(round_trip(&value), value);
    }

    #[test]
    fn infos_are_the_same_after_c_and_back(infos in vec(info(value()), 0..5)) {
        let before = counter::live();
        let array = HeapArray::from_models(&infos).unwrap();
        let first = array.as_slice().as_ptr();
        // SAFETY: the array has as many infos.
        let back: Vec<Info> = unsafe { read_array(first, array.len(), "infos") }.unwrap();
        prop_assert_eq!(back, infos);
        drop(array);
        prop_assert_eq!(counter::live(), before);
    }

    #[test]
    fn list_of_strings_is_the_same_after_c_and_back(texts in texts()) {
        let before = counter::live();
        let argv = argv_to_c(&texts).unwrap();
        // SAFETY: the list was made here.
        unsafe {
            prop_assert_eq!(argv_argument(argv).unwrap(), texts);
            free_argv(argv);
        }
        prop_assert_eq!(counter::live(), before);
    }
}

#[test]
fn every_data_type_of_a_value_is_generated() {
    let mut runner = TestRunner::deterministic();
    let mut types: Vec<u16> = (0..=KINDS)
        .flat_map(|kind| {
            let strategy = plain(kind);
            let values: Vec<u16> = (0..20)
                .map(|_| {
                    strategy
                        .new_tree(&mut runner)
                        .unwrap()
                        .current()
                        .data_type()
                        .0
                })
                .collect();
            values
        })
        .collect();
    types.sort_unstable();
    types.dedup();
    // Numbers up to 75, without three holes, what only arrays hold, arrays themselves, and
    // PMIX_REGEX, PMIX_PROC_STATS and PMIX_REGEX2, which the model lacks.
    let without = [21, 23, 24, 25, 26, 28, 29, 39, 41, 44, 49, 61, 74];
    let all: Vec<u16> = (0..=75)
        .filter(|number| !without.contains(number))
        .collect();
    assert_eq!(types, all);
}

/// Collects the types of a value and of all that is in it.
fn collect_types(value: &Value, types: &mut Vec<u16>) {
    types.push(value.data_type().0);
    match value {
        Value::DataArray(array) => {
            for item in array.items() {
                collect_types(item, types);
            }
        }
        Value::Value(value) => collect_types(value, types),
        Value::Info(info) => collect_types(&info.value, types),
        Value::Pdata(data) => collect_types(&data.value, types),
        Value::App(app) => {
            for info in &app.infos {
                collect_types(&info.value, types);
            }
        }
        Value::Query(query) => {
            for info in &query.qualifiers {
                collect_types(&info.value, types);
            }
        }
        _ => {}
    }
}

#[test]
fn nested_values_of_all_types_are_generated() {
    let mut runner = TestRunner::deterministic();
    let strategy = value();
    let (mut types, mut deepest) = (Vec::new(), 0);
    for _ in 0..1000 {
        let value = strategy.new_tree(&mut runner).unwrap().current();
        collect_types(&value, &mut types);
        deepest = deepest.max(Size::of(&value).depth);
    }
    types.sort_unstable();
    types.dedup();
    assert!(types.len() >= 69, "{types:?}");
    assert!((7..=16).contains(&deepest), "{deepest}");
}

#[test]
fn failed_write_frees_what_it_wrote() {
    let before = counter::live();
    let pair = Value::Kval(Box::new(Kval::new(
        peal_model::key::PMIX_COLLECT_DATA,
        Value::Undef,
    )));
    let inner = Value::DataArray(DataArray::new(dt::PMIX_KVAL, vec![pair]).unwrap());
    let infos = DataArray::infos([
        Info::new(peal_model::key::PMIX_HOST, Value::string("host")),
        Info::new(peal_model::key::PMIX_HOST, inner),
    ]);
    let mut target = Destruct::zeroed();
    let error = write_into(&Value::DataArray(infos), &mut target).unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_NOT_SUPPORTED);
    assert_eq!((target.r#type, counter::live()), (0, before));
}

#[needs(libpmix)]
#[test]
fn topology_keeps_its_support_structures() {
    let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n\
        <topology version=\"2.0\">\n  <object type=\"Machine\" os_index=\"0\" cpuset=\"0x00000001\" \
        complete_cpuset=\"0x00000001\" allowed_cpuset=\"0x00000001\" nodeset=\"0x00000001\" \
        complete_nodeset=\"0x00000001\" allowed_nodeset=\"0x00000001\" gp_index=\"1\">\n    \
        <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x00000001\" complete_cpuset=\"0x00000001\" \
        nodeset=\"0x00000001\" complete_nodeset=\"0x00000001\" gp_index=\"2\" local_memory=\"1024\"/>\n    \
        <object type=\"PU\" os_index=\"0\" cpuset=\"0x00000001\" complete_cpuset=\"0x00000001\" \
        nodeset=\"0x00000001\" complete_nodeset=\"0x00000001\" gp_index=\"3\"/>\n  </object>\n</topology>\n";
    let support: Vec<u8> = (0..32).map(|at| at % 2).collect();
    let topology = Topology {
        xml: Some((Text::from(xml), Bytes::from(support))),
    };
    let mut target = Destruct::zeroed();
    let written = write_into(&topology, &mut target);
    written.unwrap();
    // SAFETY: the topology was written here, and is not used afterwards.
    let once = unsafe {
        let back = Topology::from_c(&target, &mut ReadBounds::default()).unwrap();
        target.destruct();
        back
    };
    // hwloc writes its own XML, which stays the same from then on.
    assert_eq!(round_trip(&once), once);
    let (first, second) = (once.xml.unwrap(), topology.xml.unwrap());
    assert!(
        first.0.to_string_lossy().contains("NUMANode"),
        "{}",
        first.0
    );
    assert_eq!(first.1, second.1);
}
