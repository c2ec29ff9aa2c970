//! Requests about published data: of procs of this server, and their execution at the holder.
use super::{
    Action, DataOperation, DataOrigin, DataRequestId, DataRequestStage, Holder, OpenDataRequest,
    Publications, keys_in, send,
};
use crate::{
    MonotonicTime,
    published::{
        DataRequester, FinishedLookup, ItemNumber, LookupResult, PublishAmounts, PublishRefusal,
        PublishedDataMessage, PublishedLookup, Seeker,
    },
    server::{RequestId, reply},
};
use peal_model::{Info, Pdata, Text, code};

impl Publications {
    /// Publishes data of a proc of this server.
    pub(super) fn publish(
        &mut self,
        to: RequestId,
        by: DataRequester,
        infos: Vec<Info>,
    ) -> Vec<Action> {
        let publication = match self.store.read(&by, infos) {
            Ok(publication) => publication,
            Err(status) => return vec![reply(to, status)],
        };
        if !publication.scope.is_shared() {
            return match self.store.publish(None, publication) {
                Err(refusal) => vec![reply(to, refusal.status())],
                Ok(ready) => {
                    let mut actions = vec![reply(to, code::PMIX_SUCCESS)];
                    actions.extend(self.finish(ready));
                    actions.extend(self.narrow(by.uid));
                    actions
                }
            };
        }
        // A key that this server knows needs no other one.
        if let Err(status) = self.store.check_keys(&publication) {
            return vec![reply(to, status)];
        }
        let id = self.next_id();
        let operation = DataOperation::Publish(publication);
        self.submit(id, OpenDataRequest::own(to, by, operation, None))
    }

    /// Looks up data for a proc of this server.
    pub(super) fn lookup(
        &mut self,
        to: RequestId,
        by: DataRequester,
        keys: &[Text],
        infos: &[Info],
        now: MonotonicTime,
    ) -> Vec<Action> {
        let (lookup, timeout) = match PublishedLookup::read(&by.proc, keys, infos) {
            Ok(read) => read,
            Err(status) => return vec![reply(to, status)],
        };
        let id = self.next_id();
        let operation = DataOperation::Lookup {
            asked: lookup.clone(),
            lookup,
            found: Vec::new(),
        };
        let deadline = timeout.map(|after| now + after);
        self.submit(id, OpenDataRequest::own(to, by, operation, deadline))
    }

    /// Withdraws data of a proc of this server, also those that the holder is being sent.
    pub(super) fn unpublish(
        &mut self,
        to: RequestId,
        by: DataRequester,
        keys: &[Text],
    ) -> Vec<Action> {
        let mut withdrawn = match self.store.unpublish(&by, keys) {
            Ok(withdrawn) => withdrawn,
            Err(status) => return vec![reply(to, status)],
        };
        let is_named = |key: &str| {
            let mut named = keys.iter();
            keys.is_empty() || named.any(|named| named.as_str() == Some(key))
        };
        for (id, request) in &mut self.requests {
            if let (None, DataOperation::Publish(publication)) =
                (id.server(), &mut request.operation)
                && request.by == by
            {
                let gone = publication
                    .items
                    .extract_if(.., |item| is_named(item.info.key.as_str()));
                withdrawn.extend(gone.map(|item| item.number));
            }
        }
        let id = self.next_id();
        let DataRequestId::Own(number) = id else {
            return Vec::new();
        };
        let Some(message) = self.withdraw_at_holder(Some(number), withdrawn) else {
            return vec![reply(to, code::PMIX_SUCCESS)];
        };
        let mut request = OpenDataRequest::own(to, by, DataOperation::Unpublish, None);
        if let Holder::Other(holder) = self.holder {
            request.stage = DataRequestStage::Sent(holder);
        }
        self.insert(id, request);
        vec![message]
    }

