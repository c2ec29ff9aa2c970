//! Events that announce a group before this server knows it, and requests that follow them.
//!
//! The library of a leader announces a group by invitation with an event. The decision that makes the
//! group known comes from the coordinator. Messages between two servers are in order, those of three are
//! not: a member that heard of the group first would name one that its server does not know. So the event
//! waits for the group, at the server of the leader and at those of the members. Later events of its source
//! wait behind it, and at the server of the leader those of its requests that may name the group.
use super::{Action, EventBudget, EventOrigin, RequestId, ServerContext, ServerState};
use crate::{MonotonicTime, group::GroupKey, user_scope::UserScope};
use peal_model::{Event, Proc, Request};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// Time for which an event waits for its group.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum number of events and requests that wait. With more, none waits any longer.
const MAX_WAITING: usize = 256;

/// Event that was raised here or at another server, and is to be delivered here.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RaisedEvent {
    pub(super) event: Arc<Event>,
    pub(super) origin: EventOrigin,
    pub(super) reach: UserScope,
    pub(super) allowance: EventBudget,
}

/// Group that an event waits for, up to a time.
#[derive(Debug, Serialize, Deserialize)]
struct AwaitedGroup {
    key: GroupKey,
    until: MonotonicTime,
}

/// Event or request of a proc that waits.
#[derive(Debug, Serialize, Deserialize)]
enum WaitingStep {
    /// Event to be delivered.
    Event(RaisedEvent),
    /// Request to be executed.
    Request { to: RequestId, request: Request },
}

/// Step that waits for a group, or behind one that does.
#[derive(Debug, Serialize, Deserialize)]
struct Waiting {
    step: WaitingStep,
    group: Option<AwaitedGroup>,
}

/// Events that wait, and requests behind them, by their sources.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct EarlyEvents(BTreeMap<Proc, VecDeque<Waiting>>);

impl EarlyEvents {
    fn push(&mut self, source: Proc, waiting: Waiting) {
        self.0.entry(source).or_default().push_back(waiting);
    }

    /// Removes the steps that wait no more, in the order of each source.
    fn take_ready(&mut self, is_over: impl Fn(&AwaitedGroup) -> bool) -> Vec<WaitingStep> {
        let is_full = self.0.values().map(VecDeque::len).sum::<usize>() > MAX_WAITING;
        let mut ready = Vec::new();
        for waiting in self.0.values_mut() {
            let goes_on = |first: &Waiting| is_full || first.group.as_ref().is_none_or(&is_over);
            while waiting.front().is_some_and(goes_on) {
                ready.extend(waiting.pop_front().map(|first| first.step));
            }
        }
        self.0.retain(|_, waiting| !waiting.is_empty());
        ready
    }

    /// Returns the time at which the next event waits no more.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        let first = self.0.values().filter_map(VecDeque::front);
        first
            .filter_map(|waiting| Some(waiting.group.as_ref()?.until))
            .min()
    }
}

impl ServerState {
    /// Delivers an event, and distributes it if it was raised here; or lets it wait for this group or
    /// behind other events of its source.
    pub(super) fn deliver_in_order(
        &mut self,
        raised: RaisedEvent,
        group: Option<GroupKey>,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let source = raised.event.source.clone();
        match source.filter(|source| group.is_some() || self.early.0.contains_key(source)) {
            Some(source) => {
                let group = group.map(|key| AwaitedGroup {
                    key,
                    until: now + PATIENCE,
                });
                let step = WaitingStep::Event(raised);
                self.early.push(source, Waiting { step, group });
                self.deliver_early_events(now)
            }
            None => self.deliver_raised(raised, now),
        }
    }

    /// Handles a request of a client, or lets it wait behind the event by which the client has announced a
    /// group.
    pub fn request(&mut self, to: RequestId, request: Request, now: MonotonicTime) -> Vec<Action> {
        // Nearly always none waits, and no request looks for its client twice.
        if self.early.0.is_empty() {
            return self.execute(to, request, now);
        }
        let source = self.clients.peer(to.peer).map(|peer| &peer.proc);
        match source.filter(|source| may_name_group(&request) && self.early.0.contains_key(source))
        {
            Some(source) => {
                let source = source.clone();
                let step = WaitingStep::Request { to, request };
                self.early.push(source, Waiting { step, group: None });
                self.deliver_early_events(now)
            }
            None => self.execute(to, request, now),
        }
    }

    /// Delivers the events that wait no more, and executes the requests behind them.
    pub(super) fn deliver_early_events(&mut self, now: MonotonicTime) -> Vec<Action> {
        let groups = &self.groups;
        let ready = self
            .early
            .take_ready(|awaited| awaited.until <= now || groups.members(&awaited.key).is_some());
        let done = ready.into_iter().flat_map(|step| match step {
            WaitingStep::Event(raised) => self.deliver_raised(raised, now),
            WaitingStep::Request { to, request } => self.execute(to, request, now),
        });
        done.collect()
    }

    fn deliver_raised(&mut self, raised: RaisedEvent, now: MonotonicTime) -> Vec<Action> {
        let RaisedEvent {
            event,
            origin,
            reach,
            allowance,
        } = raised;
        match origin {
            EventOrigin::ThisServer => {
                let ctx = ServerContext::new(&self.clients, &self.settings);
                self.events.distribute(ctx, event, reach, allowance)
            }
            EventOrigin::OtherServer(_) => {
                self.raised_elsewhere((event, origin), reach, allowance, now)
            }
        }
    }
}

/// Returns true for requests that may name a group in the place of a job, or are about a group.
fn may_name_group(request: &Request) -> bool {
    matches!(
        request,
        Request::Fence { .. }
            | Request::Get { .. }
            | Request::GroupConstruct { .. }
            | Request::GroupDestruct { .. }
            | Request::GroupLeave { .. }
            | Request::Connect { .. }
            | Request::Disconnect { .. }
    )
}
