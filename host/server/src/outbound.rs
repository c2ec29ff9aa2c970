//! Requests of the actor to the host environment and to other servers. The actor waits for none of
//! them: answers that are not there at once come back as messages.
use crate::{
    actor::Actor,
    channels::{LogAnswer, LogRequester},
    handle::ActorMessage,
    host_environment::{ContinuedAnswer, EventHandling, HostEnvironment},
    node_data::{self, NodeData},
    notice::Notice,
    other_servers::OtherServers,
    upcalls,
};
use peal_core::{
    group::{GroupKey, GroupOperation, HostGroupAnswer, HostGroupRequest, ServerId},
    job_control::{ControlUpcallId, JobControl},
    log::{LogArrival, LogOrigin},
    server::{
        EventOrigin, FenceContribution, FenceId, HostRegistrationId, LogMessage, Purpose,
        RequestId, Upcall,
    },
    supported,
    user_scope::UserScope,
};
use peal_model::{
    Bytes, Info, Infos, Key, LogRequest, Proc, Query, Reply, Request, Status, Value, code, key,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};
use tracing::Instrument;

impl Actor {
    /// Exchanges the contributions to a fence with other nodes, through the host environment.
    pub(crate) fn gather_by_host(
        &mut self,
        id: FenceId,
        purpose: Purpose,
        procs: &[Proc],
        contribution: FenceContribution,
    ) {
        let host = self.host.clone();
        let procs = procs.to_vec();
        let gather = async move {
            let own = node_data::encode(&NodeData::of_fence(contribution))?;
            host.gather(id, purpose, procs, own).await
        };
        self.process_gathered(id, gather);
    }

    fn process_gathered(
        &mut self,
        id: FenceId,
        gather: impl Future<Output = Result<Bytes, Status>> + Send + 'static,
    ) {
        let outcome = async move { node_data::decode_contributions(&gather.await?) };
        self.process_answer_over_nodes(async move {
            let outcome = outcome.await;
            ActorMessage::Gathered { id, outcome }
        });
    }

    /// Processes the answers to upcalls that the previous process of this server has made.
    pub(crate) fn process_continued_answers(&mut self) {
        for answer in self.host.continued_answers() {
            match answer {
                ContinuedAnswer::Gathered { id, answer } => self.process_gathered(id, answer),
                ContinuedAnswer::Group {
                    key,
                    operation,
                    answer,
                } => self.process_group_answer(key, operation, answer),
                ContinuedAnswer::Values { proc, answer } => self.process_values(proc, answer),
            }
        }
    }

    /// Requests the values of a proc of another node from the host environment.
    fn direct_modex(&mut self, proc: Proc) {
        let host = self.host.clone();
        let asked = proc.clone();
        self.process_values(proc, async move { host.direct_modex(asked).await });
    }

    fn process_values(
        &mut self,
        proc: Proc,
        answer: impl Future<Output = Result<Bytes, Status>> + Send + 'static,
    ) {
        let values = async move {
            let all = node_data::decode_contributions(&answer.await?)?;
            Ok(all.data.into_iter().map(|data| data.values).collect())
        };
        self.process_answer_over_nodes(async move {
            let values = values.await;
            ActorMessage::ModexReceived { proc, values }
        });
    }

    /// Carries out an operation on a group with the servers of other nodes, through the host
    /// environment.
    fn group_by_host(&mut self, request: HostGroupRequest) {
        let host = self.host.clone();
        let HostGroupRequest {
            key,
            operation,
            procs,
            infos: mut directives,
            wants_context_id,
            status,
            own,
        } = request;
        let group = key.clone();
        let call = async move {
            // Another caller than the first may have asked for it.
            if wants_context_id && !directives.is_true(key::PMIX_GROUP_ASSIGN_CONTEXT_ID) {
                let yes = Value::Bool(true);
                directives.push(Info::new(key::PMIX_GROUP_ASSIGN_CONTEXT_ID, yes));
            }
            // In the order of the C library.
            let status = Value::Status(status);
            directives.push(Info::new(key::PMIX_LOCAL_COLLECTIVE_STATUS, status));
            if operation == GroupOperation::Construct || own.failure.is_some() {
                let data = Value::ByteObject(node_data::encode_group(own)?);
                directives.push(Info::new(key::PMIX_GROUP_ENDPT_DATA, data));
            }
            host.group(group, operation, procs, directives).await
        };
        self.process_group_answer(key, operation, call);
    }

