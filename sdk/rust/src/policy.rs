//! Policies: the request of the current call, and the outcome of a policy.
pub use crate::bindings::connection_policy::exports::peal::pmix::connection_policy::ConnectionKind;
pub use crate::bindings::group_policy::exports::peal::pmix::group_policy::GroupOperationKind;
pub use crate::bindings::types::{PeerInfo, UnixGroup};
use crate::{
    ChainResult, Info, Proc, Range, UserIdentity, Value,
    bindings::{
        amendment, call, connection_policy::exports::peal::pmix::connection_policy,
        event_policy::exports::peal::pmix::event_policy,
        group_policy::exports::peal::pmix::group_policy,
        job_control_policy::exports::peal::pmix::job_control_policy,
        log_policy::exports::peal::pmix::log_policy,
        monitor_policy::exports::peal::pmix::monitor_policy,
        provision_policy::exports::peal::pmix::provision_policy,
        spawn_policy::exports::peal::pmix::spawn_policy, types,
    },
    tree::{lower_info, lower_infos},
    view::{View, for_tests},
};

/// Key of a reason in plain text, which the requester receives.
pub const REASON: &str = "peal.reason";

/// Subject of a decision.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PolicySubject {
    /// Connection of a peer.
    Connection(ConnectionKind),
    /// Event that is raised, and may reach other users.
    Event {
        /// Event code: one of [`crate::status`], or a number that programs agreed upon.
        code: i32,
        /// Range of the event.
        range: Range,
    },
    /// Registration of a client for events; [`Request::codes`] has its codes.
    Registration,
    /// Job control of procs.
    JobControl,
    /// Monitor of procs, files or resources; the monitor is the info.
    Monitor,
    /// Provision of nodes: those of [`Request::nodes`], with [`Request::image`]. A policy that
    /// grants pushes the answer.
    Provision,
    /// Log request.
    Log,
    /// Operation on the group of [`Request::group_name`], with the targets.
    Group(GroupOperationKind),
    /// Spawn of the job of [`Request::applications`]. Its directives may be amended.
    Spawn,
}

/// Target proc of a request, and its owner.
#[derive(Clone, PartialEq, Debug)]
pub struct TargetProc {
    /// Proc; its rank may be the wildcard.
    pub proc: Proc,
    /// User and group of its job. None where this server does not know the job.
    pub owner: Option<UserIdentity>,
}

/// Application of the job to be spawned.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Application {
    /// Program as requested, possibly a name to be searched in `PATH`; empty if none is named.
    pub command: String,
    /// Arguments without the program's name.
    pub arguments: Vec<String>,
    /// Environment in addition to that of the server, each `NAME=value`.
    pub environment: Vec<String>,
    /// Working directory, unless `PMIX_WDIR` is among the directives of the application or job.
    pub directory: Option<String>,
    /// Number of procs; 0 for an invalid number.
    pub procs: u32,
    /// Directives of the application.
    pub directives: Vec<Info>,
}

/// Request of the current call. Every accessor calls the host unless its documentation says
/// otherwise, so keep a value that is needed twice.
#[derive(Debug)]
pub struct Request {
    subject: PolicySubject,
    codes: Vec<i32>,
    nodes: Vec<String>,
    image: Option<String>,
    group_name: Option<String>,
    applications: Vec<spawn_policy::Application>,
    targets: u32,
    previous: u32,
    view: View,
}

for_tests!(Request);

impl Request {
    /// Creates a request for tests: about this subject, without a requester, first in its chain.
    pub fn for_test(subject: PolicySubject) -> Request {
        Request {
            view: View::test(),
            ..Request::new(subject, 0, 0)
        }
    }

    /// Adds a code of a registration, in tests.
    #[must_use]
    pub fn with_code(mut self, code: i32) -> Request {
        self.codes.push(code);
        self
    }

