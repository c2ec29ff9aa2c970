//! What holds where no policy decides: one rule per hook, each a row of the table in the design, section 3.3.
use peal_model::{
    ConnectionKind, Hook, Info, Infos, PolicyRequest, PolicySubject, Proc, Status, TargetProc,
    UserIdentity, Value, code, key,
};
use std::collections::BTreeMap;
use thiserror::Error;

/// What holds for a hook where all policies pass, or none is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HookDefault {
    /// The rule of the table.
    #[default]
    BuiltIn,
    /// Everything is granted.
    Grant,
    /// Everything is denied.
    Deny,
}

/// The default of each hook, as the site configures it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Defaults(BTreeMap<Hook, HookDefault>);

impl Defaults {
    /// The default of a hook.
    pub fn of(&self, hook: Hook) -> HookDefault {
        self.0.get(&hook).copied().unwrap_or_default()
    }

    /// Sets the default of a hook.
    pub fn set(&mut self, hook: Hook, default: HookDefault) {
        self.0.insert(hook, default);
    }
}

/// A request as the table sees it.
#[derive(Clone, Copy, Debug)]
pub struct RuleRequest<'a> {
    /// Who asks; none for a tool that has no name yet.
    pub requester: Option<&'a Proc>,
    /// As whom, by the kernel's word. Nobody may do nothing.
    pub identity: Option<UserIdentity>,
    /// As whom the server runs.
    pub server: UserIdentity,
    /// Whom it is about.
    pub targets: &'a [TargetProc],
    /// What is asked.
    pub what: RuleSubject<'a>,
}

/// What is asked, and all that its rule needs to know beside who and whom.
#[derive(Clone, Copy, Debug)]
pub enum RuleSubject<'a> {
    /// To connect. The target is the proc itself, or the job that a tool asks about.
    Connection(ConnectionKind),
    /// To raise an event, perhaps in the name of another source (`PMIX_EVENT_PROXY`).
    Event {
        /// The source that is claimed.
        claimed: Option<&'a Value>,
    },
    /// To hear of events. What may be raised, and whom it reaches, is decided for each event.
    Registration,
    /// To write to log channels.
    Log,
    /// To have nodes provided.
    Provision,
    /// To form a group of procs, to invite them, or to come.
    Group,
    /// To have a job spawned.
    Spawn {
        /// The directives of its applications.
        infos: &'a [Info],
        /// Its own.
        directives: &'a [Info],
    },
    /// To control, watch or ask about others, or to act as some user.
    Others {
        /// Which hook it is.
        hook: Hook,
        /// The users that the request names.
        users: &'a [u32],
    },
}

impl<'a> RuleRequest<'a> {
    /// What policies were asked.
    pub fn of(request: &'a PolicyRequest) -> RuleRequest<'a> {
        let what = match request.matter {
            PolicySubject::Connection(kind) => RuleSubject::Connection(kind),
            PolicySubject::Event { .. } => RuleSubject::Event {
                claimed: request.infos.value_of(key::PMIX_EVENT_PROXY),
            },
            PolicySubject::Registration => RuleSubject::Registration,
            PolicySubject::JobControl => RuleSubject::Others {
                hook: Hook::JobControl,
                users: &[],
            },
            PolicySubject::Monitor => RuleSubject::Others {
                hook: Hook::Monitor,
                users: &[],
            },
            PolicySubject::Provision => RuleSubject::Provision,
            PolicySubject::Log => RuleSubject::Log,
            PolicySubject::Group(_) => RuleSubject::Group,
            PolicySubject::Spawn => RuleSubject::Spawn {
                infos: &request.infos,
                directives: &request.directives,
            },
        };
        let PolicyRequest {
            requester,
            identity,
            server,
            targets,
            ..
        } = request;
        RuleRequest {
            requester: requester.as_ref(),
            identity: *identity,
            server: *server,
            targets,
            what,
        }
    }
}

impl RuleSubject<'_> {
    /// The hook whose rule holds.
    pub fn hook(&self) -> Hook {
        match self {
            RuleSubject::Connection(_) => Hook::Connection,
            RuleSubject::Event { .. } | RuleSubject::Registration => Hook::Event,
            RuleSubject::Log => Hook::Log,
            RuleSubject::Provision => Hook::Provision,
            RuleSubject::Group => Hook::Group,
            RuleSubject::Spawn { .. } => Hook::Spawn,
            RuleSubject::Others { hook, .. } => *hook,
        }
    }
}

