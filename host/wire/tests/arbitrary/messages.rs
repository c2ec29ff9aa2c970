//! Any handshake, request, reply and event, as far as a dialect can say it.
use super::values::*;
use peal_model::{CommandCode as C, *};
use peal_wire::*;
use proptest::{collection::vec, option, prelude::*, sample::select};

fn status() -> BoxedStrategy<Status> {
    any::<i32>().prop_map(Status).boxed()
}

fn optional_nspace() -> BoxedStrategy<Option<Nspace>> {
    option::of(nspace()).boxed()
}

fn range() -> BoxedStrategy<Range> {
    select(Range::ALL).boxed()
}

fn commit(dialect: Dialect) -> BoxedStrategy<Commit> {
    (select(Scope::ALL), some(kval(dialect)))
        .prop_map(|(scope, kvals)| Commit { scope, kvals })
        .boxed()
}

/// A request with that command.
pub fn request(d: Dialect, command: C) -> BoxedStrategy<Request> {
    let infos = || some(info(d));
    let procs = || some(proc());
    match command {
        C::JobData => Just(Request::JobData).boxed(),
        C::Abort => (status(), text(), procs())
            .prop_map(|(status, message, targets)| Request::Abort {
                status,
                message,
                targets,
            })
            .boxed(),
        C::Commit => some(commit(d)).prop_map(Request::Commit).boxed(),
        C::Fence => (procs(), infos())
            .prop_map(|(procs, infos)| Request::Fence { procs, infos })
            .boxed(),
        C::Get => (proc(), infos(), text())
            .prop_map(|(proc, infos, key)| Request::Get { proc, infos, key })
            .boxed(),
        C::Finalize => Just(Request::Finalize).boxed(),
        C::Publish => (any::<u32>(), infos())
            .prop_map(|(uid, infos)| Request::Publish { uid, infos })
            .boxed(),
        C::Lookup => (any::<u32>(), some(text()), infos())
            .prop_map(|(uid, keys, infos)| Request::Lookup { uid, keys, infos })
            .boxed(),
        C::Unpublish => (any::<u32>(), some(text()), infos())
            .prop_map(|(uid, keys, infos)| Request::Unpublish { uid, keys, infos })
            .boxed(),
        C::Spawn => (infos(), some(app(d)))
            .prop_map(|(infos, apps)| Request::Spawn { infos, apps })
            .boxed(),
        C::Connect => (procs(), infos())
            .prop_map(|(procs, infos)| Request::Connect { procs, infos })
            .boxed(),
        C::Disconnect => (procs(), infos())
            .prop_map(|(procs, infos)| Request::Disconnect { procs, infos })
            .boxed(),
        C::Notify => (status(), range(), infos())
            .prop_map(|(code, range, infos)| Request::Notify { code, range, infos })
            .boxed(),
        C::RegisterEvents => (some(status()), infos())
            .prop_map(|(codes, infos)| Request::RegisterEvents { codes, infos })
            .boxed(),
        C::DeregisterEvents => some(status())
            .prop_map(|codes| Request::DeregisterEvents { codes })
            .boxed(),
        C::Query => some(query(d))
            .prop_map(|queries| Request::Query { queries })
            .boxed(),
        C::Log => (any::<u64>(), infos(), infos())
            .prop_map(|(timestamp, data, directives)| Request::Log {
                timestamp,
                data,
                directives,
            })
            .boxed(),
        C::Allocate => (any::<u8>(), infos())
            .prop_map(|(directive, infos)| Request::Allocate { directive, infos })
            .boxed(),
        C::JobControl => (procs(), infos())
            .prop_map(|(targets, directives)| Request::JobControl {
                targets,
                directives,
            })
            .boxed(),
        C::Monitor => (info(d), status(), infos())
            .prop_map(|(monitor, error, directives)| Request::Monitor {
                monitor,
                error,
                directives,
            })
            .boxed(),
        C::GetCredential => infos()
            .prop_map(|directives| Request::GetCredential { directives })
            .boxed(),
        C::ValidateCredential => (bytes(), infos())
            .prop_map(|(credential, directives)| Request::ValidateCredential {
                credential,
                directives,
            })
            .boxed(),
        C::IofPull => (
            procs(),
            infos(),
            any::<u16>().prop_map(IofChannel),
            any::<u64>(),
        )
            .prop_map(
                |(sources, directives, channels, local_id)| Request::IofPull {
                    sources,
                    directives,
                    channels,
                    local_id,
                },
            )
            .boxed(),
        C::IofPush => (procs(), infos(), option::of(bytes()))
            .prop_map(|(targets, directives, data)| Request::IofPush {
                targets,
                directives,
                data,
            })
            .boxed(),
        C::IofDeregister => (infos(), any::<u64>())
            .prop_map(|(directives, remote_id)| Request::IofDeregister {
                directives,
                remote_id,
            })
            .boxed(),
        C::GroupConstruct => (text(), procs(), infos())
            .prop_map(|(group, procs, directives)| Request::GroupConstruct {
                group,
                procs,
                directives,
            })
            .boxed(),
        C::GroupDestruct => {
            let short = d.group_destruct() == GroupDestruct::Short;
            let members = if short {
                Just(Vec::new()).boxed()
            } else {
                procs()
            };
            (text(), members, infos())
                .prop_map(|(group, members, directives)| Request::GroupDestruct {
                    group,
                    members,
                    directives,
                })
                .boxed()
        }
        C::GroupLeave => (text(), infos())
            .prop_map(|(group, directives)| Request::GroupLeave { group, directives })
            .boxed(),
        C::FabricRegister => infos()
            .prop_map(|directives| Request::FabricRegister { directives })
            .boxed(),
        C::FabricUpdate => any::<u64>()
            .prop_map(|index| Request::FabricUpdate { index })
            .boxed(),
        C::DeviceDistances => (topology(), text(), infos())
            .prop_map(|(topology, cpuset, infos)| Request::DeviceDistances {
                topology,
                cpuset,
                infos,
            })
            .boxed(),
        C::RefreshCache => proc()
            .prop_map(|proc| Request::RefreshCache { proc })
            .boxed(),
        C::ResourceBlock => (any::<u8>(), text(), some(unit()), infos())
            .prop_map(|(directive, block, units, infos)| Request::ResourceBlock {
                directive,
                block,
                units,
                infos,
            })
            .boxed(),
        C::SessionControl => (any::<u32>(), infos())
            .prop_map(|(session, infos)| Request::SessionControl { session, infos })
            .boxed(),
        C::ResolvePeers => (text(), optional_nspace())
            .prop_map(|(node, nspace)| Request::ResolvePeers { node, nspace })
            .boxed(),
        C::ResolveNode => optional_nspace()
            .prop_map(|nspace| Request::ResolveNode { nspace })
            .boxed(),
    }
}

