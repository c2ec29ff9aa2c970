//! Procs, jobs and users that a request names beside its requester. The defaults of the hooks
//! decide about them.
use peal_model::{Hook, Info, Infos, Nspace, Proc, Query, Request, Value, key};

/// The targets of a request.
#[derive(Debug)]
pub(in crate::server) struct RequestTargets {
    /// The hook of the request.
    pub(in crate::server) hook: Hook,
    /// Procs and jobs.
    pub(in crate::server) procs: Vec<Proc>,
    /// Users that it acts for.
    pub(in crate::server) users: Vec<u32>,
}

impl RequestTargets {
    fn procs(hook: Hook, procs: Vec<Proc>) -> Option<RequestTargets> {
        Some(RequestTargets {
            hook,
            procs,
            users: Vec::new(),
        })
    }

    fn users(hook: Hook, users: Vec<u32>) -> Option<RequestTargets> {
        Some(RequestTargets {
            hook,
            procs: Vec::new(),
            users,
        })
    }
}

/// Returns the targets of a request of `source`. None for a request about its requester alone; none
/// for events, logs, groups and spawns, which are gated elsewhere.
pub(in crate::server) fn targets_of(request: &Request, source: &Proc) -> Option<RequestTargets> {
    match request {
        Request::JobControl { targets, .. } if targets.is_empty() => {
            RequestTargets::procs(Hook::JobControl, vec![Proc::all(source.nspace.clone())])
        }
        Request::JobControl { targets, .. } => {
            RequestTargets::procs(Hook::JobControl, targets.clone())
        }
        // A proc may abort its own job without permission.
        Request::Abort { targets, .. }
            if targets.iter().all(|target| target.nspace == source.nspace) =>
        {
            None
        }
        Request::Abort { targets, .. } => RequestTargets::procs(Hook::JobControl, targets.clone()),
        Request::Monitor {
            monitor,
            directives,
            ..
        } => {
            let watched = [monitor]
                .into_iter()
                .chain(directives)
                .filter_map(|info| info.value.as_procs());
            RequestTargets::procs(Hook::Monitor, watched.flatten().collect())
        }
        // A connect is decided as a group of its procs would be.
        Request::Connect { procs, .. } | Request::Disconnect { procs, .. } => {
            RequestTargets::procs(Hook::Group, procs.clone())
        }
        Request::Query { queries } => RequestTargets::procs(
            Hook::Query,
            queries.iter().flat_map(targets_of_query).collect(),
        ),
        // The rule for queries also holds for output and input of procs.
        Request::IofPull { sources: procs, .. } | Request::IofPush { targets: procs, .. } => {
            RequestTargets::procs(Hook::Query, procs.clone())
        }
        Request::Publish { uid, infos } => RequestTargets::users(Hook::Publish, users(*uid, infos)),
        Request::Unpublish { uid, infos, .. } => {
            RequestTargets::users(Hook::Publish, users(*uid, infos))
        }
        Request::Lookup { uid, infos, .. } => {
            RequestTargets::users(Hook::Lookup, users(*uid, infos))
        }
        _ => None,
    }
}

/// Returns the jobs and procs in the qualifiers of a query.
fn targets_of_query(query: &Query) -> Vec<Proc> {
    let job = |info: &Info| match &info.value {
        Value::Nspace(nspace) => Some(Proc::all(nspace.clone())),
        value if info.key == key::PMIX_NSPACE => {
            Some(Proc::all(Nspace::new(value.as_str()?).ok()?))
        }
        _ => None,
    };
    let procs = |info: &Info| {
        info.value
            .as_procs()
            .unwrap_or_else(|| job(info).into_iter().collect())
    };
    query.qualifiers.iter().flat_map(procs).collect()
}

fn users(own: u32, infos: &[Info]) -> Vec<u32> {
    let named = infos.value_of(key::PMIX_USERID).and_then(Value::as_u32);
    [Some(own), named].into_iter().flatten().collect()
}
