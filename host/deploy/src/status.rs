//! How the modules of a server are, for administrators.
use crate::{component::Component, deployer::Deployer, load::Member};
use peal_config::{Mode, ModuleEntry};
use peal_server::admin::{ModuleList, ModuleSigner, ModuleState, ModuleStatus, UserRefused};

impl Deployer {
    /// The modules, how they are, and what can be returned to.
    pub fn list(&self) -> ModuleList {
        let wanted = self.everything(&self.wanted());
        let configured = wanted.iter().flat_map(|(entry, component)| self.statuses_of(entry, component));
        let brought = self.running.members().iter().filter(|member| member.entry.is_none());
        let brought = brought.map(|member| described(member, None));
        let refused = self.users.refused.iter();
        ModuleList {
            version: self.version(),
            modules: configured.chain(brought).collect(),
            versions: self.versions.statuses(),
            refused: refused.map(|(uid, (_, why))| UserRefused { uid: *uid, why: why.to_string() }).collect(),
        }
    }

    /// A module, once for each owner.
    fn statuses_of(&self, entry: &ModuleEntry, component: &Component) -> Vec<ModuleStatus> {
        let (path, title) = (Some(entry.settings.path.display().to_string()), &component.title);
        let signer = component
            .trusted_signer(&self.loader.rules())
            .map(|signer| ModuleSigner { key: signer.key.id().to_string(), comment: signer.comment.clone() });
        let running = self.running.titled(title);
        let running: Vec<ModuleStatus> =
            running.map(|member| ModuleStatus { signer: signer.clone(), ..described(member, path.clone()) }).collect();
        if !running.is_empty() {
            return running;
        }
        let state = if self.overrides.disables(title) { ModuleState::Disabled } else { ModuleState::Waiting };
        vec![ModuleStatus {
            name: title.clone(),
            owner: (&component.whose.any()).into(),
            roles: component.inspection.roles.iter().map(|role| role.name().to_owned()).collect(),
            state,
            sha256: component.inspection.digest.to_string(),
            failures: 0,
            failure: None,
            memory: 0,
            path,
            signer,
        }]
    }
}

/// Whether it has failed too often.
pub(crate) fn is_quarantined(member: &Member) -> bool {
    member.module.health().quarantined.is_some()
}

fn described(member: &Member, path: Option<String>) -> ModuleStatus {
    let (module, health) = (&member.module, member.module.health());
    let mode = member.entry.as_ref().map_or(Mode::Active, |entry| entry.settings.mode);
    let state = match (health.quarantined, mode) {
        (Some(_), _) => ModuleState::Quarantined,
        (None, Mode::Shadow) => ModuleState::Shadow,
        (None, Mode::Active) => ModuleState::Active,
    };
    ModuleStatus {
        name: member.name().to_owned(),
        owner: (&member.owner).into(),
        roles: module.inspection().roles.iter().map(|role| role.name().to_owned()).collect(),
        state,
        sha256: module.digest().to_string(),
        failures: health.failures,
        failure: health.last.map(|(_, failure)| failure.reason),
        memory: module.memory(),
        path,
        signer: None,
    }
}
