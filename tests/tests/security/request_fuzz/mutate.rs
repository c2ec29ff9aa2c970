//! Mutations of requests that are encoded correctly, and mutations of bytes.
use peal_model::{
    DataArray, Info, InfoFlags, Key, Kval, Nspace, Proc, Rank, Request, Status, Text, Value,
    names::ATTRIBUTES, rank,
};
use peal_tests::rng::SplitMix64;

/// All parts of a request that can be replaced by others of their kind.
#[derive(Default)]
struct Parts<'a> {
    infos: Vec<&'a mut Vec<Info>>,
    values: Vec<&'a mut Vec<Kval>>,
    procs: Vec<&'a mut Vec<Proc>>,
    proc: Vec<&'a mut Proc>,
    codes: Vec<&'a mut Vec<Status>>,
    code: Vec<&'a mut Status>,
    texts: Vec<&'a mut Vec<Option<Text>>>,
    text: Vec<&'a mut Option<Text>>,
    number: Vec<&'a mut u64>,
}

fn parts(request: &mut Request) -> Parts<'_> {
    let mut parts = Parts::default();
    match request {
        Request::JobData | Request::Finalize => {}
        Request::Abort {
            status,
            message,
            targets,
        } => {
            parts.code.push(status);
            parts.text.push(message);
            parts.procs.push(targets);
        }
        Request::Commit(commits) => parts
            .values
            .extend(commits.iter_mut().map(|commit| &mut commit.kvals)),
        Request::Fence { procs, infos }
        | Request::Connect { procs, infos }
        | Request::Disconnect { procs, infos }
        | Request::JobControl {
            targets: procs,
            directives: infos,
        }
        | Request::IofPush {
            targets: procs,
            directives: infos,
            ..
        } => {
            parts.procs.push(procs);
            parts.infos.push(infos);
        }
        Request::Get { proc, infos, key } => {
            parts.proc.push(proc);
            parts.infos.push(infos);
            parts.text.push(key);
        }
        Request::Lookup { keys, infos, .. } | Request::Unpublish { keys, infos, .. } => {
            parts.texts.push(keys);
            parts.infos.push(infos);
        }
        Request::Spawn { infos, apps } => {
            parts.infos.push(infos);
            for app in apps {
                parts.text.extend([&mut app.command, &mut app.cwd]);
                parts.texts.extend([&mut app.args, &mut app.env]);
                parts.infos.push(&mut app.infos);
            }
        }
        Request::Notify { code, infos, .. } => {
            parts.code.push(code);
            parts.infos.push(infos);
        }
        Request::RegisterEvents { codes, infos } => {
            parts.codes.push(codes);
            parts.infos.push(infos);
        }
        Request::DeregisterEvents { codes } => parts.codes.push(codes),
        Request::Query { queries } => {
            for query in queries {
                parts.texts.push(&mut query.keys);
                parts.infos.push(&mut query.qualifiers);
            }
        }
        Request::Log {
            timestamp,
            data,
            directives,
        } => {
            parts.number.push(timestamp);
            parts.infos.extend([data, directives]);
        }
        Request::Monitor {
            error, directives, ..
        } => {
            parts.code.push(error);
            parts.infos.push(directives);
        }
        Request::IofPull {
            sources,
            directives,
            local_id,
            ..
        } => {
            parts.procs.push(sources);
            parts.infos.push(directives);
            parts.number.push(local_id);
        }
        Request::IofDeregister {
            directives,
            remote_id,
        } => {
            parts.infos.push(directives);
            parts.number.push(remote_id);
        }
        Request::GroupConstruct {
            group,
            procs,
            directives,
        }
        | Request::GroupDestruct {
            group,
            members: procs,
            directives,
        } => {
            parts.text.push(group);
            parts.procs.push(procs);
            parts.infos.push(directives);
        }
        Request::GroupLeave { group, directives } => {
            parts.text.push(group);
            parts.infos.push(directives);
        }
        Request::FabricUpdate { index } => parts.number.push(index),
        Request::DeviceDistances { cpuset, infos, .. } => {
            parts.text.push(cpuset);
            parts.infos.push(infos);
        }
        Request::RefreshCache { proc } => parts.proc.push(proc),
        Request::ResourceBlock { block, infos, .. } => {
            parts.text.push(block);
            parts.infos.push(infos);
        }
        Request::ResolvePeers { node, .. } => parts.text.push(node),
        Request::ResolveNode { .. } => {}
        Request::Publish { infos, .. }
        | Request::Allocate { infos, .. }
        | Request::GetCredential { directives: infos }
        | Request::ValidateCredential {
            directives: infos, ..
        }
        | Request::FabricRegister { directives: infos }
        | Request::SessionControl { infos, .. } => parts.infos.push(infos),
    }
    parts
}

