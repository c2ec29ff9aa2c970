//! Messages of other servers about published data, after their check.
use super::{
    Action, DataOperation, DataOrigin, DataRequestId, DataRequestStage, Holder, ItemNumber,
    OpenDataRequest, Publications, send,
};
use crate::{
    group::ServerId,
    published::{
        DataRequester, Publication, PublishAmounts, PublishedDataMessage, PublishedLookup,
    },
    server::MessageRefusal,
};
use peal_model::{Pdata, Status, code};
use std::collections::BTreeSet;

impl Publications {
    /// Handles a message of another server.
    pub(super) fn message(&mut self, from: ServerId, message: PublishedDataMessage) -> Vec<Action> {
        match message {
            PublishedDataMessage::Publish {
                number,
                publication,
            } => {
                let by = publication.by.clone();
                let operation = DataOperation::Publish(publication);
                self.submit_of(from, number, by, operation)
            }
            PublishedDataMessage::Lookup { number, by, lookup } => {
                // It would otherwise wait for ever.
                let required_keys = lookup.required_keys.min(lookup.keys.len());
                let lookup = PublishedLookup {
                    required_keys,
                    ..lookup
                };
                let operation = DataOperation::Lookup {
                    asked: lookup.clone(),
                    lookup,
                    found: Vec::new(),
                };
                self.submit_of(from, number, by, operation)
            }
            PublishedDataMessage::Narrow {
                number,
                keys,
                required_keys,
            } => {
                let id = DataRequestId::Of(from, number);
                let Some(mut request) = self.close(id) else {
                    return Vec::new();
                };
                if let DataOperation::Lookup { lookup, .. } = &mut request.operation {
                    lookup.keys.retain(|key| keys.contains(key));
                    lookup.required_keys = required_keys.min(lookup.required_keys);
                }
                self.submit(id, request)
            }
            PublishedDataMessage::GiveUp { number } => {
                self.close(DataRequestId::Of(from, number));
                Vec::new()
            }
            PublishedDataMessage::Withdraw { number, items } => {
                self.withdraw_of(from, &items);
                let answer = number.map(|number| PublishedDataMessage::Answer {
                    number,
                    result: Ok(Vec::new()),
                });
                answer
                    .map(|answer| send(from, answer))
                    .into_iter()
                    .collect()
            }
            PublishedDataMessage::Answer { number, result } => {
                self.answered(from, DataRequestId::Own(number), result)
            }
            PublishedDataMessage::RestoreBegins => {
                self.remove_server(from);
                Vec::new()
            }
            PublishedDataMessage::Restore(publications) => self.restore_from(from, publications),
            PublishedDataMessage::RestoreEnds => self.restored_by(from),
            PublishedDataMessage::Taken(items) => self.of_holder(from, |own| {
                own.store.remove_shared(&items);
                Vec::new()
            }),
            PublishedDataMessage::Refused(items) => self.of_holder(from, |own| {
                let lost = own.store.remove_shared(&items).into_iter();
                lost.map(|(by, key)| Action::PublishedDataLost { by, key })
                    .collect()
            }),
        }
    }

    fn submit_of(
        &mut self,
        from: ServerId,
        number: u64,
        by: DataRequester,
        operation: DataOperation,
    ) -> Vec<Action> {
        let id = DataRequestId::Of(from, number);
        if self.requests.contains_key(&id) {
            return Vec::new();
        }
        let request = OpenDataRequest {
            by,
            origin: DataOrigin::Server(from, number),
            operation,
            deadline: None,
            stage: DataRequestStage::Postponed,
            held: PublishAmounts::default(),
        };
        self.submit(id, request)
    }

    /// Withdraws items of another server, also those that are not published yet.
    fn withdraw_of(&mut self, from: ServerId, items: &BTreeSet<ItemNumber>) {
        self.store.withdraw_of(from, items);
        for (id, request) in &mut self.requests {
            if let DataOperation::Publish(publication) = &mut request.operation
                && id.server() == Some(from)
            {
                publication
                    .items
                    .retain(|item| !items.contains(&item.number));
            }
        }
    }

    /// Handles the holder's answer to a request. Another server answers nothing.
    fn answered(
        &mut self,
        from: ServerId,
        id: DataRequestId,
        result: Result<Vec<Pdata>, Status>,
    ) -> Vec<Action> {
        let is_asked = |request: &OpenDataRequest| request.stage == DataRequestStage::Sent(from);
        if !self.requests.get(&id).is_some_and(is_asked) {
            return Vec::new();
        }
        let Some(request) = self.close(id) else {
            return Vec::new();
        };
        match (&request.operation, result) {
            (DataOperation::Publish(publication), Ok(_)) => {
                let published = self.store.publish(None, publication.clone());
                match published {
                    Ok(ready) => {
                        let mut actions = vec![request.answer(Ok(Vec::new()))];
                        actions.extend(self.finish(ready));
                        actions
                    }
                    // Without a copy the data would be lost with the holder.
                    Err(refusal) => {
                        let mut actions = vec![request.answer(Err(refusal.status()))];
                        let items = Publications::numbers(&request);
                        actions.extend(self.withdraw_at_holder(None, items));
                        actions
                    }
                }
            }
            (DataOperation::Lookup { .. }, Ok(found)) => self.continue_lookup(id, request, found),
            (DataOperation::Lookup { .. }, Err(code::PMIX_ERR_NOT_FOUND)) => {
                self.continue_lookup(id, request, Vec::new())
            }
            (_, result) => vec![request.answer(result.map(|_| Vec::new()))],
        }
    }

    /// Handles what only the holder may say.
    fn of_holder(
        &mut self,
        from: ServerId,
        handle: impl FnOnce(&mut Publications) -> Vec<Action>,
    ) -> Vec<Action> {
        if self.holder == Holder::Other(from) {
            handle(self)
        } else {
            let refusal = MessageRefusal::NotHolder;
            vec![Action::MessageRefused { from, refusal }]
        }
    }

    /// Takes items of another server.
    fn restore_from(&mut self, from: ServerId, publications: Vec<Publication>) -> Vec<Action> {
        let mut refused = BTreeSet::new();
        let mut actions = Vec::new();
        for publication in publications {
            let numbers: Vec<ItemNumber> =
                publication.items.iter().map(|item| item.number).collect();
            match self.store.publish(Some(from), publication) {
                Ok(ready) => actions.extend(self.finish(ready)),
                Err(_) => refused.extend(numbers),
            }
        }
        if !refused.is_empty() {
            actions.push(send(from, PublishedDataMessage::Refused(refused)));
        }
        actions
    }
}
