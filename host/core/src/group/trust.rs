//! Checks of messages of other servers: a server speaks for its own procs, and the coordinator alone
//! decides.
use super::{Contribution, CoordinatorRequest, GroupMessage, Groups, ServerId};
use crate::message_refusal::MessageRefusal;
use peal_model::{Nspace, Proc, UserIdentity};

impl Groups {
    /// Checks that a server may say this.
    pub(super) fn check_sender(
        &self,
        from: ServerId,
        message: &GroupMessage,
    ) -> Result<(), MessageRefusal> {
        match message {
            GroupMessage::Lost(proc) => self.check_own(from, proc),
            GroupMessage::Upward(request) => self.check_request(from, request),
            // A server reports to the next coordinator after it has heard of the loss of the last
            // one, and no later message of that one follows. So there is one coordinator for each
            // message.
            GroupMessage::Down(_) | GroupMessage::Refuse { .. } | GroupMessage::Notify { .. } => {
                if from == self.coordinator() {
                    Ok(())
                } else {
                    Err(MessageRefusal::NotCoordinator)
                }
            }
            // The directory checks claims to procs. The others are about the sender alone.
            GroupMessage::Job { .. }
            | GroupMessage::JobGone(_)
            | GroupMessage::Watch(_)
            | GroupMessage::Report(_) => Ok(()),
        }
    }

    fn check_request(
        &self,
        from: ServerId,
        request: &CoordinatorRequest,
    ) -> Result<(), MessageRefusal> {
        match request {
            CoordinatorRequest::Ended(proc)
            | CoordinatorRequest::Back(proc)
            | CoordinatorRequest::Leave { proc, .. }
            | CoordinatorRequest::Respond { by: proc, .. }
            | CoordinatorRequest::Announce { by: proc, .. } => self.check_own(from, proc),
            CoordinatorRequest::Brings(contribution) => self.check_contribution(from, contribution),
        }
    }

    /// Checks that a server brings calls of its own procs alone.
    pub(super) fn check_contribution(
        &self,
        from: ServerId,
        contribution: &Contribution,
    ) -> Result<(), MessageRefusal> {
        let mut parts = contribution.parts.iter();
        parts.try_for_each(|part| self.check_own(from, &part.proc))
    }

    /// Checks that a proc is one of a server's.
    fn check_own(&self, from: ServerId, proc: &Proc) -> Result<(), MessageRefusal> {
        if self.may_speak_for(from, proc) {
            Ok(())
        } else {
            Err(MessageRefusal::ForeignProc(proc.clone()))
        }
    }

    /// Returns true if a server may speak for a proc: it has announced the proc, or it has the job
    /// and its host environment reaches the proc. Tools are announced to no server, so a namespace
    /// that no server has announced may be that of a tool there.
    pub(crate) fn may_speak_for(&self, from: ServerId, proc: &Proc) -> bool {
        match self.directory.server_of(proc) {
            Some(server) => server == from,
            None => {
                !self.directory.has_job(&proc.nspace)
                    || self.directory.has_procs_at(&proc.nspace, from)
            }
        }
    }

    /// Returns true if another server than this one has announced a proc.
    pub(crate) fn is_of_other(&self, server: ServerId, proc: &Proc) -> bool {
        let announced = self.directory.server_of(proc);
        announced.is_some_and(|other| other != server)
    }

    /// Returns true if a server may speak for a job: it has procs of it, or no server has announced
    /// the job.
    pub(crate) fn may_speak_for_job(&self, from: ServerId, nspace: &Nspace) -> bool {
        !self.directory.has_job(nspace) || self.directory.has_procs_at(nspace, from)
    }

    /// Returns true if this is the lowest server that has procs of a job, and another one has none.
    pub(crate) fn is_first_with_job(&self, nspace: &Nspace, other: ServerId) -> bool {
        self.directory.first_server_of(nspace) == Some(self.me)
            && !self.directory.has_procs_at(nspace, other)
    }

    /// Returns true if this is the lowest server that has procs of a user, and another one has none.
    pub(crate) fn is_first_with_user(&self, uid: u32, other: ServerId) -> bool {
        self.directory.first_server_with(uid, other) == Some(self.me)
    }

    /// Returns the user that a job runs as, by the word of its servers.
    pub(crate) fn owner_of(&self, nspace: &Nspace) -> Option<UserIdentity> {
        self.directory.owner(nspace)
    }
}
