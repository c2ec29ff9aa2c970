//! Decisions where no policy decides: the default of each hook, and its built-in rule.
use peal_model::{
    BuiltInRule, ConnectionKind, Hook, Info, PolicyRequest, Proc, Status, TargetProc, UserIdentity,
    Value, code, key,
};
use std::collections::BTreeMap;
use thiserror::Error;

/// The default of a hook, which holds where all policies pass or none exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HookDefault {
    /// The built-in rule.
    #[default]
    BuiltIn,
    /// Grants all requests.
    Grant,
    /// Denies all requests.
    Deny,
}

/// The default of each hook, as the site configures it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Defaults(BTreeMap<Hook, HookDefault>);

impl Defaults {
    /// Returns the default of a hook.
    pub fn of(&self, hook: Hook) -> HookDefault {
        self.0.get(&hook).copied().unwrap_or_default()
    }

    /// Sets the default of a hook.
    pub fn set(&mut self, hook: Hook, default: HookDefault) {
        // An absent entry means the built-in rule, so that equal defaults compare as equal.
        if default == HookDefault::BuiltIn {
            self.0.remove(&hook);
        } else {
            self.0.insert(hook, default);
        }
    }
}

/// A request as the built-in rules see it.
#[derive(Clone, Copy, Debug)]
pub struct RuleRequest<'a> {
    /// The requester; none for a tool without a name.
    pub requester: Option<&'a Proc>,
    /// The user that the requester runs as, according to the kernel. Without one, requests are
    /// denied.
    pub identity: Option<UserIdentity>,
    /// The user that the server runs as.
    pub server: UserIdentity,
    /// The procs that the request concerns.
    pub targets: &'a [TargetProc],
    /// The hook, for messages.
    pub hook: Hook,
    /// The built-in rule, with the data that it needs beside the requester and the targets.
    pub rule: BuiltInRule<'a>,
}

impl<'a> RuleRequest<'a> {
    /// Returns the rule's view of a policy request.
    pub fn of(request: &'a PolicyRequest) -> RuleRequest<'a> {
        let PolicyRequest {
            subject,
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
            hook: subject.hook(),
            rule: subject.rule(),
        }
    }
}

/// A denial by a default.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleDenial {
    /// A target is unknown.
    #[error("{0} is not known here")]
    Unknown(Proc),
    /// A target belongs to another user.
    #[error("{target} belongs to user {owner}, {} to user {uid}", name(.requester.as_ref()))]
    Foreign {
        /// The requester.
        requester: Option<Proc>,
        /// The user that the requester runs as.
        uid: u32,
        /// The target.
        target: Proc,
        /// The owner of the target.
        owner: u32,
    },
    /// The request names another user.
    #[error("{} belongs to user {uid} and names user {named}", name(.requester.as_ref()))]
    ForeignUser {
        /// The requester.
        requester: Option<Proc>,
        /// The user that the requester runs as.
        uid: u32,
        /// The named user.
        named: u32,
    },
    /// The requester's user is unknown.
    #[error("user of {} is unknown: the kernel reports no owner of its connection", name(.0.as_ref()))]
    UnknownUser(Option<Proc>),
    /// The event claims another source.
    #[error("{} names another proc as the source of its event (PMIX_EVENT_PROXY)", name(.0.as_ref()))]
    ForeignSource(Option<Proc>),
    /// A tool belongs to a user without jobs here.
    #[error("a tool of user {uid}, which has no job here; the server runs as user {server}")]
    ForeignTool {
        /// The tool's user.
        uid: u32,
        /// The server's user.
        server: u32,
    },
    /// No policy provides the nodes.
    #[error("the site has no provisioner, or none that provides this")]
    NoProvisioner,
    /// The site's default denies.
    #[error("the site's default for {0} is to deny")]
    Configured(Hook),
}

fn name(proc: Option<&Proc>) -> String {
    proc.map_or("a tool without a name".to_owned(), Proc::to_string)
}

impl RuleDenial {
    /// Returns the status for the requester.
    pub fn status(&self) -> Status {
        match self {
            RuleDenial::Unknown(_) => code::PMIX_ERR_NOT_FOUND,
            RuleDenial::NoProvisioner => code::PMIX_ERR_NOT_SUPPORTED,
            _ => code::PMIX_ERR_NO_PERMISSIONS,
        }
    }
}