    /// Adds a node, in tests.
    #[must_use]
    pub fn with_node(mut self, name: impl Into<String>) -> Request {
        self.nodes.push(name.into());
        self
    }

    /// Sets the image, in tests.
    #[must_use]
    pub fn with_image(mut self, image: impl Into<String>) -> Request {
        self.image = Some(image.into());
        self
    }

    /// Sets the name of the group, in tests.
    #[must_use]
    pub fn with_group_name(mut self, name: impl Into<String>) -> Request {
        self.group_name = Some(name.into());
        self
    }

    /// Adds an application to be spawned, in tests.
    #[must_use]
    pub fn with_application(mut self, application: Application) -> Request {
        let Application {
            command,
            arguments,
            environment,
            directory,
            procs,
            directives,
        } = application;
        let count = directives.len() as u32;
        if let Some(test_call) = self.view.test_call() {
            test_call.infos.extend(directives);
        }
        let directives = count;
        let head = spawn_policy::Application {
            command,
            arguments,
            environment,
            directory,
            procs,
            directives,
        };
        self.applications.push(head);
        self
    }

    /// Adds a Unix group of the requester, in tests.
    #[must_use]
    pub fn with_unix_group(mut self, group: UnixGroup) -> Request {
        if let Some(test_call) = self.view.test_call() {
            test_call.unix_groups.push(group);
        }
        self
    }

    /// Sets the user of the server, in tests.
    #[must_use]
    pub fn with_server_user(mut self, server: UserIdentity) -> Request {
        if let Some(test_call) = self.view.test_call() {
            test_call.server_identity = Some(server);
        }
        self
    }

    /// Returns the subject of the decision, without a call of the host.
    pub fn subject(&self) -> PolicySubject {
        self.subject
    }

    /// Returns the codes of a registration, without a call of the host; none: all codes.
    pub fn codes(&self) -> &[i32] {
        &self.codes
    }

    /// Returns the names of the nodes to be provided, without a call of the host.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// Returns the image for the nodes, without a call of the host.
    pub fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    /// Returns the name of the group, if the request names one, without a call of the host.
    pub fn group_name(&self) -> Option<&str> {
        self.group_name.as_deref()
    }

    /// Returns the applications of the job to be spawned.
    pub fn applications(&self) -> Vec<Application> {
        let has_directives = self
            .applications
            .iter()
            .any(|application| application.directives > 0);
        let mut infos = if has_directives {
            self.infos()
        } else {
            Vec::new()
        }
        .into_iter();
        let own = |head: &spawn_policy::Application| {
            let directives = infos.by_ref().take(head.directives as usize).collect();
            let spawn_policy::Application {
                command,
                arguments,
                environment,
                directory,
                procs,
                ..
            } = head.clone();
            Application {
                command,
                arguments,
                environment,
                directory,
                procs,
                directives,
            }
        };
        self.applications.iter().map(own).collect()
    }

    /// Returns the requester. None for a tool that has no name yet.
    pub fn requester(&self) -> Option<Proc> {
        self.view.source()
    }

    /// Returns the user of the requester, as reported by the kernel. None where no process is the
    /// requester.
    pub fn identity(&self) -> Option<UserIdentity> {
        self.view.identity()
    }

    /// Returns the Unix groups of the requester's process, as reported by the kernel: its effective
    /// group first, then its supplementary groups.
    pub fn unix_groups(&self) -> Vec<UnixGroup> {
        self.view.unix_groups()
    }

    /// Returns the user of the server.
    pub fn server_identity(&self) -> Option<UserIdentity> {
        self.view.server_identity()
    }

    /// Returns the peer that requests a connection. None for other subjects.
    pub fn peer(&self) -> Option<PeerInfo> {
        call::peer()
    }

    /// Returns the target procs with their owners.
    pub fn targets(&self) -> Vec<TargetProc> {
        self.view.targets()
    }