    fn next_id(&mut self) -> DataRequestId {
        self.last_number = self.last_number.wrapping_add(1);
        DataRequestId::Own(self.last_number)
    }

    /// Carries a request out, sends it to the holder, or postpones it.
    pub(super) fn submit(
        &mut self,
        id: DataRequestId,
        mut request: OpenDataRequest,
    ) -> Vec<Action> {
        request.stage = DataRequestStage::Postponed;
        request.held = PublishAmounts::default();
        if self.answers() {
            return self.execute(id, request);
        }
        if let (Holder::Other(_), None, DataOperation::Lookup { lookup, found, .. }) =
            (&self.holder, id.server(), &request.operation)
        {
            let left = lookup.without(keys_in(found));
            if self.store.visible_unshared(&request.by, &left) == left.keys
                && let Some(data) = self.store.read_unshared(&request.by, &left)
            {
                return vec![request.conclude(data)];
            }
        }
        let amounts = request.amounts();
        if let Err(refusal) = self.store.hold(request.by.uid, amounts) {
            return vec![request.answer(Err(refusal.status()))];
        }
        request.held = amounts;
        let message = self.pass_on(id, &mut request);
        self.insert(id, request);
        message.into_iter().collect()
    }

    /// Sends a request of this server to the holder, if that is another server.
    fn pass_on(&self, id: DataRequestId, request: &mut OpenDataRequest) -> Option<Action> {
        let (Holder::Other(holder), DataRequestId::Own(number)) = (&self.holder, id) else {
            return None;
        };
        let message = match &mut request.operation {
            DataOperation::Publish(publication) => PublishedDataMessage::Publish {
                number,
                publication: publication.clone(),
            },
            DataOperation::Lookup {
                lookup,
                asked,
                found,
            } => {
                let left = lookup.without(keys_in(found));
                let here = self.store.visible_unshared(&request.by, &left);
                *asked = left.without(&here);
                PublishedDataMessage::Lookup {
                    number,
                    by: request.by.clone(),
                    lookup: asked.clone(),
                }
            }
            DataOperation::Unpublish => return None,
        };
        request.stage = DataRequestStage::Sent(*holder);
        Some(send(*holder, message))
    }

    /// Carries out a request at the server that has the data of all servers.
    pub(super) fn execute(
        &mut self,
        id: DataRequestId,
        mut request: OpenDataRequest,
    ) -> Vec<Action> {
        let server = id.server();
        match &request.operation {
            DataOperation::Publish(publication) => {
                match self.store.publish(server, publication.clone()) {
                    Err(refusal) => vec![request.answer(Err(refusal.status()))],
                    Ok(ready) => {
                        // First, so that the server has the item before it hears that it was read.
                        let mut actions = vec![request.answer(Ok(Vec::new()))];
                        actions.extend(self.finish(ready));
                        actions
                    }
                }
            }
            DataOperation::Lookup { lookup, found, .. } => {
                let left = lookup.without(keys_in(found));
                let seeker = Seeker {
                    proc: request.by.proc.clone(),
                    server,
                };
                match self.store.lookup(request.by.uid, &seeker, &left) {
                    Ok(LookupResult::Waits(wait)) => {
                        request.stage = DataRequestStage::Waits(wait);
                        self.waits.insert(wait, id);
                        self.insert(id, request);
                        Vec::new()
                    }
                    Ok(LookupResult::Found(data)) => {
                        let mut actions = vec![request.conclude(data)];
                        actions.extend(self.tell_taken());
                        actions
                    }
                    Err(PublishRefusal::Status(code::PMIX_ERR_NOT_FOUND)) => {
                        vec![request.conclude(Vec::new())]
                    }
                    Err(refusal) => vec![request.answer(Err(refusal.status()))],
                }
            }
            DataOperation::Unpublish => vec![request.answer(Ok(Vec::new()))],
        }
    }

