//! Requests of hosted modules, carried out after their call returned, on behalf of their owner.
use super::{
    Action, PeerId, RequestId, ServerState, control::ControlRequester, policy_gate::RequestTargets,
};
use crate::{MonotonicTime, owner::Owner};
use peal_model::{Hook, Info, LogRequest, Nspace, Proc, Request, UserIdentity, key, rank};

/// The namespace of the site's modules, where a name is required. No job can have it.
const SITE: &str = "site@peal";

/// The identity under which the modules of an owner act.
struct ModulePrincipal {
    /// The requester that policies see; none for the site.
    requester: Option<Proc>,
    /// The source in upcalls.
    source: Proc,
    /// The user that the request runs as. A request without one is not made.
    identity: UserIdentity,
}

impl Owner {
    /// Returns the proc that the modules of this owner act as: the job itself, a reserved namespace
    /// for a user, none for the site.
    pub fn requester(&self) -> Option<Proc> {
        let nspace = match self {
            Owner::Site => return None,
            Owner::User(uid) => Nspace::new(&format!("user-{uid}@peal")).ok()?,
            Owner::Namespace(nspace) => nspace.clone(),
        };
        Some(Proc::new(nspace, rank::PMIX_RANK_UNDEF))
    }

    /// Returns the owner of the modules that act as a proc; none for a proc that is none of a module.
    pub fn of_requester(proc: &Proc) -> Option<Owner> {
        if proc.rank != rank::PMIX_RANK_UNDEF {
            return None;
        }
        let name = proc.nspace.as_str().strip_prefix("user-");
        let uid = name.and_then(|name| name.strip_suffix("@peal"));
        Some(match uid {
            Some(uid) => Owner::User(uid.parse().ok()?),
            None => Owner::Namespace(proc.nspace.clone()),
        })
    }
}

impl ServerState {
    /// Makes a module's job-control request. `number` identifies it; a reply goes to
    /// [`PeerId::MODULES`] with that number.
    pub fn control_for(
        &mut self,
        owner: &Owner,
        number: u64,
        targets: Vec<Proc>,
        directives: Vec<Info>,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let Some(ModulePrincipal {
            requester,
            source,
            identity,
        }) = self.actor(owner)
        else {
            // The last job of the owner has ended in the meantime.
            return Vec::new();
        };
        let to = answer_to(number);
        let by = ControlRequester {
            to,
            requester,
            identity: Some(identity),
            at: now,
        };
        // Without targets the request is for the owner's own namespace, which policies must see.
        let procs = if targets.is_empty() {
            vec![Proc::all(source.nspace.clone())]
        } else {
            targets.clone()
        };
        let named = RequestTargets {
            hook: Hook::JobControl,
            procs,
            users: Vec::new(),
        };
        let request = Request::JobControl {
            targets,
            directives,
        };
        self.enter_as(source, by, named, request)
    }

    /// Makes a module's log request. Answered as [`ServerState::control_for`].
    pub fn log_for(
        &mut self,
        owner: &Owner,
        number: u64,
        mut data: Vec<Info>,
        mut directives: Vec<Info>,
    ) -> Vec<Action> {
        let Some(ModulePrincipal {
            requester,
            identity,
            ..
        }) = self.actor(owner)
        else {
            // As for job control, the last job of the owner has ended.
            return Vec::new();
        };
        let mut about = None;
        for infos in [&mut data, &mut directives] {
            // The key directs the server and is no data for a channel.
            for info in infos.extract_if(.., |info| info.key == key::PMIX_LOG_SOURCE) {
                about = info
                    .value
                    .as_procs()
                    .and_then(|procs| procs.into_iter().next())
                    .or(about);
            }
        }
        // A module must not log in the name of a proc of another owner.
        let about = about.filter(|proc| self.is_of(owner, proc));
        let source = about.or(requester);
        let identity = Some(identity);
        self.permit_log(
            answer_to(number),
            LogRequest {
                source,
                identity,
                timestamp: None,
                data,
                directives,
            },
        )
    }

    /// Returns the identity for the modules of an owner; none for a tenant without a job.
    fn actor(&self, owner: &Owner) -> Option<ModulePrincipal> {
        let identity = match owner {
            Owner::Site => self.clients.server(),
            Owner::User(uid) => {
                // Modules of a user act with the group of one of the user's jobs.
                let gid = self.clients.jobs_of(*uid).next()?.spec.identity.gid;
                UserIdentity { uid: *uid, gid }
            }
            Owner::Namespace(nspace) => {
                let spec = &self.clients.job(nspace)?.spec;
                spec.identity
            }
        };
        let requester = owner.requester();
        let site = || Some(Proc::new(Nspace::new(SITE).ok()?, rank::PMIX_RANK_UNDEF));
        Some(ModulePrincipal {
            source: requester.clone().or_else(site)?,
            requester,
            identity,
        })
    }

    /// Returns true if a proc belongs to an owner. All procs belong to the site.
    fn is_of(&self, owner: &Owner, proc: &Proc) -> bool {
        match owner {
            Owner::Site => true,
            Owner::User(uid) => self
                .clients
                .job(&proc.nspace)
                .is_some_and(|job| job.spec.identity.uid == *uid),
            Owner::Namespace(nspace) => proc.nspace == *nspace,
        }
    }
}

/// Returns the request id for a module's request. The tag keeps the low 32 bits of the number,
/// which suffices for the trace.
fn answer_to(number: u64) -> RequestId {
    let tag = u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    RequestId {
        peer: PeerId::MODULES,
        tag,
    }
}
