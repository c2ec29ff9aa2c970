//! Published data of all servers: requests of this server's procs, and of other servers' where this
//! one holds the data.
//!
//! The holder is the server with the lowest number. It has all items that procs of other servers may
//! see ([`PublicationScope::is_shared`](crate::published::PublicationScope::is_shared)), and answers
//! lookups over them. Each server keeps a copy of its own items, from which the next holder restores
//! them, and the items that only its own procs may see.
mod messages;
mod requests;
mod servers;
mod trust;

use super::{Action, PeerId, RequestId, ServerState};
use crate::{
    MonotonicTime,
    deadlines::Deadlines,
    group::ServerId,
    published::{
        DataRequester, ItemNumber, Publication, PublishAmounts, PublishLimits, Published,
        PublishedDataMessage, PublishedLookup, WaitId,
    },
    quota::QuotaReport,
    server_message::InterServerMessage,
};
use peal_model::{Key, Nspace, Pdata, Proc, Reply, Request, Status, Text, code};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Identifier of a request that is not answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
enum DataRequestId {
    /// The request of a proc of this server, by its number.
    Own(u64),
    /// The request of another server, by its number there.
    Of(ServerId, u64),
}

impl DataRequestId {
    /// Returns the server of the requester; none for this one.
    fn server(self) -> Option<ServerId> {
        match self {
            DataRequestId::Own(_) => None,
            DataRequestId::Of(server, _) => Some(server),
        }
    }
}

/// A request that is not answered.
#[derive(Debug, Serialize, Deserialize)]
struct OpenDataRequest {
    by: DataRequester,
    origin: DataOrigin,
    operation: DataOperation,
    deadline: Option<MonotonicTime>,
    stage: DataRequestStage,
    /// The charge for the request itself.
    held: PublishAmounts,
}

/// The party that a request is answered to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum DataOrigin {
    /// A client of this server.
    Client(RequestId),
    /// Another server, which has numbered the request.
    Server(ServerId, u64),
}

/// Operation on published data.
#[derive(Debug, Serialize, Deserialize)]
enum DataOperation {
    Publish(Publication),
    Lookup {
        lookup: PublishedLookup,
        /// The part that the holder is asked for.
        asked: PublishedLookup,
        /// The data that a holder has found.
        found: Vec<Pdata>,
    },
    Unpublish,
}

/// The place where a request waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum DataRequestStage {
    /// Here, until this server has the data of all servers.
    Postponed,
    /// At the holder.
    Sent(ServerId),
    /// For data.
    Waits(WaitId),
}

/// The server that holds the data of all servers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Holder {
    /// This server. It answers when these others have restored their data.
    Here { awaited: BTreeSet<ServerId> },
    /// Another one.
    Other(ServerId),
}

/// The published data, and requests that are not answered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Publications {
    store: Published,
    holder: Holder,
    /// Servers that have restored their data here.
    restored: BTreeSet<ServerId>,
    requests: BTreeMap<DataRequestId, OpenDataRequest>,
    /// The requests that wait in the store.
    waits: BTreeMap<WaitId, DataRequestId>,
    deadlines: Deadlines,
    last_number: u64,
}

impl ServerState {
    /// Handles a request to publish, look up or unpublish data that the host environment does not
    /// support. The answer is an [`Action::Reply`], which may come later.
    pub fn data_request(
        &mut self,
        to: RequestId,
        source: Proc,
        request: Request,
        now: MonotonicTime,
    ) -> Vec<Action> {
        // The requester may have ended since: its data would outlive it.
        if self.clients.active_peer(to.peer).is_none() {
            let reply = Reply::Status(code::PMIX_ERR_NOT_AVAILABLE);
            return self.clients.answer(to, reply);
        }
        let present = |keys: Vec<Option<Text>>| keys.into_iter().flatten().collect::<Vec<Text>>();
        let by = |uid| DataRequester { proc: source, uid };
        match request {
            Request::Publish { uid, infos } => self.publications.publish(to, by(uid), infos),
            Request::Lookup { uid, keys, infos } => {
                let keys = present(keys);
                self.publications.lookup(to, by(uid), &keys, &infos, now)
            }
            Request::Unpublish { uid, keys, .. } => {
                self.publications.unpublish(to, by(uid), &present(keys))
            }
            _ => vec![super::reply(to, code::PMIX_ERR_NOT_SUPPORTED)],
        }
    }
}

