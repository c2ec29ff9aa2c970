//! Handlers of `peal attach`. Their requests go to the server as requests of the program.
use super::{connection::ProxyCommand, pmix_environment::ForeignRuntime};
use peal_core::{audience, registration::EventCodes, server::EventBudget};
use peal_model::{ChainResult, Event, Info, Nspace, Proc, Range, Rank, Request, Status, code};
use peal_proxy::EventDisposition;
use peal_sandbox::{DeferredControl, DeferredLog};
use peal_server::{HandlerRequest, Raised, StandaloneChain};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// Codes that host environments raise themselves. Some servers send these only to registrations by
/// code, or omit them for default registrations.
const OF_HOSTS: [Status; 19] = [
    code::PMIX_ERR_PROC_ABORTED,
    code::PMIX_ERR_PROC_REQUESTED_ABORT,
    code::PMIX_ERR_PROC_ABORTING,
    code::PMIX_ERR_LOST_CONNECTION,
    code::PMIX_PROC_TERMINATED,
    code::PMIX_ERR_PROC_TERM_WO_SYNC,
    code::PMIX_EVENT_PROC_TERMINATED,
    code::PMIX_ERR_PROC_KILLED_BY_CMD,
    code::PMIX_ERR_PROC_FAILED_TO_START,
    code::PMIX_ERR_PROC_ABORTED_BY_SIG,
    code::PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED,
    code::PMIX_ERR_EXIT_NONZERO_TERM,
    code::PMIX_MONITOR_HEARTBEAT_ALERT,
    code::PMIX_MONITOR_FILE_ALERT,
    code::PMIX_JCTRL_CHECKPOINT,
    code::PMIX_JCTRL_PREEMPT_ALERT,
    code::PMIX_EVENT_JOB_END,
    code::PMIX_EVENT_NODE_DOWN,
    code::PMIX_EVENT_NODE_OFFLINE,
];

/// Handlers between the program and its server.
pub struct AttachHandlers {
    chain: StandaloneChain,
    nspace: Nspace,
    runtime: ForeignRuntime,
    allowance: EventBudget,
    lines: Mutex<Vec<ProgramConnection>>,
}

/// Connected process of the program: its name, once known, and its command queue.
struct ProgramConnection {
    me: Option<Proc>,
    orders: mpsc::Sender<ProxyCommand>,
}

impl AttachHandlers {
    /// Creates the handlers for procs of this job. `allowance` bounds the events that may follow
    /// from one event.
    pub fn new(
        chain: StandaloneChain,
        nspace: Nspace,
        runtime: ForeignRuntime,
        allowance: EventBudget,
    ) -> AttachHandlers {
        AttachHandlers {
            chain,
            nspace,
            runtime,
            allowance,
            lines: Mutex::default(),
        }
    }

    /// Returns the codes that the handlers need, in lists; an empty list means all codes.
    pub fn codes(&self) -> Vec<Vec<Status>> {
        let lists = |codes| match codes {
            EventCodes::Single(one) => vec![vec![one]],
            EventCodes::Multi(several) => vec![several],
            EventCodes::Default => vec![Vec::new(), OF_HOSTS.to_vec()],
        };
        self.chain.codes().into_iter().flat_map(lists).collect()
    }

    /// Runs an event of the server through the handlers, and returns what happens to it.
    pub async fn handle(&self, event: Arc<Event>) -> EventDisposition {
        // A server that names no range has retained the event for this proc.
        let event = match event.range {
            Range::Undef => Arc::new(Event {
                range: Range::Session,
                ..Arc::unwrap_or_clone(event)
            }),
            _ => event,
        };
        self.pass(event, self.allowance).await
    }

    async fn pass(&self, event: Arc<Event>, allowance: EventBudget) -> EventDisposition {
        let results = self.chain.pass(event, allowance).results().await;
        let steps: Vec<&ChainResult> = results
            .iter()
            .flat_map(|all| all.iter())
            .flat_map(|chain| &chain.steps)
            .collect();
        // A handler that completes an event keeps it from the program.
        if steps
            .iter()
            .any(|step| step.status == code::PMIX_EVENT_ACTION_COMPLETE)
        {
            return EventDisposition::Stop;
        }
        EventDisposition::Pass(
            steps
                .iter()
                .map(|step| step.as_info())
                .collect::<Vec<Info>>(),
        )
    }

