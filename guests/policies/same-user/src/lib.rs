//! Lets everybody do with what is their own, and nothing beyond: the rules that hold by default, as a module to read and to
//! replace. Put it last, for it decides about nearly everything that comes to it.
//!
//! - A proc may connect as the user that it is registered for; a tool if its user is that of the server or of all the jobs
//!   that it asks about, or root.
//! - An event may not claim another source than the one it has. Otherwise this passes, and the default decides, which does
//!   not deliver it across users.
//! - Groups are formed of the user's own procs, as far as those are known here: names of groups are each user's own.
//! - Jobs may be spawned as the user's own, and for the user's own procs.
//! - Procs may be controlled and watched by the user that they belong to, and controlled by the site's own modules.
use peal_sdk::{
    ConnectionKind, Identity, Matter, PolicyOutcome, Request, Target, Value, connection_policy,
    event_policy, group_policy, job_control_policy, key, monitor_policy, spawn_policy, status,
};

fn decide(request: &Request) -> PolicyOutcome {
    let Some(identity) = request.identity() else {
        return refuse(format!("nobody knows whose {} is", requester(request)));
    };
    match request.matter() {
        Matter::Connection(ConnectionKind::Client) => {
            own(request, identity, "connect as a proc of")
        }
        Matter::Connection(ConnectionKind::Tool) => tool(request, identity),
        Matter::Event { .. } => event(request),
        Matter::Registration => PolicyOutcome::pass(),
        // Only what the site's own modules ask for has no name.
        Matter::JobControl
            if request.requester().is_none() && request.server() == Some(identity) =>
        {
            PolicyOutcome::grant()
        }
        Matter::JobControl => own(request, identity, "control"),
        Matter::Monitor => own(request, identity, "watch"),
        Matter::Group(_) => group(request, identity),
        Matter::Spawn => spawn(request, identity),
        Matter::Provision => PolicyOutcome::pass(),
        // The channels that there are, are those that the admin lists.
        Matter::Log => PolicyOutcome::pass(),
    }
}

fn own(request: &Request, identity: Identity, what: &str) -> PolicyOutcome {
    let targets = request.targets();
    match targets.iter().find(|target| target.owner.is_none()) {
        Some(Target { proc, .. }) => PolicyOutcome::deny(status::PMIX_ERR_NOT_FOUND)
            .because(format!("job {} is not known here", proc.nspace)),
        None => none_foreign(&targets, identity, what),
    }
}

fn group(request: &Request, identity: Identity) -> PolicyOutcome {
    none_foreign(&request.targets(), identity, "be in a group with")
}

fn spawn(request: &Request, identity: Identity) -> PolicyOutcome {
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

fn none_foreign(targets: &[Target], Identity { uid, .. }: Identity, what: &str) -> PolicyOutcome {
    let foreign = targets.iter().find_map(|Target { proc, owner }| {
        let owner = owner.filter(|owner| owner.uid != uid)?.uid;
        Some(format!(
            "uid {uid} may not {what} job {} of uid {owner}",
            proc.nspace
        ))
    });
    foreign.map_or_else(PolicyOutcome::grant, refuse)
}

fn tool(request: &Request, Identity { uid, .. }: Identity) -> PolicyOutcome {
    let is_server = request.server().is_some_and(|server| server.uid == uid);
    let owns = |target: &Target| target.owner.is_some_and(|owner| owner.uid == uid);
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
            "{} claims that another is the source of its event",
            requester(request)
        )),
    }
}

fn refuse(reason: String) -> PolicyOutcome {
    PolicyOutcome::deny(status::PMIX_ERR_NO_PERMISSIONS).because(reason)
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
