//! What members of a group may know of each other, also of those that are at other servers.
use super::{Groups, established::LocalGroup};
use peal_model::{Info, JobInfo, Nspace, Proc, UserIdentity};
use std::sync::Arc;

impl Groups {
    /// The groups in which somebody of this server is.
    fn of(&self, member: &Proc) -> impl Iterator<Item = &LocalGroup> {
        self.known.values().filter(|known| known.has(member))
    }

    /// Whether there is no other server.
    pub fn is_alone(&self) -> bool {
        self.servers.len() == 1
    }

    /// Whether this is a job of another server.
    pub fn is_elsewhere(&self, nspace: &Nspace) -> bool {
        self.directory
            .home(nspace)
            .is_some_and(|server| server != self.me)
    }

    /// As whom a job of another server runs.
    pub fn owner_elsewhere(&self, nspace: &Nspace) -> Option<UserIdentity> {
        self.directory
            .owner(nspace)
            .filter(|_| self.is_elsewhere(nspace))
    }

    /// Whether somebody is in a group with one whom this names.
    pub fn meets(&self, member: &Proc, named: &Proc) -> bool {
        self.of(member).any(|known| {
            known
                .formed
                .members
                .of_job(&named.nspace)
                .iter()
                .any(|other| named.covers(other))
        })
    }

    /// A job of which somebody in a group with this one is.
    pub fn shared_job(&self, member: &Proc, nspace: &Nspace) -> Option<&Arc<JobInfo>> {
        self.of(member)
            .find_map(|known| known.formed.jobs.iter().find(|job| job.nspace == *nspace))
    }

    /// What a member said of itself when the group of this number was formed, for another member.
    pub fn said(&self, member: &Proc, of: &Proc, context_id: u64) -> Option<&[Info]> {
        let mut groups = self
            .of(member)
            .filter(|known| known.formed.context_id == Some(context_id));
        groups
            .find_map(|known| known.formed.infos.iter().find(|(whose, _)| whose == of))
            .map(|(_, said)| &said[..])
    }

    /// The jobs of other servers that have to do with none of the groups here any more, of those that this one had to do with.
    pub(super) fn estranged(&self, known: &LocalGroup) -> Vec<Nspace> {
        let is_shared = |nspace: &Nspace| {
            self.known
                .values()
                .any(|known| known.formed.members.has_job(nspace))
        };
        let jobs = known.formed.members.jobs();
        jobs.filter(|nspace| !self.directory.is_at(nspace, self.me) && !is_shared(nspace))
            .cloned()
            .collect()
    }
}