impl Publications {
    pub(super) fn new(limits: PublishLimits) -> Publications {
        Publications {
            // Replaced when the user of the server is known.
            store: Published::new(limits, 0),
            holder: Holder::Here {
                awaited: BTreeSet::new(),
            },
            restored: BTreeSet::new(),
            requests: BTreeMap::new(),
            waits: BTreeMap::new(),
            deadlines: Deadlines::default(),
            last_number: 0,
        }
    }

    pub(super) fn set_limits(&mut self, limits: PublishLimits) {
        self.store.set_limits(limits);
    }

    /// Sets the user that the server runs as.
    pub(super) fn set_server(&mut self, uid: u32) {
        self.store.set_server(uid);
    }

    pub(super) fn report_quotas(&self, report: &mut QuotaReport) {
        self.store.report_quotas(report);
    }

    /// Returns the time at which [`Publications::expire`] has something to do next.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.deadlines.next()
    }

    /// Ends the lookups whose time is over.
    pub(super) fn expire(&mut self, now: MonotonicTime) -> Vec<Action> {
        if self.deadlines.next().is_none_or(|next| next > now) {
            return Vec::new();
        }
        let is_over = |request: &OpenDataRequest| request.deadline.is_some_and(|at| at <= now);
        self.end_requests(is_over, code::PMIX_ERR_TIMEOUT)
    }

    /// Drops the requests of a connection that has closed.
    pub(super) fn forget(&mut self, peer: PeerId) -> Vec<Action> {
        let is_theirs = |request: &OpenDataRequest| matches!(request.origin, DataOrigin::Client(to) if to.peer == peer);
        let ended = self.end_requests(is_theirs, code::PMIX_ERR_NOT_AVAILABLE);
        // Nobody is left to reply to.
        let is_reply = |action: &Action| matches!(action, Action::Reply { .. });
        ended
            .into_iter()
            .filter(|action| !is_reply(action))
            .collect()
    }

    /// Handles the end of a proc.
    pub(super) fn proc_ended(&mut self, proc: &Proc) -> Vec<Action> {
        let withdrawn = self.store.proc_ended(proc);
        self.end(withdrawn, |by| by == proc)
    }

    /// Handles the departure of a tool.
    pub(super) fn tool_left(&mut self, tool: &Proc) -> Vec<Action> {
        let withdrawn = self.store.tool_left(tool);
        self.end(withdrawn, |by| by == tool)
    }

    /// Handles the end of a job.
    pub(super) fn job_ended(&mut self, nspace: &Nspace) -> Vec<Action> {
        let withdrawn = self.store.job_ended(nspace);
        self.end(withdrawn, |by| by.nspace == *nspace)
    }

    /// Handles the end of a user's last job on this server.
    pub(super) fn session_ended(&mut self, uid: u32) -> Vec<Action> {
        let withdrawn = self.store.session_ended(uid);
        self.end(withdrawn, |_| false)
    }

    /// Ends the requests of procs, and tells the holder which of their items are withdrawn.
    fn end(
        &mut self,
        withdrawn: Vec<ItemNumber>,
        has_ended: impl Fn(&Proc) -> bool,
    ) -> Vec<Action> {
        let is_theirs = |request: &OpenDataRequest| has_ended(&request.by.proc);
        let mut actions = self.end_requests(is_theirs, code::PMIX_ERR_NOT_AVAILABLE);
        actions.extend(self.withdraw_at_holder(None, withdrawn));
        actions
    }

    /// Ends requests of this server's procs with a status.
    fn end_requests(
        &mut self,
        is_meant: impl Fn(&OpenDataRequest) -> bool,
        status: Status,
    ) -> Vec<Action> {
        let ended = self.requests.iter();
        let ended = ended.filter(|(id, request)| id.server().is_none() && is_meant(request));
        let ended: Vec<DataRequestId> = ended.map(|(id, _)| *id).collect();
        let mut actions = Vec::new();
        for id in ended {
            let Some(request) = self.close(id) else {
                continue;
            };
            actions.extend(self.take_back(id, &request));
            actions.push(request.answer(Err(status)));
        }
        actions
    }

    /// Withdraws a request from the holder, if it was sent there.
    fn take_back(&self, id: DataRequestId, request: &OpenDataRequest) -> Option<Action> {
        let (DataRequestStage::Sent(_), DataRequestId::Own(number)) = (request.stage, id) else {
            return None;
        };
        match &request.operation {
            DataOperation::Publish(publication) => {
                let items = publication.items.iter().map(|item| item.number);
                self.withdraw_at_holder(None, items.collect())
            }
            DataOperation::Lookup { .. } => self.to_holder(PublishedDataMessage::GiveUp { number }),
            DataOperation::Unpublish => None,
        }
    }

    /// Removes a request with all that it takes.
    fn close(&mut self, id: DataRequestId) -> Option<OpenDataRequest> {
        let request = self.requests.remove(&id)?;
        self.store.release(request.by.uid, request.held);
        if let DataRequestStage::Waits(wait) = request.stage {
            self.waits.remove(&wait);
            self.store.give_up(wait);
        }
        if let Some(at) = request.deadline {
            self.deadlines.remove(at);
        }
        Some(request)
    }

    /// Adds a request.
    fn insert(&mut self, id: DataRequestId, request: OpenDataRequest) {
        if let Some(at) = request.deadline {
            self.deadlines.add(at);
        }
        self.requests.insert(id, request);
    }

    /// Returns true if this server answers requests over all servers.
    fn answers(&self) -> bool {
        matches!(&self.holder, Holder::Here { awaited } if awaited.is_empty())
    }

    /// Sends a message to the holder, if that is another server.
    fn to_holder(&self, message: PublishedDataMessage) -> Option<Action> {
        match self.holder {
            Holder::Here { .. } => None,
            Holder::Other(to) => Some(send(to, message)),
        }
    }

    /// Has the holder withdraw items of this server, for an unpublish request or none.
    fn withdraw_at_holder(&self, number: Option<u64>, items: Vec<ItemNumber>) -> Option<Action> {
        let items: BTreeSet<ItemNumber> = items.into_iter().collect();
        if items.is_empty() {
            return None;
        }
        self.to_holder(PublishedDataMessage::Withdraw { number, items })
    }
}

