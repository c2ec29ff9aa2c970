//! Messages between servers, and the memory that they take.
use crate::{
    fence::FenceContribution,
    group::{GroupMessage, ServerId},
    log::LogOrigin,
    missed_events::MissedEvents,
    published::PublishedDataMessage,
    server::{ModexMessage, ServerRequestMessage},
    server_fences::{FenceMessage, FenceRound},
    user_scope::UserScope,
};
use peal_model::{Event, Key, LogRequest, Proc, RankData, Size, Status};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A message from one server to another. Messages of one server to another arrive in order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum InterServerMessage {
    /// About jobs and groups.
    Group(GroupMessage),
    /// About a fence.
    Fence(FenceMessage),
    /// About values that procs have put.
    Modex(ModexMessage),
    /// An event for the procs of these users, and for hosted handlers that see it.
    Event(Arc<Event>, UserScope),
    /// Events before this message for which there was no room.
    Missed(MissedEvents),
    /// About a log request for a gateway.
    Log(LogMessage),
    /// About published data.
    PublishedData(PublishedDataMessage),
    /// About a request to the server of procs of another node.
    Request(ServerRequestMessage),
}

/// A message between a server and its gateway.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum LogMessage {
    /// Has the gateway write the data for one channel.
    Write {
        /// The sender's number of the message.
        number: u64,
        /// The channel.
        channel: Key,
        /// The request.
        request: Arc<LogRequest>,
        /// The origin of the request, as the gateway sees it.
        origin: LogOrigin,
    },
    /// Answers that message.
    Written {
        /// The number of the message.
        number: u64,
        /// The result: `PMIX_ERR_NOT_AVAILABLE` if the gateway does not have the channel.
        status: Status,
    },
}

impl InterServerMessage {
    /// Returns the approximate memory of the message, in bytes. What other messages share with it
    /// counts as well.
    pub fn bytes(&self) -> usize {
        let contents = match self {
            InterServerMessage::Group(message) => message.bytes(),
            InterServerMessage::Fence(message) => bytes_of_fence(message),
            InterServerMessage::Modex(ModexMessage::Values {
                values: Ok(values), ..
            }) => bytes_of_data(&values.values),
            InterServerMessage::Modex(_) | InterServerMessage::Missed(_) => 0,
            InterServerMessage::Event(event, _) => Size::of_event(event).bytes,
            InterServerMessage::Log(LogMessage::Write { request, .. }) => {
                let infos = request.data.iter().chain(&request.directives);
                infos.map(|info| Size::of_info(info).bytes).sum()
            }
            InterServerMessage::Log(LogMessage::Written { .. }) => 0,
            InterServerMessage::PublishedData(message) => message.bytes(),
            InterServerMessage::Request(message) => message.bytes(),
        };
        size_of::<InterServerMessage>().saturating_add(contents)
    }
}

fn bytes_of_fence(message: &FenceMessage) -> usize {
    let named = |round: &FenceRound| bytes_of_procs(round.procs.len());
    match message {
        FenceMessage::Contribute {
            round,
            covered,
            contribution,
            ..
        } => {
            let covered = covered.len().saturating_mul(size_of::<ServerId>());
            let contents = named(round).saturating_add(bytes_of_contribution(contribution));
            contents.saturating_add(covered)
        }
        FenceMessage::Result {
            round,
            outcome: Ok(all),
            ..
        } => named(round).saturating_add(bytes_of_contribution(all)),
        FenceMessage::Result { round, .. }
        | FenceMessage::GiveUp { round, .. }
        | FenceMessage::Await(round) => named(round),
    }
}

fn bytes_of_contribution(contribution: &FenceContribution) -> usize {
    let values = contribution.data.iter();
    values.map(|data| bytes_of_data(&data.values)).sum()
}

/// Returns the memory of the values of a proc.
pub(crate) fn bytes_of_data(data: &RankData) -> usize {
    let values = data.kvals.iter().map(|kval| Size::of_kval(kval).bytes);
    values.fold(size_of::<RankData>(), usize::saturating_add)
}

/// Returns the memory of a list of procs.
pub(crate) fn bytes_of_procs(number: usize) -> usize {
    number.saturating_mul(size_of::<Proc>())
}
