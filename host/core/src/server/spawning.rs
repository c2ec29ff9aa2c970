//! Spawn requests before their policies.
use super::{
    Action, RequestId, ServerState, Upcall,
    denial::{DenialRecipient, DenialReply},
    policy_gate::GatedOperation,
};
use peal_model::{App, Application, Hook, Info, PolicyRequest, PolicySubject, Proc, Request, key};

/// A held spawn request, without its directives.
#[derive(Debug)]
pub(super) struct GatedSpawn {
    to: RequestId,
    source: Proc,
    apps: Vec<App>,
}

impl GatedSpawn {
    /// Passes the granted request to the host environment, with these directives.
    pub(super) fn granted(self, infos: Vec<Info>) -> Action {
        let GatedSpawn { to, source, apps } = self;
        Action::Upcall(Upcall::Request {
            to,
            source,
            request: Request::Spawn { infos, apps },
        })
    }
}

impl ServerState {
    /// Handles a spawn request: carries it out, holds it for its policies, or denies it.
    pub(super) fn enter_spawn(
        &mut self,
        to: RequestId,
        source: Proc,
        directives: Vec<Info>,
        apps: Vec<App>,
    ) -> Vec<Action> {
        let (requester, identity) = (Some(source.clone()), self.clients.identity_of(to.peer));
        let infos: Vec<Info> = apps.iter().flat_map(|app| &app.infos).cloned().collect();
        let question = self.question(
            PolicySubject::Spawn,
            requester.clone(),
            identity,
            &started_for(&directives, &infos),
        );
        let applications = apps.iter().map(Application::from).collect();
        let groups = self.clients.groups_of(to.peer);
        let request = PolicyRequest {
            groups,
            applications,
            infos,
            directives,
            ..question
        };
        let asker =
            DenialRecipient::new(Hook::Spawn, requester, identity, DenialReply::Spawned(to));
        self.decide_or_hold(
            request,
            asker,
            GatedOperation::Spawn(GatedSpawn { to, source, apps }),
        )
    }
}

/// Returns the procs on whose behalf the job is started, where infos name any.
fn started_for(directives: &[Info], infos: &[Info]) -> Vec<Proc> {
    let whose = [key::PMIX_PARENT_ID, key::PMIX_REQUESTOR];
    let named = directives
        .iter()
        .chain(infos)
        .filter(|info| whose.iter().any(|key| info.key == *key));
    named
        .filter_map(|info| info.value.as_procs())
        .flatten()
        .collect()
}