/// Decides a request by a hook's default.
pub fn decide(default: HookDefault, case: &RuleRequest<'_>) -> Result<(), RuleDenial> {
    match default {
        // A default of `deny` restricts the raising of events, not the receiving.
        _ if case.rule == BuiltInRule::GrantAlways => Ok(()),
        HookDefault::Grant => Ok(()),
        HookDefault::Deny => Err(RuleDenial::Configured(case.hook)),
        HookDefault::BuiltIn => built_in(case),
    }
}

fn built_in(case: &RuleRequest<'_>) -> Result<(), RuleDenial> {
    match case.rule {
        BuiltInRule::Grant | BuiltInRule::GrantAlways => Ok(()),
        BuiltInRule::PolicyOnly => Err(RuleDenial::NoProvisioner),
        BuiltInRule::OwnConnection(ConnectionKind::Client) => own_only(case, &[]),
        BuiltInRule::OwnConnection(ConnectionKind::Tool) => tool(case),
        BuiltInRule::OwnSource { claimed } => own_event(case, claimed),
        // Only requests of the site's own modules have no requester.
        BuiltInRule::OwnTargets { .. } | BuiltInRule::OwnTargetsOrRoot
            if case.requester.is_none() && case.identity == Some(case.server) =>
        {
            Ok(())
        }
        // The kernel shows root the processes of all users, and so does the server.
        BuiltInRule::OwnTargetsOrRoot if case.identity.is_some_and(|user| user.uid == 0) => {
            known_only(case)
        }
        BuiltInRule::OwnTargetsOrRoot => own_only(case, &[]),
        BuiltInRule::OwnTargets { users } => own_only(case, users),
        BuiltInRule::NoForeignTargets => none_foreign(case, uid_of(case)?),
        BuiltInRule::OwnUserIds { infos } => {
            let users: Vec<u32> = infos.into_iter().flatten().filter_map(user_named).collect();
            own_only(case, &users)
        }
    }
}

/// Any user may raise events in its own name.
fn own_event(case: &RuleRequest<'_>, claimed: Option<&Value>) -> Result<(), RuleDenial> {
    let requester = || case.requester.cloned();
    if case.identity.is_none() {
        return Err(RuleDenial::UnknownUser(requester()));
    }
    match claimed {
        Some(Value::Proc(source)) if Some(source) == case.requester => Ok(()),
        Some(_) => Err(RuleDenial::ForeignSource(requester())),
        None => Ok(()),
    }
}

/// Grants if all targets and named users belong to the requester's user.
fn own_only(case: &RuleRequest<'_>, users: &[u32]) -> Result<(), RuleDenial> {
    let uid = uid_of(case)?;
    // Procs without a known owner pass `none_foreign`, so unknown ones are refused first.
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

/// Grants if all targets are known.
fn known_only(case: &RuleRequest<'_>) -> Result<(), RuleDenial> {
    match case.targets.iter().find(|target| target.owner.is_none()) {
        Some(unknown) => Err(RuleDenial::Unknown(unknown.proc.clone())),
        None => Ok(()),
    }
}

fn uid_of(case: &RuleRequest<'_>) -> Result<u32, RuleDenial> {
    case.identity
        .map(|identity| identity.uid)
        .ok_or_else(|| RuleDenial::UnknownUser(case.requester.cloned()))
}

/// Returns the user that an info requests procs to run as.
fn user_named(info: &Info) -> Option<u32> {
    let number = (info.key == key::PMIX_USERID)
        .then(|| info.value.as_u64())
        .flatten()?;
    // A number beyond the range of user ids belongs to no user.
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Grants if no target with a known owner belongs to another user.
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

/// Grants to root, the server's user, and the owner of all targets.
fn tool(case: &RuleRequest<'_>) -> Result<(), RuleDenial> {
    let uid = case
        .identity
        .ok_or_else(|| RuleDenial::UnknownUser(case.requester.cloned()))?
        .uid;
    let owns = |target: &TargetProc| target.owner.is_some_and(|owner| owner.uid == uid);
    // Of no targets at all, `all` alone would say that the tool owns them.
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