    /// Adds a connected process of the program.
    pub fn connected(&self, me: Option<Proc>, orders: mpsc::Sender<ProxyCommand>) {
        self.lines().push(ProgramConnection { me, orders });
    }

    /// Carries out the requests of the handlers until these have ended.
    pub async fn serve(self: Arc<Self>, mut wanted: mpsc::Receiver<HandlerRequest>) {
        while let Some(wanted) = wanted.recv().await {
            match wanted {
                HandlerRequest::Event(raised) => self.raise(raised).await,
                HandlerRequest::Control {
                    module,
                    control:
                        DeferredControl {
                            targets,
                            directives,
                            ..
                        },
                    ..
                } => {
                    let request = Request::JobControl {
                        targets,
                        directives,
                    };
                    self.order(ProxyCommand::Ask(
                        request,
                        format!("job control requested by {module}"),
                    ))
                    .await;
                }
                HandlerRequest::Report {
                    report:
                        DeferredLog {
                            data, directives, ..
                        },
                    ..
                } => {
                    let request = Request::Log {
                        // Zero means that there is no timestamp.
                        timestamp: 0,
                        data,
                        directives,
                    };
                    self.order(ProxyCommand::Ask(request, "what a handler logs".to_owned()))
                        .await;
                }
            }
        }
    }

    /// Raises an event as the program. The server sends it to other procs but never back, so the
    /// program and the handlers receive it here.
    async fn raise(self: &Arc<Self>, raised: Raised) {
        let Raised {
            event, allowance, ..
        } = raised;
        let me = self.first().and_then(|(me, _)| me);
        // The name of the program is unknown until it connects.
        let me = me.unwrap_or_else(|| Proc::new(self.nspace.clone(), Rank(0)));
        let event = Arc::new(Event {
            source: Some(me.clone()),
            ..event
        });
        if event.range != Range::ProcLocal {
            let code = event.code;
            let range = event.range;
            let infos = event.infos.clone();
            let what = format!(
                "event {code} of range {} that a handler raises",
                range.name()
            );
            if self.runtime.bears(range) {
                self.order(ProxyCommand::Ask(
                    Request::Notify { code, range, infos },
                    what,
                ))
                .await;
            } else {
                // The server would stop answering all clients.
                tracing::warn!(
                    event = what,
                    "event not sent: mpirun of Open MPI 4 fails on events of this range"
                );
            }
        }
        if audience::includes(&event, &me) {
            // In a task: the handlers may request more, and only this loop takes their requests.
            let handlers = self.clone();
            tokio::spawn(async move {
                if let EventDisposition::Pass(results) =
                    handlers.pass(event.clone(), allowance).await
                {
                    let mut event = Arc::unwrap_or_clone(event);
                    event.infos.extend(results);
                    handlers.order(ProxyCommand::Deliver(Arc::new(event))).await;
                }
            });
        }
    }

    /// Sends a command to the connection that was made first of those that are open.
    async fn order(&self, order: ProxyCommand) {
        match self.first() {
            // The connection may end at the same time.
            Some((_, orders)) => drop(orders.send(order).await),
            None => {
                tracing::warn!(request = %order, "request of a handler dropped: program not connected")
            }
        }
    }

    fn first(&self) -> Option<(Option<Proc>, mpsc::Sender<ProxyCommand>)> {
        let mut lines = self.lines();
        lines.retain(|line| !line.orders.is_closed());
        lines
            .first()
            .map(|line| (line.me.clone(), line.orders.clone()))
    }

    fn lines(&self) -> MutexGuard<'_, Vec<ProgramConnection>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the handlers have handled all events, and ends them.
    pub async fn drain(self) {
        self.chain.drain().await;
    }
}
