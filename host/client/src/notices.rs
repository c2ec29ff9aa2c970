//! Events, as a program registers for them and raises them.
use crate::{Client, ClientError, Handler, queue::QueuedItem, session::ClientSession};
use peal_core::{
    audience,
    registration::{Registration, RegistrationId},
};
use peal_model::{CommandCode, Event, Info, Range, Request, Status};
use std::sync::Arc;

impl Client {
    /// Registers a handler for these codes; none means all (`PMIx_Register_event_handler`). It hears events about procs and jobs;
    /// to hear of the environment as well takes `PMIX_EVENT_ENVIRO_LEVEL` (and `PMIX_EVENT_JOB_LEVEL`: one that is asked for
    /// alone is the only one). See [`peal_core::class`].
    ///
    /// It also hears what came before: first the recent events that came to this process and that no handler has completed
    /// ([`crate::ClientSettings::recent_events`]), then what the server has kept. It may be called before this returns.
    ///
    /// The loss of the server is an event, too: `PMIX_ERR_LOST_CONNECTION`, or by the name of RFC 0002
    /// `PMIX_ERR_LOST_SERVER_CONNECTION`. A message that could not be unpacked, or a request or event of ours that could not be
    /// packed, is `PMIX_ERR_COMM_FAILURE` (`PMIX_ERR_FAILED_COMM`). Both name the server as `PMIX_EVENT_AFFECTED_PROC`.
    pub async fn register(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: Handler,
    ) -> Result<RegistrationId, ClientError> {
        let registration = Registration::from_directives(codes, directives, Some(self.me()))?;
        let session = self.session();
        let register = async {
            let turn = session.changes.lock().await;
            // Recorded here first: cached events may come right behind the server's acknowledgement.
            let (id, for_server) = session.handlers.register(codes, registration, handler)?;
            session.queue.put(QueuedItem::Registered, None);
            let unsettled = Unsettled {
                session,
                id: Some(id),
            };
            let answers = session.tell(for_server).await?;
            drop(turn);
            for (at, answer) in answers.into_iter().enumerate() {
                match answer.answer().await {
                    Err(error) if at == 0 => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, "a handler is registered, but not with every server")
                    }
                    Ok(_) => {}
                }
            }
            Ok(unsettled.settled(id))
        };
        self.bounded(CommandCode::RegisterEvents, self.answer_limit(), register)
            .await
    }

    /// Takes a handler out (`PMIx_Deregister_event_handler`). The server hears of it if no other handler wants the codes. A
    /// handler takes itself out by [`crate::HandlerCall::deregister`].
    pub async fn deregister(&self, id: RegistrationId) -> Result<(), ClientError> {
        let deregister = async {
            if self.session().deregister(id).await? {
                Ok(())
            } else {
                Err(ClientError::NotRegistered { id })
            }
        };
        self.bounded(
            CommandCode::DeregisterEvents,
            self.answer_limit(),
            deregister,
        )
        .await
    }

    /// Hears of events of these codes from now on, whether or not handlers do.
    pub(crate) async fn want(&self, codes: &[Status]) -> Result<(), ClientError> {
        let want = async {
            let turn = self.session().changes.lock().await;
            let answers = self
                .session()
                .tell(self.session().handlers.want(codes))
                .await?;
            drop(turn);
            for answer in answers.into_iter().take(1) {
                answer.answer().await?;
            }
            Ok(())
        };
        self.bounded(CommandCode::RegisterEvents, self.answer_limit(), want)
            .await
    }

    /// Raises an event (`PMIx_Notify_event`). Our own handlers see it here, if it is meant for us; the server never sends it
    /// back. One of range `PMIX_RANGE_PROC_LOCAL` goes nowhere else. A handler raises events by
    /// [`crate::HandlerCall::notify`]: here it could wait for itself.
    pub async fn notify(
        &self,
        code: Status,
        range: Range,
        infos: Vec<Info>,
    ) -> Result<(), ClientError> {
        let event = Event {
            code,
            source: Some(self.me().clone()),
            range,
            infos: infos.clone(),
        };
        if audience::includes(&event, self.me()) {
            let queue = &self.session().queue;
            let own = QueuedItem::Event(event);
            let room = async { Ok(queue.room(&own).await) };
            let room = self
                .bounded(CommandCode::Notify, self.answer_limit(), room)
                .await?;
            queue.put(own, room);
        }
        if range == Range::ProcLocal {
            return Ok(());
        }
        self.ask(Request::Notify { code, range, infos })
            .await
            .map(drop)
    }
}

/// A registration that is not yet known to stand: if it comes to nothing, also because the caller gave up, its handler is
/// taken out again.
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