/// Changes several parts of a request to invalid ones. `any` returns a value of any type.
pub fn typed(request: &mut Request, seeded: &mut SplitMix64, any: &mut dyn FnMut() -> Value) {
    for _ in 0..=seeded.below(4) {
        let parts = parts(request);
        let kind = seeded.below(9);
        let which = |count: usize, seeded: &mut SplitMix64| seeded.below(count.max(1));
        macro_rules! change {
            ($all:expr, $how:expr) => {{
                let mut all = $all;
                let at = which(all.len(), seeded);
                if let Some(part) = all.get_mut(at) {
                    $how(&mut **part, seeded)
                }
            }};
        }
        match kind {
            0..3 => change!(
                parts.infos,
                |infos: &mut Vec<Info>, seeded: &mut SplitMix64| {
                    wrong_infos(infos, seeded, any)
                }
            ),
            3 => change!(
                parts.values,
                |kvals: &mut Vec<Kval>, seeded: &mut SplitMix64| {
                    let value = wrong_value(seeded, any);
                    match kvals.first_mut() {
                        Some(kval) if seeded.once_in(2) => kval.value = value,
                        _ => kvals.push(Kval {
                            key: known_key(seeded),
                            value,
                        }),
                    }
                }
            ),
            4 => change!(
                parts.procs,
                |procs: &mut Vec<Proc>, seeded: &mut SplitMix64| match seeded.below(4) {
                    0 => procs.clear(),
                    1 => procs.extend(procs.clone()),
                    2 => procs.extend(
                        (0..seeded.below(2000)).map(|at| Proc::new(a_nspace(at), Rank(at as u32)))
                    ),
                    _ => procs.iter_mut().for_each(|proc| wrong_proc(proc, seeded)),
                }
            ),
            5 => change!(parts.proc, wrong_proc),
            6 => change!(
                parts.codes,
                |codes: &mut Vec<Status>, seeded: &mut SplitMix64| match seeded.below(3) {
                    0 => codes.clear(),
                    1 => codes.extend((0..seeded.below(2000)).map(|at| Status(-8000 - at as i32))),
                    _ => codes.push(*seeded.one_of(&[
                        Status(i32::MIN),
                        Status(i32::MAX),
                        Status(0),
                        Status(-61)
                    ])),
                }
            ),
            7 => {
                change!(parts.code, |code: &mut Status, seeded: &mut SplitMix64| {
                    *code = *seeded.one_of(&[
                        Status(i32::MIN),
                        Status(i32::MAX),
                        Status(0),
                        Status(-61),
                        Status(-159),
                    ])
                });
                change!(parts.number, |number: &mut u64, seeded: &mut SplitMix64| {
                    *number = *seeded.one_of(&[0, 1, u64::MAX, u64::MAX / 2, 1 << 32])
                });
            }
            _ => {
                change!(
                    parts.text,
                    |text: &mut Option<Text>, seeded: &mut SplitMix64| *text = wrong_text(seeded)
                );
                change!(
                    parts.texts,
                    |texts: &mut Vec<Option<Text>>, seeded: &mut SplitMix64| match seeded.below(3) {
                        0 => texts.clear(),
                        1 => texts.extend((0..seeded.below(200)).map(|_| Some("again".into()))),
                        _ => texts.push(wrong_text(seeded)),
                    }
                );
            }
        }
    }
}

fn wrong_infos(infos: &mut Vec<Info>, seeded: &mut SplitMix64, any: &mut dyn FnMut() -> Value) {
    let at = seeded.below(infos.len().max(1));
    match (seeded.below(7), infos.get_mut(at)) {
        (0 | 1, Some(info)) => info.value = wrong_value(seeded, any),
        (2, Some(info)) => info.flags = InfoFlags(seeded.number() as u32),
        (3, Some(_)) => drop(infos.remove(at)),
        (4, Some(_)) => infos.extend(infos.clone()),
        (5, Some(info)) => {
            let many = vec![info.clone(); seeded.below(500)];
            infos.extend(many);
        }
        _ => infos.push(Info::new(known_key(seeded), wrong_value(seeded, any))),
    }
}

