//! Data that members of a group may see of each other, also across servers.
use super::{Groups, ServerId, directory::ProcLocation, established::LocalGroup};
use crate::server_fences::{SetLocator, SetServers};
use peal_model::{Info, JobInfo, NamedProcs, Nspace, Proc, UserIdentity};
use std::sync::Arc;

impl SetLocator for Groups {
    fn locate(&self, procs: &NamedProcs) -> SetServers {
        self.directory.locate(procs)
    }

    fn server_of(&self, proc: &Proc) -> Option<ServerId> {
        self.directory.server_of(proc)
    }

    fn changes(&self) -> u64 {
        self.directory.changes()
    }
}

impl Groups {
    /// Returns the jobs that a server has procs of.
    pub(crate) fn jobs_at(&self, server: ServerId) -> Vec<Nspace> {
        let jobs = self.directory.of(server);
        jobs.map(|(nspace, _, _)| nspace).collect()
    }

    /// Returns the groups of a local proc.
    fn of(&self, member: &Proc) -> impl Iterator<Item = &LocalGroup> {
        self.known.values().filter(|known| known.has(member))
    }

    /// Returns the server that has a proc.
    pub(crate) fn server_of(&self, proc: &Proc) -> Option<ServerId> {
        self.directory.server_of(proc)
    }

    /// Returns the servers that have a named proc; for the wildcard rank, those of its job.
    pub(crate) fn servers_of(&self, named: &Proc) -> Vec<ServerId> {
        self.directory.servers_of(named)
    }

    /// Returns the procs of a job that a server has.
    pub(crate) fn procs_at(&self, nspace: &Nspace, server: ServerId) -> Vec<Proc> {
        self.directory.procs_at(nspace, server)
    }

    /// Returns true if a server has procs of a job.
    pub(crate) fn has_procs_at(&self, nspace: &Nspace, server: ServerId) -> bool {
        self.directory.has_procs_at(nspace, server)
    }

    /// Returns true if a proc has ended, as far as this server knows: one of its own procs, or one
    /// that was lost with its server.
    pub(crate) fn has_ended(&self, proc: &Proc) -> bool {
        self.directory.whereabouts(proc) == ProcLocation::Ended
    }

    /// Returns true if there is no other server.
    pub fn is_alone(&self) -> bool {
        self.servers.len() == 1
    }

    /// Returns true for a job of other servers, without procs here.
    pub fn is_elsewhere(&self, nspace: &Nspace) -> bool {
        self.directory.has_job(nspace) && !self.directory.has_procs_at(nspace, self.me)
    }

    /// Returns true for a job that has procs on other servers. All of its servers agree on that.
    pub fn is_at_others(&self, nspace: &Nspace) -> bool {
        self.directory.has_job(nspace) && !self.directory.is_whole_at(nspace, self.me)
    }

    /// Returns the user that a job of another server runs as.
    pub fn owner_elsewhere(&self, nspace: &Nspace) -> Option<UserIdentity> {
        self.directory
            .owner(nspace)
            .filter(|_| self.is_elsewhere(nspace))
    }

    /// Returns true if a proc shares a group with a named proc.
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

    /// Returns the data of a job that shares a group with a proc.
    pub fn shared_job(&self, member: &Proc, nspace: &Nspace) -> Option<&Arc<JobInfo>> {
        self.of(member)
            .find_map(|known| known.formed.jobs.iter().find(|job| job.nspace == *nspace))
    }

    /// Returns the infos that a member contributed to the group with this context id, for another
    /// member.
    pub fn member_infos(&self, member: &Proc, of: &Proc, context_id: u64) -> Option<&[Info]> {
        let mut groups = self
            .of(member)
            .filter(|known| known.formed.context_id == Some(context_id));
        groups
            .find_map(|known| known.formed.infos.iter().find(|(proc, _)| proc == of))
            .map(|(_, infos)| &infos[..])
    }

    /// Returns the remote jobs of a former group that share no other group with this server.
    pub(super) fn unshared_jobs(&self, known: &LocalGroup) -> Vec<Nspace> {
        let is_shared = |nspace: &Nspace| {
            self.known
                .values()
                .any(|known| known.formed.members.has_job(nspace))
        };
        let jobs = known.formed.members.jobs();
        jobs.filter(|nspace| !self.directory.has_procs_at(nspace, self.me) && !is_shared(nspace))
            .cloned()
            .collect()
    }
}
