//! Capability `wasi`: stubs of WASI 0.2 for components whose language needs it. There are no
//! arguments, environment, files or network.
//!
//! Printed text goes to the trace if `logging` is granted. The last text on the standard error is
//! also kept for the failure of the call. Waiting ends at once. The time of day is that of `clock`;
//! the monotonic clock only counts how often it was read. Random numbers are those of `random`. So
//! a guest observes nothing that a replay could not repeat.
use crate::host_calls::{HostCallRequest, Level};
use crate::instance_state::InstanceState;
use crate::interface::wasi_interface;
use crate::limits::MAX_HANDLES;
use crate::meter::CallAbort;
use crate::{Capability, Grants};
use std::sync::Arc;
use wasmtime::component::types::{ComponentFunc, ComponentItem, Type};
use wasmtime::component::{Component, Linker, Resource, ResourceType, Val};
use wasmtime::{Engine, StoreContextMut};

/// Type of all resources, without data. The number of a handle identifies its purpose.
struct Stub;

/// Number of a handle for the standard error.
const STDERR: u32 = 2;
/// Number of all other handles.
const ANY: u32 = 0;

/// Bound on the random bytes of one call.
const MAX_RANDOM: u64 = 65_536;
/// Bytes that a guest may print at once.
const PRINTED_AT_ONCE: u64 = 4096;
/// Error names that mean that something does not exist and never will, the best first.
const ERRORS: [&str; 5] = [
    "access-denied",
    "access",
    "closed",
    "not-permitted",
    "unsupported",
];

/// Behavior of a function of WASI.
#[derive(Clone, Copy)]
enum StubBehavior {
    /// Returns the empty value of the result type, or an error.
    Nothing,
    /// Succeeds.
    Succeed,
    /// Opens the standard error.
    OpenStderr,
    /// Returns the number of bytes that may be printed.
    MayPrint,
    /// Prints.
    Print(PrintTarget),
    /// Returns that all pollables are ready.
    AllReady,
    /// Returns that one pollable is ready.
    Ready,
    /// Returns the time of day.
    Now,
    /// Returns the resolution of the time of day, a millisecond.
    Milliseconds,
    /// Returns a time that grows by 1000 with each call.
    Count,
    /// Returns 1.
    One,
    /// Returns random bytes.
    Bytes,
    /// Returns a random number.
    Number,
    /// Returns two random numbers.
    Numbers,
    /// Ends the call.
    Exit,
}

/// Destination of printed text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrintTarget {
    Traced,
    Dropped,
}

