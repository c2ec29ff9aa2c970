//! Policy requests in case files.
use super::{
    case::infos,
    case_parse::{Code, InfoWord, ProcWord, RangeWord, User},
};
use peal_model::{
    Application, ConnectionKind, GroupOperationKind, Info, PeerInfo, PolicyRequest, PolicySubject,
    Provision, Range, Status, TargetProc, UnixGroup, UserIdentity,
};
use serde::Deserialize;

const GROUP_KINDS: &str = "a request about a group has a kind, \"construct\", \"destruct\", \"invite\" or \"join\", and no code";

/// Default user of the server in a case.
const SERVER: UserIdentity = UserIdentity { uid: 0, gid: 0 };

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum HookWord {
    Connection,
    Event,
    Registration,
    JobControl,
    Monitor,
    Provision,
    Log,
    Group,
    Spawn,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KindWord {
    Client,
    Tool,
    Construct,
    Destruct,
    Invite,
    Join,
}

impl KindWord {
    /// Returns the operation on a group.
    fn of_group(self) -> Option<GroupOperationKind> {
        match self {
            KindWord::Client | KindWord::Tool => None,
            KindWord::Construct => Some(GroupOperationKind::Construct),
            KindWord::Destruct => Some(GroupOperationKind::Destruct),
            KindWord::Invite => Some(GroupOperationKind::Invite),
            KindWord::Join => Some(GroupOperationKind::Join),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetWord {
    proc: ProcWord,
    owner: Option<User>,
}

/// Unix group by its id alone, or with its name.
#[derive(Deserialize)]
#[serde(untagged)]
enum GroupWord {
    Number(u32),
    Named { gid: u32, name: String },
}

impl From<GroupWord> for UnixGroup {
    fn from(word: GroupWord) -> UnixGroup {
        match word {
            GroupWord::Number(gid) => UnixGroup { gid, name: None },
            GroupWord::Named { gid, name } => UnixGroup {
                gid,
                name: Some(name),
            },
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerWord {
    pid: Option<u32>,
    release: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplicationWord {
    command: String,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    environment: Vec<String>,
    directory: Option<String>,
    #[serde(default = "one")]
    procs: u32,
    #[serde(default)]
    directives: Vec<InfoWord>,
}

fn one() -> u32 {
    1
}

impl ApplicationWord {
    /// Returns the application as policies see it, and its own directives.
    fn split(self) -> (Application, Vec<Info>) {
        let ApplicationWord {
            command,
            arguments,
            environment,
            directory,
            procs,
            directives,
        } = self;
        let own = infos(directives);
        (
            Application {
                command,
                arguments,
                environment,
                directory,
                procs,
                directives: own.len(),
            },
            own,
        )
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestWord {
    hook: HookWord,
    kind: Option<KindWord>,
    name: Option<String>,
    code: Option<Code>,
    range: Option<RangeWord>,
    codes: Option<Vec<Code>>,
    requester: Option<ProcWord>,
    user: Option<User>,
    #[serde(default)]
    groups: Vec<GroupWord>,
    server: Option<User>,
    peer: Option<PeerWord>,
    #[serde(default)]
    targets: Vec<TargetWord>,
    nodes: Option<Vec<String>>,
    image: Option<String>,
    applications: Option<Vec<ApplicationWord>>,
    #[serde(default)]
    infos: Vec<InfoWord>,
    #[serde(default)]
    directives: Vec<InfoWord>,
}

impl RequestWord {
    pub(super) fn request(self) -> Result<PolicyRequest, &'static str> {
        let RequestWord {
            hook,
            kind,
            name,
            code,
            range,
            codes,
            requester,
            user,
            groups,
            server,
            peer,
            targets,
            nodes,
            image,
            applications,
            infos: words,
            directives,
        } = self;
        let matter = match (hook, kind, code, range) {
            (HookWord::Connection, Some(KindWord::Client), None, None) => {
                PolicySubject::Connection(ConnectionKind::Client)
            }
            (HookWord::Connection, Some(KindWord::Tool), None, None) => {
                PolicySubject::Connection(ConnectionKind::Tool)
            }
            (HookWord::Connection, ..) => {
                return Err("a connection has a kind, \"client\" or \"tool\", and no code");
            }
            (HookWord::Event, None, Some(code), range) => PolicySubject::Event {
                code: code.0,
                range: range.map_or(Range::Session, |range| range.0),
            },
            (HookWord::Event, ..) => {
                return Err("a request about an event has a code, and no kind");
            }
            (HookWord::Registration, None, None, None) => PolicySubject::Registration,
            (HookWord::Registration, ..) => {
                return Err("a registration has codes, and neither kind, code nor range");
            }
            (HookWord::JobControl, None, None, None) => PolicySubject::JobControl,
            (HookWord::JobControl, ..) => {
                return Err("job control has targets, and neither kind, code nor range");
            }
            (HookWord::Monitor, None, None, None) => PolicySubject::Monitor,
            (HookWord::Monitor, ..) => {
                return Err("a request to monitor has infos, and neither kind, code nor range");
            }
            (HookWord::Provision, None, None, None) => PolicySubject::Provision,
            (HookWord::Provision, ..) => {
                return Err("a request for nodes has nodes, and neither kind, code nor range");
            }
            (HookWord::Log, None, None, None) => PolicySubject::Log,
            (HookWord::Group, Some(kind), None, None) => match kind.of_group() {
                Some(kind) => PolicySubject::Group(kind),
                None => return Err(GROUP_KINDS),
            },
            (HookWord::Group, ..) => return Err(GROUP_KINDS),
            (HookWord::Spawn, None, None, None) => PolicySubject::Spawn,
            (HookWord::Spawn, ..) => {
                return Err(
                    "a request to spawn has applications, and neither kind, code nor range",
                );
            }
            (HookWord::Log, ..) => {
                return Err("a log request has infos, and neither kind, code nor range");
            }
        };
        if peer.is_some() && hook != HookWord::Connection {
            return Err("only a connection has a peer");
        }
        if name.is_some() && hook != HookWord::Group {
            return Err("only a request about a group has a name");
        }
        if codes.is_some() && hook != HookWord::Registration {
            return Err("only a registration has codes");
        }
        if (hook == HookWord::Provision) != nodes.is_some() || (nodes.is_none() && image.is_some())
        {
            return Err("a request for nodes has nodes, and perhaps an image; others have neither");
        }
        if (hook == HookWord::Spawn) != applications.is_some()
            || (applications.is_some() && !words.is_empty())
        {
            return Err(
                "a request to spawn has applications, and no infos beside their directives; others have none",
            );
        }
        let (applications, own): (Vec<Application>, Vec<Vec<Info>>) = applications
            .into_iter()
            .flatten()
            .map(ApplicationWord::split)
            .unzip();
        let target = |target: TargetWord| TargetProc {
            proc: target.proc.0,
            owner: target.owner.map(|owner| owner.0),
        };
        Ok(PolicyRequest {
            matter,
            requester: requester.map(|proc| proc.0),
            identity: user.map(|user| user.0),
            groups: groups.into_iter().map(UnixGroup::from).collect(),
            server: server.map_or(SERVER, |server| server.0),
            peer: peer.map(|PeerWord { pid, release }| PeerInfo { pid, release }),
            targets: targets.into_iter().map(target).collect(),
            codes: codes
                .into_iter()
                .flatten()
                .map(|code| code.0)
                .collect::<Vec<Status>>(),
            group_name: name,
            provision: nodes.map(|nodes| Provision { nodes, image }),
            applications,
            infos: infos(words)
                .into_iter()
                .chain(own.into_iter().flatten())
                .collect(),
            directives: infos(directives),
        })
    }
}