fn job(d: Dialect) -> BoxedStrategy<JobInfo> {
    let rank =
        (any::<u32>(), some(kval(d))).prop_map(|(rank, kvals)| JobEntry::Rank(Rank(rank), kvals));
    let entry = prop_oneof![kval(d).prop_map(JobEntry::Job), rank];
    (nspace(), some(entry.boxed()))
        .prop_map(|(nspace, entries)| JobInfo { nspace, entries })
        .boxed()
}

/// At least one, where none at all would make the reply one of a status only.
fn at_least_one<T: std::fmt::Debug + 'static>(one: BoxedStrategy<T>) -> BoxedStrategy<Vec<T>> {
    vec(one, 1..4).boxed()
}

fn group(d: Dialect) -> BoxedStrategy<Reply> {
    let form = d.group_reply();
    let all = (
        status(),
        some(proc()),
        option::of(0..u64::MAX),
        some(job(d)),
        some(info(d)),
    );
    all.prop_map(
        move |(status, mut members, context_id, mut jobs, mut infos)| {
            // Earlier releases get no more of a failure than its status.
            let status = if form == GroupReply::MembersIdInfos {
                status
            } else {
                Status(0)
            };
            if form == GroupReply::Id {
                members.clear();
            }
            if form != GroupReply::MembersIdJobs {
                jobs.clear();
            }
            if form != GroupReply::MembersIdInfos {
                infos.clear();
            }
            Reply::Group(
                GroupResult {
                    status,
                    members,
                    context_id,
                    jobs,
                    infos,
                }
                .into(),
            )
        },
    )
    .boxed()
}

