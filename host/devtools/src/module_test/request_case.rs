//! Policy requests in case files.
use super::{
    case::infos,
    case_parse::{Code, InfoWord, ProcWord, RangeWord, User},
};
use peal_model::{
    Application, ConnectionKind, ConnectionSubject, EventSubject, GroupOperationKind, GroupSubject,
    Info, JobControlSubject, LogSubject, MonitorSubject, PeerInfo, PolicyRequest, PolicySubject,
    ProvisionSubject, Range, RegistrationSubject, SpawnSubject, TargetProc, UnixGroup,
    UserIdentity,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::mem;

/// Default user of the server in a case.
const SERVER: UserIdentity = UserIdentity { uid: 0, gid: 0 };

#[derive(Clone, Copy, PartialEq, Deserialize, JsonSchema)]
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

#[derive(Clone, Copy, Deserialize, JsonSchema)]
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
    /// Returns the kind of a peer.
    fn of_connection(self) -> Option<ConnectionKind> {
        match self {
            KindWord::Client => Some(ConnectionKind::Client),
            KindWord::Tool => Some(ConnectionKind::Tool),
            _ => None,
        }
    }

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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TargetWord {
    proc: ProcWord,
    owner: Option<User>,
}

/// Unix group by its id alone, or with its name.
#[derive(Deserialize, JsonSchema)]
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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PeerWord {
    pid: Option<u32>,
    release: String,
}

#[derive(Deserialize, JsonSchema)]
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

/// A request. The fields of [`SubjectWords`] depend on its hook.
#[derive(Deserialize, JsonSchema)]
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
    /// Returns the request. A subject is taken out of the fields of its hook; a field that is left
    /// belongs to another hook.
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
        let words = SubjectWords {
            kind,
            name,
            code,
            range,
            codes,
            peer,
            nodes,
            image,
            applications,
            infos: infos(words),
            directives: infos(directives),
        };
        let target = |target: TargetWord| TargetProc {
            proc: target.proc.0,
            owner: target.owner.map(|owner| owner.0),
        };
        Ok(PolicyRequest {
            subject: words.subject(hook)?,
            requester: requester.map(|proc| proc.0),
            identity: user.map(|user| user.0),
            groups: groups.into_iter().map(UnixGroup::from).collect(),
            server: server.map_or(SERVER, |server| server.0),
            targets: targets.into_iter().map(target).collect(),
        })
    }
}

/// The fields of a request that depend on its hook.
struct SubjectWords {
    kind: Option<KindWord>,
    name: Option<String>,
    code: Option<Code>,
    range: Option<RangeWord>,
    codes: Option<Vec<Code>>,
    peer: Option<PeerWord>,
    nodes: Option<Vec<String>>,
    image: Option<String>,
    applications: Option<Vec<ApplicationWord>>,
    infos: Vec<Info>,
    directives: Vec<Info>,
}