    fn process_group_answer(
        &mut self,
        key: GroupKey,
        operation: GroupOperation,
        call: impl Future<Output = Result<Vec<Info>, Status>> + Send + 'static,
    ) {
        let answer = async move {
            let mut infos = call.await?;
            let nodes = node_data::decode_groups(&infos)?;
            let context_id = infos.value_of(key::PMIX_GROUP_CONTEXT_ID);
            let context_id = context_id.and_then(Value::as_u64);
            let own_keys = [key::PMIX_GROUP_ENDPT_DATA, key::PMIX_GROUP_CONTEXT_ID];
            infos.retain(|info| own_keys.iter().all(|key| info.key != *key));
            Ok(HostGroupAnswer {
                nodes,
                context_id,
                infos,
            })
        };
        self.process_answer_over_nodes(async move {
            let answer = answer.await;
            ActorMessage::GroupAnswered {
                key,
                operation,
                answer,
            }
        });
    }

    /// Executes an upcall to the host environment.
    pub(crate) fn notify_host(&mut self, upcall: Upcall) {
        match upcall {
            Upcall::ClientConnected(proc) => {
                self.host.client_connected(&proc);
                self.notices.notify(Notice::ProcConnected(proc));
            }
            Upcall::ClientFinalized { to, proc } => {
                self.notices.notify(Notice::ProcFinalized(proc.clone()));
                self.answer(to, |host| async move {
                    upcalls::report_finalize(&*host, proc).await
                });
            }
            Upcall::ClientLost(proc) => self.host.client_lost(&proc),
            Upcall::ToolLeft(tool) => self.host.tool_departed(&tool),
            Upcall::Notify { event, allowance } => {
                let source = event.source.as_ref().map(tracing::field::display);
                tracing::info!(code = %event.code, source, "event for the resource manager");
                if self.host.notify(event.clone()) == EventHandling::BySite {
                    // Only the site's chain receives an event of this range.
                    let raised = (event, EventOrigin::ThisServer);
                    self.chain(raised, UserScope::Everybody, allowance, None);
                }
            }
            Upcall::DirectModex(proc) => self.direct_modex(proc),
            Upcall::Group(request) => self.group_by_host(*request),
            Upcall::RegisterEvents { id, codes } => self.register_with_host(id, codes),
            Upcall::DeregisterEvents(codes) => self.host.deregister_events(codes),
            Upcall::Request {
                to,
                source,
                request:
                    request @ (Request::Publish { .. }
                    | Request::Lookup { .. }
                    | Request::Unpublish { .. }),
            } => {
                let host = self.host.clone();
                self.process_answer(async move {
                    let answered = upcalls::published(&*host, &source, &request).await;
                    match answered {
                        Some(reply) => ActorMessage::Answer { to, reply },
                        None => ActorMessage::DataRequest {
                            to,
                            source,
                            request,
                        },
                    }
                });
            }
            Upcall::Request {
                to,
                source,
                request,
            } => {
                let identity = self.state.identity(&source);
                // Collected before the upcall, because only the actor can read the state.
                let known = match (&request, identity) {
                    (Request::Query { queries }, Some(identity)) => {
                        let controls = self.state.query_controls(identity, queries).into_iter();
                        let groups = self.state.query_groups(identity, queries);
                        let sets = self.state.query_process_sets(identity, queries);
                        let supported = supported::answer_queries(queries, self.host.supported());
                        let channels = self.log_channels(&source, queries);
                        controls
                            .chain(groups)
                            .chain(sets)
                            .chain(supported)
                            .chain(channels)
                            .collect()
                    }
                    _ => Vec::new(),
                };
                let asker = upcalls::UpcallRequester {
                    source,
                    identity,
                    known,
                    servers: OtherServers::new(self.handle.clone()),
                };
                self.answer(to, |host| async move {
                    upcalls::make(&*host, asker, request).await
                });
            }
            Upcall::JobControl {
                id,
                source,
                control,
            } => self.make_control(id, source, control),
            Upcall::RecordForServer(record) => self.record_for_server(record),
            Upcall::ControlOverNodes {
                id,
                source,
                control,
            } => {
                let host = self.host.clone();
                self.process_answer(async move {
                    let answer = host.control_over_nodes(source, control).await;
                    ActorMessage::ControlledOverNodes { id, answer }
                });
            }
            Upcall::ServerQuery {
                to,
                identity,
                queries,
            } => {
                let host = self.host.clone();
                self.process_answer(async move {
                    let answer = host.query_for_server(identity, queries).await;
                    ActorMessage::ServerQueryAnswered { to, answer }
                });
            }
            Upcall::Cleanup {
                to,
                source,
                identity,
                cleanup,
            } => {
                self.answer(to, |host| async move {
                    upcalls::clean_up(&*host, source, identity, cleanup).await
                });
            }
        }
    }

