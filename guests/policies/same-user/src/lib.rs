//! Applies the built-in rules: each user decides about its own procs only. `peal-module.toml` says
//! how.
use peal_sdk::{
    ConnectionKind, PolicyOutcome, PolicySubject, Request, TargetProc, UserIdentity, Value,
    connection_policy, event_policy, group_policy, job_control_policy, key, monitor_policy,
    spawn_policy, status,
};

fn decide(request: &Request) -> PolicyOutcome {
    let Some(identity) = request.identity() else {
        return refuse(format!(
            "user of {} is unknown: the kernel reports no owner of its connection",
            requester(request)
        ));
    };
    match request.subject() {
        PolicySubject::Connection(ConnectionKind::Client) => {
            own(request, identity, "connect as a proc of")
        }
        PolicySubject::Connection(ConnectionKind::Tool) => tool(request, identity),
        PolicySubject::Event { .. } => event(request),
        PolicySubject::Registration => PolicyOutcome::pass(),
        // Only requests of the site's own modules have no requester's name.
        PolicySubject::JobControl
            if request.requester().is_none() && request.server_identity() == Some(identity) =>
        {
            PolicyOutcome::grant()
        }
        PolicySubject::JobControl => own(request, identity, "control"),
        PolicySubject::Monitor => own(request, identity, "watch"),
        PolicySubject::Group(_) => group(request, identity),
        PolicySubject::Spawn => spawn(request, identity),
        PolicySubject::Provision => PolicyOutcome::pass(),
        // The channels that there are, are those that the admin lists.
        PolicySubject::Log => PolicyOutcome::pass(),
    }
}

fn own(request: &Request, identity: UserIdentity, what: &str) -> PolicyOutcome {
    let targets = request.targets();
    match targets.iter().find(|target| target.owner.is_none()) {
        Some(TargetProc { proc, .. }) => PolicyOutcome::deny(status::PMIX_ERR_NOT_FOUND)
            .with_reason(format!("job {} is not known here", proc.nspace)),
        None => none_foreign(&targets, identity, what),
    }
}

fn group(request: &Request, identity: UserIdentity) -> PolicyOutcome {
    none_foreign(&request.targets(), identity, "be in a group with")
}

fn spawn(request: &Request, identity: UserIdentity) -> PolicyOutcome {
    let all = request.directives().into_iter().chain(request.infos());
    let mut named = all.filter(|info| info.key == key::PMIX_USERID);
    if named.any(|info| info.value.as_u64() != Some(identity.uid.into())) {
        return refuse(format!(
            "uid {} may not have a job spawned as another user",
            identity.uid
        ));
    }
    own(request, identity, "have a job spawned for")
}

fn none_foreign(
    targets: &[TargetProc],
    UserIdentity { uid, .. }: UserIdentity,
    what: &str,
) -> PolicyOutcome {
    let foreign = targets.iter().find_map(|TargetProc { proc, owner }| {
        let owner = owner.filter(|owner| owner.uid != uid)?.uid;
        Some(format!(
            "uid {uid} may not {what} job {} of uid {owner}",
            proc.nspace
        ))
    });
    foreign.map_or_else(PolicyOutcome::grant, refuse)
}

fn tool(request: &Request, UserIdentity { uid, .. }: UserIdentity) -> PolicyOutcome {
    let is_server = request
        .server_identity()
        .is_some_and(|server| server.uid == uid);
    let owns = |target: &TargetProc| target.owner.is_some_and(|owner| owner.uid == uid);
    if uid == 0 || is_server || (request.target_count() > 0 && request.targets().iter().all(owns)) {
        return PolicyOutcome::grant();
    }
    refuse(format!(
        "uid {uid} is neither root nor that of the server, nor that of all jobs that its tool asks about"
    ))
}

fn event(request: &Request) -> PolicyOutcome {
    match (request.get(key::PMIX_EVENT_PROXY), request.requester()) {
        (None, _) => PolicyOutcome::pass(),
        (Some(Value::Proc(claimed)), Some(requester)) if claimed == requester => {
            PolicyOutcome::pass()
        }
        (Some(_), _) => refuse(format!(
            "{} names another proc as the source of its event (PMIX_EVENT_PROXY)",
            requester(request)
        )),
    }
}

fn refuse(reason: String) -> PolicyOutcome {
    PolicyOutcome::deny(status::PMIX_ERR_NO_PERMISSIONS).with_reason(reason)
}

fn requester(request: &Request) -> String {
    request
        .requester()
        .map_or("a tool without a name".to_owned(), |proc| proc.to_string())
}

connection_policy!(decide);
event_policy!(decide);
job_control_policy!(decide);
group_policy!(decide);
monitor_policy!(decide);
spawn_policy!(decide);