    /// Answers lookups that have waited.
    pub(super) fn finish(&mut self, ready: Vec<FinishedLookup>) -> Vec<Action> {
        let mut actions = Vec::new();
        for FinishedLookup { wait, found } in ready {
            if let Some(id) = self.waits.get(&wait).copied()
                && let Some(request) = self.close(id)
            {
                actions.push(request.conclude(found));
            }
        }
        actions.extend(self.tell_taken());
        actions
    }

    /// Tells other servers which of their items for the first read were read.
    fn tell_taken(&mut self) -> Vec<Action> {
        let taken = self.store.drain_taken().into_iter();
        taken
            .map(|(server, items)| send(server, PublishedDataMessage::Taken(items)))
            .collect()
    }

    /// Has the holder wait for less where this server has found keys of a user itself.
    fn narrow(&mut self, uid: u32) -> Vec<Action> {
        let mut actions = Vec::new();
        for (id, request) in &mut self.requests {
            let (DataRequestId::Own(number), DataRequestStage::Sent(holder)) = (id, request.stage)
            else {
                continue;
            };
            if let DataOperation::Lookup {
                lookup,
                asked,
                found,
            } = &mut request.operation
                && request.by.uid == uid
                && lookup.required_keys > 0
            {
                let left = lookup.without(keys_in(found));
                let here = self.store.visible_unshared(&request.by, &left);
                let rest = left.without(&here);
                if rest != *asked {
                    let message = PublishedDataMessage::Narrow {
                        number: *number,
                        keys: rest.keys.clone(),
                        required_keys: rest.required_keys,
                    };
                    actions.push(send(holder, message));
                    *asked = rest;
                }
            }
        }
        actions
    }

    /// Continues a lookup with what the holder has found, until it is complete.
    pub(super) fn continue_lookup(
        &mut self,
        id: DataRequestId,
        mut request: OpenDataRequest,
        more: Vec<Pdata>,
    ) -> Vec<Action> {
        let DataOperation::Lookup { lookup, found, .. } = &mut request.operation else {
            return Vec::new();
        };
        // A proc gets no data of keys that it has not named.
        let named = more.into_iter();
        found.extend(named.filter(|data| lookup.keys.contains(&data.key)));
        let left = lookup.without(keys_in(found));
        match self.store.read_unshared(&request.by, &left) {
            Some(data) => vec![request.conclude(data)],
            // An item that this server had found was withdrawn.
            None => self.submit(id, request),
        }
    }

    /// Returns the numbers of items that a request publishes.
    pub(super) fn numbers(request: &OpenDataRequest) -> Vec<ItemNumber> {
        match &request.operation {
            DataOperation::Publish(publication) => {
                publication.items.iter().map(|item| item.number).collect()
            }
            DataOperation::Lookup { .. } | DataOperation::Unpublish => Vec::new(),
        }
    }
}

impl OpenDataRequest {
    /// Creates the request of a client.
    fn own(
        to: RequestId,
        by: DataRequester,
        operation: DataOperation,
        deadline: Option<MonotonicTime>,
    ) -> OpenDataRequest {
        OpenDataRequest {
            by,
            origin: DataOrigin::Client(to),
            operation,
            deadline,
            stage: DataRequestStage::Postponed,
            held: PublishAmounts::default(),
        }
    }

    /// Answers a lookup with these data and those that were found before.
    fn conclude(self, more: Vec<Pdata>) -> Action {
        let mut data = match &self.operation {
            DataOperation::Lookup { found, .. } => found.clone(),
            DataOperation::Publish(_) | DataOperation::Unpublish => Vec::new(),
        };
        data.extend(more);
        // In the order of the keys, whichever server has found them.
        data.sort_by(|one, other| one.key.cmp(&other.key));
        data.dedup_by(|one, other| one.key == other.key);
        let result = if data.is_empty() {
            Err(code::PMIX_ERR_NOT_FOUND)
        } else {
            Ok(data)
        };
        self.answer(result)
    }
}