/// Links the interfaces of WASI that a component imports.
pub(crate) fn link(
    linker: &mut Linker<InstanceState>,
    engine: &Engine,
    component: &Component,
    grants: &Grants,
) -> wasmtime::Result<()> {
    let printed = if grants.allows(Capability::Logging) {
        PrintTarget::Traced
    } else {
        PrintTarget::Dropped
    };
    for (name, import) in component.component_type().imports(engine) {
        let (Some(interface), ComponentItem::ComponentInstance(instance)) =
            (wasi_interface(name), import.ty)
        else {
            // Other imports are linked by `instance_template`.
            continue;
        };
        let mut linked = linker.instance(name)?;
        for (export, item) in instance.exports(engine) {
            match item.ty {
                ComponentItem::Resource(_) => {
                    // A handle that the guest drops no longer counts.
                    linked.resource(export, ResourceType::host::<Stub>(), |mut store, _| {
                        store.data_mut().handles = store.data().handles.saturating_sub(1);
                        Ok(())
                    })?
                }
                ComponentItem::ComponentFunc(_) => {
                    let does = behavior_of(interface, export, printed);
                    let function: Arc<str> = format!("{interface}.{export}").into();
                    linked.func_new(export, move |mut store, ty, given, results| {
                        // The record precedes those of the host calls that this function makes.
                        store
                            .data_mut()
                            .host_call_log
                            .record_request(|| HostCallRequest::Wasi {
                                function: function.to_string(),
                            });
                        call(does, store, &ty, given, results)
                    })?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn behavior_of(interface: &str, function: &str, printed: PrintTarget) -> StubBehavior {
    let method = |of: &str| {
        function
            .strip_prefix("[method]")
            .and_then(|name| name.strip_prefix(of))
    };
    match (interface, function) {
        ("cli/exit", _) => StubBehavior::Exit,
        ("cli/stderr", "get-stderr") => StubBehavior::OpenStderr,
        ("clocks/monotonic-clock", "now") => StubBehavior::Count,
        ("clocks/monotonic-clock", "resolution") => StubBehavior::One,
        ("clocks/wall-clock", "now") => StubBehavior::Now,
        ("clocks/wall-clock", "resolution") => StubBehavior::Milliseconds,
        ("io/poll", "poll") => StubBehavior::AllReady,
        ("io/poll", "[method]pollable.ready") => StubBehavior::Ready,
        ("io/streams", _) => match method("output-stream.") {
            Some("check-write") => StubBehavior::MayPrint,
            Some("write" | "blocking-write-and-flush") => StubBehavior::Print(printed),
            // Zeros are no text, so nothing is printed.
            Some(
                "flush" | "blocking-flush" | "write-zeroes" | "blocking-write-zeroes-and-flush",
            ) => StubBehavior::Succeed,
            _ => StubBehavior::Nothing,
        },
        ("random/random", "get-random-bytes")
        | ("random/insecure", "get-insecure-random-bytes") => StubBehavior::Bytes,
        ("random/random", "get-random-u64") | ("random/insecure", "get-insecure-random-u64") => {
            StubBehavior::Number
        }
        ("random/insecure-seed", _) => StubBehavior::Numbers,
        _ => StubBehavior::Nothing,
    }
}

/// Makes a call of WASI, which is metered as any host call.
fn call(
    does: StubBehavior,
    mut store: StoreContextMut<'_, InstanceState>,
    ty: &ComponentFunc,
    given: &[Val],
    results: &mut [Val],
) -> wasmtime::Result<()> {
    let entered = store.data_mut().meter.begin_host_call()?;
    let answered = ty.results().zip(results).try_for_each(|(ty, result)| {
        *result = answer(does, &mut store, &ty, given)?;
        Ok(())
    });
    let taken = match does {
        // `take_stream` has dropped the stream already.
        StubBehavior::Print(_) => Ok(()),
        // wasmtime keeps a handle that the host received, owned or borrowed, until the host drops
        // it.
        _ => given
            .iter()
            .try_for_each(|value| give_back(&mut store, value)),
    };
    if matches!(does, StubBehavior::Exit) {
        return Err(CallAbort::Exit.into());
    }
    store.data_mut().meter.leave(entered);
    answered.and(taken)
}

fn answer(
    does: StubBehavior,
    store: &mut StoreContextMut<'_, InstanceState>,
    ty: &Type,
    given: &[Val],
) -> wasmtime::Result<Val> {
    Ok(match does {
        StubBehavior::Nothing | StubBehavior::Exit => empty_value(store, ty)?,
        StubBehavior::Succeed => Val::Result(Ok(None)),
        StubBehavior::MayPrint => Val::Result(Ok(Some(Box::new(Val::U64(PRINTED_AT_ONCE))))),
        StubBehavior::OpenStderr => handle(store, STDERR)?,
        StubBehavior::Print(printed) => {
            let stream = take_stream(store, given)?;
            let bytes = bytes_of(given);
            let host = store.data_mut();
            // Language runtimes print an exception to the standard error.
            if stream == STDERR {
                host.exception_report.print(&bytes);
            }
            if printed == PrintTarget::Traced {
                host.write_trace(Level::Info, String::from_utf8_lossy(&bytes).trim_end())?;
            }
            Val::Result(Ok(None))
        }
        StubBehavior::AllReady => {
            let number = given
                .iter()
                .map(|value| {
                    if let Val::List(list) = value {
                        list.len()
                    } else {
                        0
                    }
                })
                .sum();
            // All are ready, so that waiting ends at once.
            Val::List((0..).take(number).map(Val::U32).collect())
        }
        StubBehavior::Ready => Val::Bool(true),
        StubBehavior::Now => {
            let now = store.data_mut().milliseconds()?;
            time(
                now / 1000,
                u32::try_from(now % 1000).unwrap_or_default() * 1_000_000,
            )
        }
        StubBehavior::Milliseconds => time(0, 1_000_000),
        StubBehavior::Count => {
            let host = store.data_mut();
            // A clock that stands still would never end a loop that waits for a time to pass.
            host.monotonic_time = host.monotonic_time.saturating_add(1000);
            Val::U64(host.monotonic_time)
        }
        StubBehavior::One => Val::U64(1),
        StubBehavior::Bytes => {
            let wanted = given.iter().find_map(|value| {
                if let Val::U64(len) = value {
                    Some(*len)
                } else {
                    None
                }
            });
            // The guest chooses the length, so it is checked before a buffer is allocated.
            let len = wanted
                .filter(|len| *len <= MAX_RANDOM)
                .and_then(|len| usize::try_from(len).ok());
            let bytes = store
                .data_mut()
                .draw(len.ok_or(CallAbort::NoRandom)?)?
                .map_err(|_| CallAbort::NoRandom)?;
            Val::List(bytes.into_iter().map(Val::U8).collect())
        }
        StubBehavior::Number => Val::U64(store.data_mut().draw_number()?),
        StubBehavior::Numbers => {
            let host = store.data_mut();
            Val::Tuple(vec![
                Val::U64(host.draw_number()?),
                Val::U64(host.draw_number()?),
            ])
        }
    })
}

fn time(seconds: u64, nanoseconds: u32) -> Val {
    Val::Record(vec![
        ("seconds".into(), Val::U64(seconds)),
        ("nanoseconds".into(), Val::U32(nanoseconds)),
    ])
}

/// Returns the bytes of the first list among the arguments.
fn bytes_of(given: &[Val]) -> Vec<u8> {
    let list = given.iter().find_map(|value| {
        if let Val::List(list) = value {
            Some(list.as_slice())
        } else {
            None
        }
    });
    let byte = |value: &Val| {
        if let Val::U8(byte) = value {
            Some(*byte)
        } else {
            None
        }
    };
    list.unwrap_or_default().iter().filter_map(byte).collect()
}

/// Returns a new handle with a number.
fn handle(store: &mut StoreContextMut<'_, InstanceState>, number: u32) -> wasmtime::Result<Val> {
    let host = store.data_mut();
    if host.handles >= MAX_HANDLES {
        return Err(CallAbort::Handles(MAX_HANDLES).into());
    }
    host.handles += 1;
    Ok(Val::Resource(
        Resource::<Stub>::new_own(number).try_into_resource_any(store)?,
    ))
}

/// Drops the stream that a guest prints to, and returns its number.
fn take_stream(
    store: &mut StoreContextMut<'_, InstanceState>,
    given: &[Val],
) -> wasmtime::Result<u32> {
    let Some(Val::Resource(stream)) = given.first() else {
        return Ok(ANY);
    };
    Ok(stream.try_into_resource::<Stub>(&mut *store)?.rep())
}

/// Returns the empty value of a type, or an error.
fn empty_value(store: &mut StoreContextMut<'_, InstanceState>, ty: &Type) -> wasmtime::Result<Val> {
    let parts = |store: &mut StoreContextMut<'_, InstanceState>,
                 types: &mut dyn Iterator<Item = Type>| {
        types
            .map(|ty| empty_value(store, &ty))
            .collect::<wasmtime::Result<Vec<_>>>()
    };
    Ok(match ty {
        Type::Bool => Val::Bool(false),
        Type::S8 => Val::S8(0),
        Type::U8 => Val::U8(0),
        Type::S16 => Val::S16(0),
        Type::U16 => Val::U16(0),
        Type::S32 => Val::S32(0),
        Type::U32 => Val::U32(0),
        Type::S64 => Val::S64(0),
        Type::U64 => Val::U64(0),
        Type::Float32 => Val::Float32(0.0),
        Type::Float64 => Val::Float64(0.0),
        Type::Char => Val::Char(' '),
        Type::String => Val::String(String::new()),
        Type::List(_) => Val::List(Vec::new()),
        Type::Option(_) => Val::Option(None),
        Type::Flags(_) => Val::Flags(Vec::new()),
        Type::Tuple(tuple) => Val::Tuple(parts(store, &mut tuple.types())?),
        Type::Record(record) => {
            let values = parts(store, &mut record.fields().map(|field| field.ty))?;
            Val::Record(
                record
                    .fields()
                    .map(|field| field.name.to_owned())
                    .zip(values)
                    .collect(),
            )
        }
        Type::Enum(choice) => {
            Val::Enum(best_error_name(&choice.names().collect::<Vec<_>>()).to_owned())
        }
        Type::Variant(variant) => {
            let name = best_error_name(&variant.cases().map(|case| case.name).collect::<Vec<_>>());
            let payload = variant
                .cases()
                .find(|case| case.name == name)
                .and_then(|case| case.ty);
            let payload = payload
                .map(|ty| empty_value(store, &ty).map(Box::new))
                .transpose()?;
            Val::Variant(name.to_owned(), payload)
        }
        // Nothing exists here, so a function that can fail does.
        Type::Result(result) => Val::Result(Err(result
            .err()
            .map(|ty| empty_value(store, &ty).map(Box::new))
            .transpose()?)),
        Type::Own(_) => handle(store, ANY)?,
        _ => return Err(CallAbort::NoWasi.into()),
    })
}

/// Returns the name that means best that something does not exist, or the first one.
fn best_error_name<'a>(names: &[&'a str]) -> &'a str {
    let known = ERRORS
        .iter()
        .find_map(|error| names.iter().find(|name| *name == error));
    known.or(names.first()).copied().unwrap_or_default()
}

/// Drops the handles that the guest has lent or passed.
fn give_back(store: &mut StoreContextMut<'_, InstanceState>, value: &Val) -> wasmtime::Result<()> {
    match value {
        Val::Resource(resource) => resource.resource_drop(&mut *store),
        Val::List(values) if matches!(values.first(), Some(Val::Resource(_))) => {
            values.iter().try_for_each(|value| give_back(store, value))
        }
        _ => Ok(()),
    }
}