    /// Returns the number of targets, without a call of the host.
    pub fn target_count(&self) -> u32 {
        match &self.view {
            View::Call => self.targets,
            View::Test(test_call) => test_call.targets.len() as u32,
        }
    }

    /// Returns the infos of the request: those of an event, those that a peer sent when it
    /// connected, the data to be logged, or the directives of all applications.
    pub fn infos(&self) -> Vec<Info> {
        self.view.infos()
    }

    /// Returns the directives of the request: how it is to be carried out. For an invitation and
    /// its answer these are the infos of the event.
    pub fn directives(&self) -> Vec<Info> {
        self.view.directives()
    }

    /// Returns the value of a key ([`crate::key`] has the Standard's) among the infos or else the
    /// directives. Of a repeated key the last value counts.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.view.get(key)
    }

    /// Returns the results of the policies that ran earlier in the chain, oldest first.
    pub fn previous_results(&self) -> Vec<ChainResult> {
        self.view.previous_results()
    }

    /// Returns the number of policies that ran earlier in the chain, without a call of the host.
    pub fn previous_count(&self) -> u32 {
        match &self.view {
            View::Call => self.previous,
            View::Test(test_call) => test_call.previous.len() as u32,
        }
    }
}

impl Request {
    fn new(subject: PolicySubject, targets: u32, previous: u32) -> Request {
        let codes = Vec::new();
        let nodes = Vec::new();
        let applications = Vec::new();
        let image = None;
        let group_name = None;
        Request {
            subject,
            codes,
            nodes,
            image,
            group_name,
            applications,
            targets,
            previous,
            view: View::Call,
        }
    }
}

impl From<event_policy::RegistrationHead> for Request {
    fn from(head: event_policy::RegistrationHead) -> Request {
        Request {
            codes: head.codes,
            ..Request::new(PolicySubject::Registration, 0, head.previous)
        }
    }
}

impl From<connection_policy::RequestHead> for Request {
    fn from(head: connection_policy::RequestHead) -> Request {
        Request::new(
            PolicySubject::Connection(head.kind),
            head.targets,
            head.previous,
        )
    }
}

impl From<event_policy::RequestHead> for Request {
    fn from(head: event_policy::RequestHead) -> Request {
        Request::new(
            PolicySubject::Event {
                code: head.code,
                range: head.range,
            },
            head.targets,
            head.previous,
        )
    }
}

impl From<job_control_policy::RequestHead> for Request {
    fn from(head: job_control_policy::RequestHead) -> Request {
        Request::new(PolicySubject::JobControl, head.targets, head.previous)
    }
}

impl From<monitor_policy::RequestHead> for Request {
    fn from(head: monitor_policy::RequestHead) -> Request {
        Request::new(PolicySubject::Monitor, head.targets, head.previous)
    }
}

impl From<provision_policy::RequestHead> for Request {
    fn from(head: provision_policy::RequestHead) -> Request {
        Request {
            nodes: head.nodes,
            image: head.image,
            ..Request::new(PolicySubject::Provision, 0, head.previous)
        }
    }
}

impl From<log_policy::RequestHead> for Request {
    fn from(head: log_policy::RequestHead) -> Request {
        Request::new(PolicySubject::Log, 0, head.previous)
    }
}

impl From<group_policy::RequestHead> for Request {
    fn from(head: group_policy::RequestHead) -> Request {
        Request {
            group_name: head.name,
            ..Request::new(PolicySubject::Group(head.kind), head.targets, head.previous)
        }
    }
}

impl From<spawn_policy::RequestHead> for Request {
    fn from(head: spawn_policy::RequestHead) -> Request {
        Request {
            applications: head.applications,
            ..Request::new(PolicySubject::Spawn, head.targets, head.previous)
        }
    }
}

/// Outcome of one policy about a request. The verdict is the conclusion of the whole chain.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct PolicyOutcome {
    outcome: types::PolicyOutcome,
    infos: Vec<Info>,
    amended: Option<Vec<Info>>,
    range: Option<Range>,
    rewritten: Option<Vec<Info>>,
}

