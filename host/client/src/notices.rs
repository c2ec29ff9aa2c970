//! Registration for events, and raising of events.
use crate::{
    Client, ClientError, Handler, event_registrations::ServerUpdate, queued_item::QueuedItem,
    session::ClientSession,
};
use peal_core::{
    audience,
    class::ClassFilter,
    registration::{HandlerRegistration, RegistrationId},
};
use peal_model::{CommandCode, Event, Info, Range, Request, Status};
use std::sync::Arc;

impl Client {
    /// Registers a handler for these codes; none means all (`PMIx_Register_event_handler`). By
    /// default it receives job-specific events. `PMIX_EVENT_ENVIRO_LEVEL` and
    /// `PMIX_EVENT_JOB_LEVEL` choose the classes; one of them alone excludes the other. See
    /// [`peal_core::class`].
    ///
    /// The handler also receives earlier events: first the recent events of this process that no
    /// handler has completed ([`crate::ClientSettings::recent_events`]), then those that the server
    /// has retained. It may be called before this call returns.
    ///
    /// The loss of a server is an event too: `PMIX_ERR_LOST_CONNECTION`, which RFC 0002 names
    /// `PMIX_ERR_LOST_SERVER_CONNECTION`. A message that could not be unpacked, or a request or
    /// event of this client that could not be packed, is `PMIX_ERR_COMM_FAILURE`
    /// (`PMIX_ERR_FAILED_COMM`). Both name the server as `PMIX_EVENT_AFFECTED_PROC`.
    pub async fn register(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: Handler,
    ) -> Result<RegistrationId, ClientError> {
        let registration =
            HandlerRegistration::from_directives(codes, directives, Some(self.me()))?;
        let session = self.session();
        let register = async {
            let turn = session.changes.lock().await;
            // The local registration comes first: retained events may follow directly behind the
            // server's reply.
            let (id, for_server) = session.handlers.register(codes, registration, handler)?;
            // The item wakes the event task, which passes recent events to the new handler even if
            // no new event comes.
            session.queue.put(QueuedItem::Registered, None);
            let unsettled = Unsettled {
                session,
                id: Some(id),
            };
            let answers = session.update_servers(for_server).await?;
            // The replies may lie behind events whose handling needs the lock.
            drop(turn);
            for (at, answer) in answers.into_iter().enumerate() {
                match answer.answer().await {
                    // Calls go to the first server, so that only its refusal fails the
                    // registration.
                    Err(error) if at == 0 => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, "handler not registered with every server")
                    }
                    Ok(_) => {}
                }
            }
            Ok(unsettled.settled(id))
        };
        self.session()
            .bounded(CommandCode::RegisterEvents, self.answer_limit(), register)
            .await
    }

    /// Registers a handler for events of this process alone, such as the loss of a server: no server
    /// is asked for events. It receives those that servers send for other handlers all the same.
    pub fn register_here(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: Handler,
    ) -> Result<RegistrationId, ClientError> {
        let registration =
            HandlerRegistration::from_directives(codes, directives, Some(self.me()))?;
        let session = self.session();
        let classes = ClassFilter::Neither;
        let (id, _) = session
            .handlers
            .register_counted(codes, registration, handler, classes)?;
        session.queue.put(QueuedItem::Registered, None);
        Ok(id)
    }

    /// Passes an event to the handlers of this process, and to nothing else. It keeps its source, which
    /// may be another proc.
    pub async fn deliver(&self, event: Event) {
        let queue = &self.session().queue;
        let event = QueuedItem::Event(Event {
            range: Range::ProcLocal,
            ..event
        });
        let room = queue.reserve(&event).await;
        queue.put(event, room);
    }

    /// Deregisters a handler (`PMIx_Deregister_event_handler`). The server is told only if no other
    /// handler needs the codes. A handler deregisters itself by [`crate::HandlerCall::deregister`].
    pub async fn deregister(&self, id: RegistrationId) -> Result<(), ClientError> {
        let deregister = async {
            if self.session().deregister(id).await? {
                Ok(())
            } else {
                Err(ClientError::NotRegistered { id })
            }
        };
        self.session()
            .bounded(
                CommandCode::DeregisterEvents,
                self.answer_limit(),
                deregister,
            )
            .await
    }

    /// Registers these codes for the client itself, whether or not handlers exist for them.
    pub(crate) async fn register_codes(&self, codes: &[Status]) -> Result<(), ClientError> {
        let want = async {
            let session = self.session();
            let turn = session.changes.lock().await;
            let unconfirmed = UnconfirmedCodes {
                session,
                codes: session.handlers.count_own(codes),
            };
            if unconfirmed.codes.is_empty() {
                return Ok(());
            }
            let update = ServerUpdate::Register(unconfirmed.codes.clone(), ClassFilter::Both);
            let answers = session.update_servers(update).await?;
            drop(turn);
            for answer in answers.into_iter().take(1) {
                answer.answer().await?;
            }
            unconfirmed.confirm();
            Ok(())
        };
        self.session()
            .bounded(CommandCode::RegisterEvents, self.answer_limit(), want)
            .await
    }

    /// Raises an event (`PMIx_Notify_event`). The client's own handlers receive it here if it is
    /// meant for this proc, since the server never sends it back. An event of range
    /// `PMIX_RANGE_PROC_LOCAL` goes nowhere else. A handler must raise events by
    /// [`crate::HandlerCall::notify`]: this call could wait for that handler.
    pub async fn notify(
        &self,
        code: Status,
        range: Range,
        infos: Vec<Info>,
    ) -> Result<(), ClientError> {
        match self.notify_self(code, range, infos).await? {
            Some(notify) => self.ask(notify).await.map(drop),
            None => Ok(()),
        }
    }

    /// Raises an event as [`Client::notify`] does, and returns when it is sent. A refusal by the
    /// server is logged.
    pub async fn raise(
        &self,
        code: Status,
        range: Range,
        infos: Vec<Info>,
    ) -> Result<(), ClientError> {
        let Some(notify) = self.notify_self(code, range, infos).await? else {
            return Ok(());
        };
        let link = self.session().link(CommandCode::Notify)?;
        let raise = link.raise_in_turn(notify);
        self.session()
            .bounded(CommandCode::Notify, self.answer_limit(), raise)
            .await
    }

    /// Passes an event of this proc to its own handlers, if it is one of the recipients. Returns the
    /// request to the server, if there are others.
    async fn notify_self(
        &self,
        code: Status,
        range: Range,
        infos: Vec<Info>,
    ) -> Result<Option<Request>, ClientError> {
        let notify = (range != Range::ProcLocal).then(|| Request::Notify {
            code,
            range,
            infos: infos.clone(),
        });
        let event = Event {
            code,
            source: Some(self.me().clone()),
            range,
            infos,
        };
        if !audience::includes(&event, self.me()) {
            return Ok(notify);
        }
        let queue = &self.session().queue;
        let own = QueuedItem::Event(event);
        let room = async { Ok(queue.reserve(&own).await) };
        let room = self
            .session()
            .bounded(CommandCode::Notify, self.answer_limit(), room)
            .await?;
        queue.put(own, room);
        Ok(notify)
    }
}

/// Codes of the client itself that the server has not confirmed yet. The drop takes them back, so
/// that the next call registers them again, whether the registration failed or the caller cancelled
/// it.
struct UnconfirmedCodes<'a> {
    session: &'a ClientSession,
    codes: Vec<Status>,
}

impl UnconfirmedCodes<'_> {
    fn confirm(mut self) {
        let codes = std::mem::take(&mut self.codes);
        self.session.handlers.confirm_own(&codes);
    }
}

impl Drop for UnconfirmedCodes<'_> {
    fn drop(&mut self) {
        self.session.handlers.revoke_own(&self.codes);
    }
}

/// Registration that is not confirmed yet. The drop removes its handler, whether the registration
/// failed or the caller cancelled it.
struct Unsettled<'a> {
    session: &'a Arc<ClientSession>,
    id: Option<RegistrationId>,
}

impl Unsettled<'_> {
    fn settled(mut self, id: RegistrationId) -> RegistrationId {
        self.id = None;
        id
    }
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.session.clone().give_up(id);
        }
    }
}