    /// Has the host environment control procs.
    pub(crate) fn make_control(
        &mut self,
        id: ControlUpcallId,
        source: Option<Proc>,
        control: JobControl,
    ) {
        let host = self.host.clone();
        let targets = control.targets.clone();
        self.process_answer(async move {
            let answer = host.job_control(source, control).await;
            ActorMessage::Controlled {
                id,
                targets,
                answer,
            }
        });
    }

    /// Returns the keys of the log channels that are available to a requester, separated by commas,
    /// if a query has the key for them.
    fn log_channels(&self, source: &Proc, queries: &[Query]) -> Option<Info> {
        let mut keys = queries.iter().flat_map(|query| query.keys.iter().flatten());
        let is_asked =
            keys.any(|queried| queried.as_bytes() == key::PMIX_QUERY_LOG_CHANNELS.0.as_bytes());
        let info = || {
            let available = self.channels.available(source);
            let keys: Vec<&str> = LogArrival::default()
                .all(&available)
                .map(Key::as_str)
                .collect();
            Info::new(key::PMIX_QUERY_LOG_CHANNELS, Value::string(&keys.join(",")))
        };
        is_asked.then(info)
    }

    /// Registers for events with the host environment, for a limited time, because clients wait for
    /// the result.
    fn register_with_host(&mut self, id: HostRegistrationId, codes: Vec<Status>) {
        let host = self.host.clone();
        let limit = self.host_timeout;
        self.process_answer(async move {
            let answer = tokio::time::timeout(limit, host.register_events(codes.clone())).await;
            let answer = answer.unwrap_or_else(|_| {
                // The host environment may have registered meanwhile, or still register.
                host.deregister_events(codes);
                Err(code::PMIX_ERR_TIMEOUT)
            });
            ActorMessage::HostRegistered { id, answer }
        });
    }

    /// Answers a request when the host environment has answered the upcall.
    fn answer<F>(&mut self, to: RequestId, call: impl FnOnce(Arc<dyn HostEnvironment>) -> F)
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let reply = call(self.host.clone());
        self.process_answer(async move {
            let reply = reply.await;
            ActorMessage::Answer { to, reply }
        });
    }

    /// Submits a log request to the log channels.
    pub(crate) fn log(
        &mut self,
        asker: LogRequester,
        request: Arc<LogRequest>,
        origin: LogOrigin,
        chosen: Option<Key>,
    ) {
        if let Some(LogAnswer { to, reply }) = self.channels.submit(asker, request, origin, chosen)
        {
            let actions = self.state.answer(to, reply);
            self.act_all(actions);
        }
    }

    /// Processes a message of another server about a log request: writes for it, or takes its answer.
    pub(crate) fn log_message(&mut self, from: ServerId, message: LogMessage) {
        match message {
            LogMessage::Write {
                number,
                channel,
                request,
                origin,
            } => {
                // A server that says so itself could have its request travel on.
                let origin = origin.at_gateway();
                let status = self.handle.log_from(request, origin, Some(channel));
                let gateways = self.gateways.clone();
                tokio::spawn(
                    async move { gateways.answer(from, number, status.await) }.in_current_span(),
                );
            }
            LogMessage::Written { number, status } => self.gateways.written(from, number, status),
        }
    }

    /// Processes an answer: at once if the future is ready, otherwise in a task that sends it as a
    /// message. Futures are ready at once if no other party takes part, and no client then waits
    /// for a task to start.
    pub(crate) fn process_answer(
        &mut self,
        answer: impl Future<Output = ActorMessage> + Send + 'static,
    ) {
        let open = self.open_answers.clone();
        self.process_counted_answer(answer, open);
    }

    /// Processes an answer that another process of the server can await in the place of this one.
    fn process_answer_over_nodes(
        &mut self,
        answer: impl Future<Output = ActorMessage> + Send + 'static,
    ) {
        let open = self.open_answers_over_nodes.clone();
        self.process_counted_answer(answer, open);
    }

    fn process_counted_answer(
        &mut self,
        answer: impl Future<Output = ActorMessage> + Send + 'static,
        open: Arc<AtomicUsize>,
    ) {
        let mut answer = Box::pin(answer);
        match answer
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(message) => {
                let actions = self.internal(message);
                self.act_all(actions);
            }
            Poll::Pending => {
                // The task polls the future again, and so replaces the waker that does nothing.
                let handle = self.handle.clone();
                let open = OpenAnswer::new(&open);
                let send = async move {
                    handle.send(answer.await);
                    drop(open);
                };
                tokio::spawn(send.in_current_span());
            }
        }
    }
}

/// Answer of another party that has not come, until it is dropped.
struct OpenAnswer(Arc<AtomicUsize>);

impl OpenAnswer {
    fn new(open: &Arc<AtomicUsize>) -> OpenAnswer {
        open.fetch_add(1, Ordering::Relaxed);
        OpenAnswer(open.clone())
    }
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