impl PolicyOutcome {
    /// Creates an outcome without a decision: later policies decide or, if none does, the site's
    /// default.
    pub fn pass() -> PolicyOutcome {
        PolicyOutcome::new(types::PolicyOutcome::Pass)
    }

    /// Creates an outcome that grants the request; later policies are not called.
    pub fn grant() -> PolicyOutcome {
        PolicyOutcome::new(types::PolicyOutcome::Grant)
    }

    /// Creates an outcome that denies the request with a status for the requester, such as
    /// [`crate::status::PMIX_ERR_NO_PERMISSIONS`]; later policies are not called.
    pub fn deny(status: i32) -> PolicyOutcome {
        PolicyOutcome::new(types::PolicyOutcome::Deny(status))
    }

    fn new(outcome: types::PolicyOutcome) -> PolicyOutcome {
        PolicyOutcome {
            outcome,
            infos: Vec::new(),
            amended: None,
            range: None,
            rewritten: None,
        }
    }

    /// Adds a reason in plain text, which the requester receives under [`REASON`].
    pub fn with_reason(self, words: impl Into<String>) -> PolicyOutcome {
        self.with(REASON, words.into())
    }

    /// Adds an info.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> PolicyOutcome {
        self.infos.push(Info::new(key, value));
        self
    }

    /// Replaces the directives of the request or, for an event or a connection, its infos. Without
    /// effect if the outcome is a denial.
    pub fn amend(mut self, directives: impl IntoIterator<Item = Info>) -> PolicyOutcome {
        self.amended = Some(directives.into_iter().collect());
        self
    }

    /// Replaces the range of the event. Without effect if the new range is not within the old one,
    /// or if the outcome is a denial.
    pub fn narrow_range(mut self, range: Range) -> PolicyOutcome {
        self.range = Some(range);
        self
    }

    /// Replaces the data of a log request: other texts, or other channels for them. Without effect
    /// for other subjects, or if the outcome is a denial.
    pub fn rewrite_data(mut self, data: impl IntoIterator<Item = Info>) -> PolicyOutcome {
        self.rewritten = Some(data.into_iter().collect());
        self
    }

    /// Returns the data that replace those of the log request.
    pub fn rewritten(&self) -> Option<&[Info]> {
        self.rewritten.as_deref()
    }

    /// Returns whether the outcome is a denial.
    pub fn is_denial(&self) -> bool {
        matches!(self.outcome, types::PolicyOutcome::Deny(_))
    }

    /// Returns whether the outcome is a grant.
    pub fn is_grant(&self) -> bool {
        matches!(self.outcome, types::PolicyOutcome::Grant)
    }

    /// Returns the infos: the reasons of a denial.
    pub fn infos(&self) -> &[Info] {
        &self.infos
    }

    /// Passes infos and amendments to the host.
    fn deliver(self) -> types::PolicyOutcome {
        for info in self.infos {
            let (info, arrays) = lower_info(info);
            call::push(&info, &arrays);
        }
        if let Some(amended) = self.amended {
            amendment::amend(&lower_infos(amended));
        }
        if let Some(range) = self.range {
            // A range that is not within the old one is refused, and has no effect as documented.
            let _ = amendment::narrow_range(range);
        }
        if let Some(rewritten) = self.rewritten {
            // If nothing is to be logged this is refused, and has no effect as documented.
            let _ = amendment::rewrite_data(&lower_infos(rewritten));
        }
        self.outcome
    }
}

/// Runs the function that the macros of policies export as `decide`.
#[doc(hidden)]
pub fn run_decide(
    head: impl Into<Request>,
    decide: impl Fn(&Request) -> PolicyOutcome,
) -> types::PolicyOutcome {
    crate::describe_panics();
    decide(&head.into()).deliver()
}