/// A reply to that command; nothing if it gets none.
pub fn reply(d: Dialect, command: C) -> Option<BoxedStrategy<Reply>> {
    let short = status().prop_map(Reply::Status);
    let infos = || some(info(d));
    let long = match command {
        C::DeregisterEvents => return None,
        C::JobData => return Some(job(d).prop_map(|job| Reply::JobData(job.into())).boxed()),
        C::Get => {
            let rank = (proc(), some(kval(d))).prop_map(|(proc, kvals)| RankData { proc, kvals });
            let all = (status(), at_least_one(rank.boxed()));
            let shared = |ranks: Vec<RankData>| ranks.into_iter().map(Into::into).collect();
            all.prop_map(move |(status, ranks)| Reply::Data {
                status,
                ranks: shared(ranks),
            })
            .boxed()
        }
        C::Lookup => (status(), some(pdata(d)))
            .prop_map(|(status, data)| Reply::Published { status, data })
            .boxed(),
        C::Spawn => (status(), optional_nspace(), some(kval(d)))
            .prop_map(|(status, nspace, kvals)| Reply::Spawned {
                status,
                nspace,
                kvals,
            })
            .boxed(),
        C::Connect => (status(), at_least_one(job(d)))
            .prop_map(|(status, jobs)| Reply::Connected { status, jobs })
            .boxed(),
        C::Query
        | C::Allocate
        | C::JobControl
        | C::Monitor
        | C::ValidateCredential
        | C::FabricRegister
        | C::FabricUpdate
        | C::SessionControl => (status(), infos())
            .prop_map(|(status, infos)| Reply::Infos { status, infos })
            .boxed(),
        C::GetCredential => (status(), bytes(), infos())
            .prop_map(|(status, credential, infos)| Reply::Credential {
                status,
                credential,
                infos,
            })
            .boxed(),
        C::IofPull => (status(), any::<u64>())
            .prop_map(|(status, remote_id)| Reply::IofHandle { status, remote_id })
            .boxed(),
        C::GroupConstruct => group(d),
        C::DeviceDistances => (status(), some(distance()))
            .prop_map(|(status, distances)| Reply::Distances { status, distances })
            .boxed(),
        C::RefreshCache => (status(), at_least_one(kval(d)))
            .prop_map(|(status, kvals)| Reply::Kvals { status, kvals })
            .boxed(),
        C::ResolvePeers => (status(), some(proc()))
            .prop_map(|(status, procs)| Reply::Procs { status, procs })
            .boxed(),
        C::ResolveNode => (status(), text())
            .prop_map(|(status, nodes)| Reply::Nodes { status, nodes })
            .boxed(),
        _ => return Some(short.boxed()),
    };
    Some(prop_oneof![1 => short, 4 => long].boxed())
}

pub fn event(d: Dialect) -> BoxedStrategy<Event> {
    let all = (status(), option::of(proc()), range(), some(info(d)));
    all.prop_map(|(code, source, range, infos)| Event {
        code,
        source,
        range,
        infos,
    })
    .boxed()
}

pub fn output(d: Dialect) -> BoxedStrategy<IofOutput> {
    let all = (
        proc(),
        any::<u16>().prop_map(IofChannel),
        any::<u64>(),
        some(info(d)),
        bytes(),
    );
    all.prop_map(|(source, channels, local_id, infos, data)| IofOutput {
        source,
        channels,
        local_id,
        infos,
        data,
    })
    .boxed()
}

fn user() -> BoxedStrategy<ClaimedUser> {
    any::<(u32, u32)>()
        .prop_map(|(uid, gid)| ClaimedUser { uid, gid })
        .boxed()
}

fn credential() -> BoxedStrategy<Credential> {
    let other = bytes().prop_map(|bytes| Credential::Other {
        module: Text::from("site"),
        bytes,
    });
    let native = user().prop_map(Credential::Native);
    prop_oneof![
        Just(Credential::None),
        native,
        bytes().prop_map(Credential::Munge),
        other
    ]
    .boxed()
}

fn peer() -> BoxedStrategy<PeerKind> {
    let identity = || {
        prop_oneof![
            Just(peal_wire::ToolIdentifier::Wanted),
            proc().prop_map(peal_wire::ToolIdentifier::Own),
            proc().prop_map(peal_wire::ToolIdentifier::Started)
        ]
    };
    prop_oneof![
        proc().prop_map(PeerKind::Client),
        (user(), identity()).prop_map(|(user, identity)| PeerKind::Tool(user, identity)),
        (user(), identity()).prop_map(|(user, identity)| PeerKind::Launcher(user, identity)),
        (user(), proc()).prop_map(|(user, proc)| PeerKind::Singleton(user, proc)),
        (user(), proc()).prop_map(|(user, proc)| PeerKind::Scheduler(user, proc)),
    ]
    .boxed()
}

/// A handshake of a client with this dialect.
pub fn hello(codec: Codec) -> BoxedStrategy<Hello> {
    let Codec {
        dialect,
        buffer_type,
        ..
    } = codec;
    let release = select(vec!["", "rc2", "a1-dirty"])
        .prop_map(move |suffix| format!("{}{suffix}", dialect.version()));
    let gds = text().prop_map(Option::unwrap_or_default);
    let all = (credential(), peer(), release, gds, some(info(dialect)));
    all.prop_map(move |(credential, peer, release, gds, infos)| Hello {
        credential,
        peer,
        release: release.parse().unwrap(),
        encoding: dialect.encoding(),
        buffer_type,
        gds,
        infos,
    })
    .boxed()
}