impl SubjectWords {
    /// Returns the subject of a request to a hook.
    ///
    /// # Errors
    ///
    /// Fails with the fields that the hook has, if one of them is missing or another one is given.
    fn subject(mut self, hook: HookWord) -> Result<PolicySubject, &'static str> {
        let (subject, fields) = match hook {
            HookWord::Connection => (
                self.connection(),
                "a connection has a kind, \"client\" or \"tool\", and perhaps a peer and infos",
            ),
            HookWord::Event => (
                self.event(),
                "a request about an event has a code, and perhaps a range and infos",
            ),
            HookWord::Registration => (
                self.registration(),
                "a registration has codes and directives only",
            ),
            HookWord::JobControl => (
                Some(PolicySubject::JobControl(JobControlSubject {
                    directives: mem::take(&mut self.directives),
                    ..JobControlSubject::default()
                })),
                "job control has targets and directives only",
            ),
            HookWord::Monitor => (
                self.monitor(),
                "a request to monitor has one info, the monitor, and perhaps targets and directives",
            ),
            HookWord::Provision => (
                self.provision(),
                "a request for nodes has nodes, and perhaps an image and directives",
            ),
            HookWord::Log => (
                Some(PolicySubject::Log(LogSubject {
                    data: mem::take(&mut self.infos),
                    directives: mem::take(&mut self.directives),
                })),
                "a log request has infos and directives only",
            ),
            HookWord::Group => (
                self.group(),
                "a request about a group has a kind, \"construct\", \"destruct\", \"invite\" or \"join\", and perhaps a name, targets and directives",
            ),
            HookWord::Spawn => (
                self.spawn(),
                "a request to spawn has applications, with infos as their directives, and perhaps directives",
            ),
        };
        match subject {
            Some(subject) if self.is_empty() => Ok(subject),
            _ => Err(fields),
        }
    }

    fn connection(&mut self) -> Option<PolicySubject> {
        let peer = self.peer.take().map(|peer| PeerInfo {
            pid: peer.pid,
            release: peer.release,
        });
        Some(PolicySubject::Connection(ConnectionSubject {
            kind: self.kind.take()?.of_connection()?,
            peer: peer.unwrap_or(PeerInfo {
                pid: None,
                release: String::new(),
            }),
            infos: mem::take(&mut self.infos),
        }))
    }

    fn event(&mut self) -> Option<PolicySubject> {
        Some(PolicySubject::Event(EventSubject {
            code: self.code.take()?.0,
            range: self.range.take().map_or(Range::Session, |range| range.0),
            infos: mem::take(&mut self.infos),
        }))
    }

    fn registration(&mut self) -> Option<PolicySubject> {
        // A registration without codes is for all codes, so the field may be missing.
        let codes = self.codes.take().into_iter().flatten();
        Some(PolicySubject::Registration(RegistrationSubject {
            codes: codes.map(|code| code.0).collect(),
            directives: mem::take(&mut self.directives),
        }))
    }

    fn monitor(&mut self) -> Option<PolicySubject> {
        // A further info stays in the list and is refused by `is_empty`.
        let monitor = self.infos.pop()?;
        Some(PolicySubject::Monitor(MonitorSubject {
            monitor,
            directives: mem::take(&mut self.directives),
        }))
    }

    fn provision(&mut self) -> Option<PolicySubject> {
        Some(PolicySubject::Provision(ProvisionSubject {
            nodes: self.nodes.take()?,
            image: self.image.take(),
            directives: mem::take(&mut self.directives),
        }))
    }

    fn group(&mut self) -> Option<PolicySubject> {
        Some(PolicySubject::Group(GroupSubject {
            kind: self.kind.take()?.of_group()?,
            name: self.name.take(),
            directives: mem::take(&mut self.directives),
        }))
    }

    fn spawn(&mut self) -> Option<PolicySubject> {
        let applications = self.applications.take()?.into_iter();
        // The directives of all applications follow each other in a subject. Each application has
        // the number of its own.
        let (applications, infos): (Vec<Application>, Vec<Vec<Info>>) =
            applications.map(ApplicationWord::split).unzip();
        Some(PolicySubject::Spawn(SpawnSubject {
            applications,
            infos: infos.into_iter().flatten().collect(),
            directives: mem::take(&mut self.directives),
        }))
    }

    /// Returns true if no field is left.
    fn is_empty(&self) -> bool {
        // Without `..`: a new field is an error of the compiler here until it is checked.
        let SubjectWords {
            kind,
            name,
            code,
            range,
            codes,
            peer,
            nodes,
            image,
            applications,
            infos,
            directives,
        } = self;
        let has_words = kind.is_some() || name.is_some() || code.is_some() || range.is_some();
        let has_parts = codes.is_some() || peer.is_some() || applications.is_some();
        let has_nodes = nodes.is_some() || image.is_some();
        let has_infos = !infos.is_empty() || !directives.is_empty();
        !(has_words || has_parts || has_nodes || has_infos)
    }
}