/// Why a default refuses. Each says who or what stands in the way.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleDenial {
    /// About a proc that nobody knows.
    #[error("{0} is not known here")]
    Unknown(Proc),
    /// About somebody else's proc.
    #[error("{target} belongs to user {owner}, {} to user {uid}", name(.requester.as_ref()))]
    Foreign {
        /// Who asks.
        requester: Option<Proc>,
        /// As whom.
        uid: u32,
        /// About whom.
        target: Proc,
        /// Whose that is.
        owner: u32,
    },
    /// In the name of another user.
    #[error("{} belongs to user {uid} and names user {named}", name(.requester.as_ref()))]
    ForeignUser {
        /// Who asks.
        requester: Option<Proc>,
        /// As whom.
        uid: u32,
        /// The user that is named.
        named: u32,
    },
    /// The kernel does not know who asks.
    #[error("nobody knows whose {} is", name(.0.as_ref()))]
    Nobody(Option<Proc>),
    /// An event of somebody else.
    #[error("{} claims that another was the source of its event", name(.0.as_ref()))]
    ForeignSource(Option<Proc>),
    /// A tool of another user.
    #[error("a tool of user {uid}, who has no job here; the server runs as user {server}")]
    ForeignTool {
        /// Whose tool it is.
        uid: u32,
        /// The server's user.
        server: u32,
    },
    /// Nodes that nobody provides.
    #[error("the site has no provisioner, or none that provides this")]
    NoProvisioner,
    /// The site wants it so.
    #[error("the site's default for {0} is to deny")]
    Configured(Hook),
}

fn name(proc: Option<&Proc>) -> String {
    proc.map_or("a tool without a name".to_owned(), Proc::to_string)
}

impl RuleDenial {
    /// The status that tells the requester of it.
    pub fn status(&self) -> Status {
        match self {
            RuleDenial::Unknown(_) => code::PMIX_ERR_NOT_FOUND,
            RuleDenial::NoProvisioner => code::PMIX_ERR_NOT_SUPPORTED,
            _ => code::PMIX_ERR_NO_PERMISSIONS,
        }
    }
}

/// What a hook's default says to a case.
pub fn decide(default: HookDefault, case: &RuleRequest<'_>) -> Result<(), RuleDenial> {
    match default {
        // A site that lets nobody raise events need not keep anybody from hearing those of the resource manager.
        _ if matches!(case.what, RuleSubject::Registration) => Ok(()),
        HookDefault::Grant => Ok(()),
        HookDefault::Deny => Err(RuleDenial::Configured(case.what.hook())),
        HookDefault::BuiltIn => built_in(case),
    }
}

fn built_in(case: &RuleRequest<'_>) -> Result<(), RuleDenial> {
    match case.what {
        RuleSubject::Connection(ConnectionKind::Client) => own_only(case, &[]),
        RuleSubject::Connection(ConnectionKind::Tool) => tool(case),
        RuleSubject::Event { claimed } => own_event(case, claimed),
        // The channels that there are, are those that the admin lists; what is not there nobody can be granted.
        RuleSubject::Log | RuleSubject::Registration => Ok(()),
        RuleSubject::Provision => Err(RuleDenial::NoProvisioner),
        // Only what the site's own modules ask for has no name.
        RuleSubject::Others { .. }
            if case.requester.is_none() && case.identity == Some(case.server) =>
        {
            Ok(())
        }
        // The kernel tells root of everybody's processes, and so does the server.
        RuleSubject::Others {
            hook: Hook::Query, ..
        } if case.identity.is_some_and(|identity| identity.uid == 0) => known_only(case),
        RuleSubject::Others { users, .. } => own_only(case, users),
        RuleSubject::Group => own_as_far_as_known(case),
        RuleSubject::Spawn { infos, directives } => {
            let users: Vec<u32> = directives
                .iter()
                .chain(infos)
                .filter_map(user_named)
                .collect();
            own_only(case, &users)
        }
    }
}