/// Returns a random key of the Standard.
fn known_key(seeded: &mut SplitMix64) -> Key {
    Key::new(seeded.one_of(ATTRIBUTES).key).unwrap()
}

fn wrong_value(seeded: &mut SplitMix64, any: &mut dyn FnMut() -> Value) -> Value {
    match seeded.below(12) {
        0 => Value::String(wrong_text(seeded)),
        1 => Value::String(None),
        2 => seeded
            .one_of(&[
                Value::Int(-1),
                Value::Uint64(u64::MAX),
                Value::Int64(i64::MIN),
            ])
            .clone(),
        3 => Value::Double(f64::MAX),
        // The nesting reaches the limit of messages, and exceeds the requester's own limit.
        4 => nested(seeded.below(20), any()),
        5 => Value::DataArray(DataArray::infos(
            (0..seeded.below(300)).map(|_| Info::new(known_key(seeded), any())),
        )),
        6 => {
            let mut proc = Proc::new(a_nspace(0), Rank(0));
            wrong_proc(&mut proc, seeded);
            if seeded.once_in(2) {
                Value::Proc(proc)
            } else {
                Value::procs(vec![proc; seeded.below(50)])
            }
        }
        7 => Value::ByteObject(seeded.bytes(5000).into()),
        _ => any(),
    }
}

fn nested(levels: usize, innermost: Value) -> Value {
    (0..levels).fold(innermost, |inner, level| match level % 3 {
        0 => Value::Value(Box::new(inner)),
        1 => Value::Info(Box::new(Info::new(peal_model::key::PMIX_TIMEOUT, inner))),
        _ => Value::DataArray(DataArray::infos([Info::new(
            peal_model::key::PMIX_TIMEOUT,
            inner,
        )])),
    })
}

fn wrong_text(seeded: &mut SplitMix64) -> Option<Text> {
    match seeded.below(6) {
        0 => None,
        1 => Some("".into()),
        2 => Some(Text::from_bytes(&vec![b'x'; seeded.below(100_000)])),
        3 => Some(Text::from_bytes(&vec![0xff; 1 + seeded.below(20)])),
        4 => Some("../../../etc/passwd".into()),
        _ => Some(seeded.one_of(ATTRIBUTES).key.into()),
    }
}

fn wrong_proc(proc: &mut Proc, seeded: &mut SplitMix64) {
    let ranks = [
        rank::PMIX_RANK_UNDEF,
        rank::PMIX_RANK_WILDCARD,
        rank::PMIX_RANK_LOCAL_NODE,
        rank::PMIX_RANK_LOCAL_PEERS,
        rank::PMIX_RANK_INVALID,
        rank::PMIX_RANK_VALID,
        Rank(1_000_000),
        Rank(u32::MAX),
    ];
    match seeded.below(3) {
        0 => proc.nspace = a_nspace(seeded.below(3)),
        _ => proc.rank = *seeded.one_of(&ranks),
    }
}

fn a_nspace(at: usize) -> Nspace {
    match at % 3 {
        0 => Nspace::default(),
        1 => Nspace::new(&"n".repeat(Nspace::MAX)).unwrap(),
        _ => Nspace::new("elsewhere").unwrap(),
    }
}

/// Changes several bytes of a message.
pub fn bytes(payload: &mut Vec<u8>, seeded: &mut SplitMix64) {
    for _ in 0..=seeded.below(4) {
        let at = seeded.below(payload.len().max(1));
        let random = seeded.number().to_le_bytes()[0];
        match (seeded.below(7), payload.get_mut(at)) {
            (0, Some(byte)) => *byte ^= 1 << (random % 8),
            (1, Some(byte)) => *byte = *seeded.one_of(&[0, 1, 0x7f, 0x80, 0xff]),
            (2, Some(byte)) => *byte = random,
            (3, _) => payload.truncate(at),
            (4, Some(_)) => drop(payload.remove(at)),
            (5, Some(_)) => {
                let end = (at + seeded.below(64)).min(payload.len());
                let again = payload[at..end].to_vec();
                payload.splice(at..at, again);
            }
            _ => payload.extend(seeded.bytes(32)),
        }
    }
}