impl OpenDataRequest {
    /// Answers the request, to its client or its server.
    fn answer(&self, result: Result<Vec<Pdata>, Status>) -> Action {
        let to = match self.origin {
            DataOrigin::Client(to) => to,
            DataOrigin::Server(server, number) => {
                return send(server, PublishedDataMessage::Answer { number, result });
            }
        };
        let reply = match (result, &self.operation) {
            (Err(status), _) => Reply::Status(status),
            (Ok(data), DataOperation::Lookup { .. }) => Reply::Published {
                status: code::PMIX_SUCCESS,
                data,
            },
            (Ok(_), DataOperation::Publish(_) | DataOperation::Unpublish) => {
                Reply::Status(code::PMIX_SUCCESS)
            }
        };
        Action::Reply { to, reply }
    }

    /// Returns what the request takes of the limits until it is carried out.
    fn amounts(&self) -> PublishAmounts {
        match &self.operation {
            DataOperation::Publish(publication) => publication.amounts(),
            DataOperation::Lookup { lookup, .. } => lookup.amounts(),
            DataOperation::Unpublish => PublishAmounts::default(),
        }
    }
}

/// Returns the keys of data.
fn keys_in(data: &[Pdata]) -> impl Iterator<Item = &Key> {
    data.iter().map(|data| &data.key)
}

fn send(to: ServerId, message: PublishedDataMessage) -> Action {
    Action::Send {
        to,
        message: InterServerMessage::PublishedData(message),
    }
}