/// Everybody may raise events, in their own name.
fn own_event(case: &RuleRequest<'_>, claimed: Option<&Value>) -> Result<(), RuleDenial> {
    let requester = || case.requester.cloned();
    if case.identity.is_none() {
        return Err(RuleDenial::Nobody(requester()));
    }
    match claimed {
        Some(Value::Proc(source)) if Some(source) == case.requester => Ok(()),
        Some(_) => Err(RuleDenial::ForeignSource(requester())),
        None => Ok(()),
    }
}

/// The same of those whose jobs are here. Others may be on other servers, and whoever is not of this user there cannot come: the names
/// of groups are each user's own.
fn own_as_far_as_known(case: &RuleRequest<'_>) -> Result<(), RuleDenial> {
    none_foreign(case, uid_of(case)?)
}

/// All that is named belongs to the requester's user.
fn own_only(case: &RuleRequest<'_>, users: &[u32]) -> Result<(), RuleDenial> {
    let uid = uid_of(case)?;
    known_only(case)?;
    none_foreign(case, uid)?;
    match users.iter().find(|user| **user != uid) {
        Some(named) => Err(RuleDenial::ForeignUser {
            requester: case.requester.cloned(),
            uid,
            named: *named,
        }),
        None => Ok(()),
    }
}

/// All that is named is known, whoever it belongs to.
fn known_only(case: &RuleRequest<'_>) -> Result<(), RuleDenial> {
    match case.targets.iter().find(|target| target.owner.is_none()) {
        Some(unknown) => Err(RuleDenial::Unknown(unknown.proc.clone())),
        None => Ok(()),
    }
}

fn uid_of(case: &RuleRequest<'_>) -> Result<u32, RuleDenial> {
    case.identity
        .map(|identity| identity.uid)
        .ok_or_else(|| RuleDenial::Nobody(case.requester.cloned()))
}

/// The user as whom procs shall run.
fn user_named(info: &Info) -> Option<u32> {
    let number = (info.key == key::PMIX_USERID)
        .then(|| info.value.as_u64())
        .flatten()?;
    // Whoever is beyond the numbers of users is nobody's.
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

/// None of those whose owner is known belongs to another user than this.
fn none_foreign(case: &RuleRequest<'_>, uid: u32) -> Result<(), RuleDenial> {
    let foreign = case.targets.iter().find_map(|TargetProc { proc, owner }| {
        let owner = owner.filter(|owner| owner.uid != uid)?.uid;
        Some(RuleDenial::Foreign {
            requester: case.requester.cloned(),
            uid,
            target: proc.clone(),
            owner,
        })
    });
    foreign.map_or(Ok(()), Err)
}

/// Root, the server's own user, or whoever owns all that it asks about.
fn tool(case: &RuleRequest<'_>) -> Result<(), RuleDenial> {
    let uid = case
        .identity
        .ok_or_else(|| RuleDenial::Nobody(case.requester.cloned()))?
        .uid;
    let owns = |target: &TargetProc| target.owner.is_some_and(|owner| owner.uid == uid);
    let owns_all = !case.targets.is_empty() && case.targets.iter().all(owns);
    if uid == 0 || uid == case.server.uid || owns_all {
        Ok(())
    } else {
        Err(RuleDenial::ForeignTool {
            uid,
            server: case.server.uid,
        })
    }
}
