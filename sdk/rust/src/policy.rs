//! Policies: the request being decided about, and what a policy says of it.
pub use crate::bindings::connection_policy::exports::peal::pmix::connection_policy::ConnectionKind;
pub use crate::bindings::group_policy::exports::peal::pmix::group_policy::GroupKind;
pub use crate::bindings::types::{Group, Peer};
use crate::{
    Identity, Info, Proc, Range, Step, Value,
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
    tree::{lower_content, lower_info},
    view::{View, for_tests},
};

/// The key under which a reason in words is shown to the requester.
pub const REASON: &str = "peal.reason";

/// What is decided about.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Matter {
    /// Whether somebody may connect.
    Connection(ConnectionKind),
    /// Whether an event may be raised, and reach other users.
    Event {
        /// What happened: one of [`crate::status`], or a number that programs agreed upon.
        code: i32,
        /// Whom it is meant for.
        range: Range,
    },
    /// Whether a client may register for events; the codes are those of [`Request::codes`].
    Registration,
    /// Whether procs may be controlled.
    JobControl,
    /// Whether procs, files or the use of resources may be watched; the monitor is the info.
    Monitor,
    /// Whether nodes are provided: those of [`Request::nodes`], with [`Request::image`]. Who grants pushes the answer.
    Provision,
    /// Whether something may be logged.
    Log,
    /// Whether somebody may take part in a group: that of [`Request::group_name`], with the targets.
    Group(GroupKind),
    /// Whether a job may be spawned: that of [`Request::applications`]. Its directives may be amended.
    Spawn,
}

/// A proc that a request is about, and whose it is.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// The proc; its rank may be the wildcard.
    pub proc: Proc,
    /// User and group of its job; none where that job is not known here.
    pub owner: Option<Identity>,
}

/// An application that is to be started.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Application {
    /// The program as it was asked for, perhaps a name that is looked for in the directories of `PATH`; empty where none is named.
    pub command: String,
    /// Its arguments, without its name.
    pub arguments: Vec<String>,
    /// What it finds in its environment beside the server's own, each `NAME=value`.
    pub environment: Vec<String>,
    /// Where it starts, unless `PMIX_WDIR` among its directives or the job's says otherwise.
    pub directory: Option<String>,
    /// How many procs; 0 where the number makes no sense.
    pub procs: u32,
    /// Its own directives.
    pub directives: Vec<Info>,
}

/// The request being decided about. It is a view of the call being made: each question is answered by the host, so keep an
/// answer that is needed twice.
#[derive(Debug)]
pub struct Request {
    matter: Matter,
    codes: Vec<i32>,
    nodes: Vec<String>,
    image: Option<String>,
    group_name: Option<String>,
    applications: Vec<spawn_policy::Application>,
    targets: u32,
    steps: u32,
    view: View,
}

for_tests!(Request);

impl Request {
    /// For tests: a request of nobody about nothing but this, first in its chain.
    pub fn for_test(matter: Matter) -> Request {
        Request {
            view: View::test(),
            ..Request::new(matter, 0, 0)
        }
    }

    /// For tests: the same for one more code of a registration.
    #[must_use]
    pub fn with_code(mut self, code: i32) -> Request {
        self.codes.push(code);
        self
    }

    /// For tests: the same for one more node.
    #[must_use]
    pub fn with_node(mut self, name: impl Into<String>) -> Request {
        self.nodes.push(name.into());
        self
    }

    /// For tests: the same with this image.
    #[must_use]
    pub fn with_image(mut self, image: impl Into<String>) -> Request {
        self.image = Some(image.into());
        self
    }

    /// For tests: the same about a group of this name.
    #[must_use]
    pub fn of_group(mut self, name: impl Into<String>) -> Request {
        self.group_name = Some(name.into());
        self
    }

    /// For tests: the same with one more application that is to be started.
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
        if let Some(facts) = self.view.facts() {
            facts.infos.extend(directives);
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

    /// For tests: the same, with the requester in one more group.
    #[must_use]
    pub fn in_group(mut self, group: Group) -> Request {
        if let Some(facts) = self.view.facts() {
            facts.groups.push(group);
        }
        self
    }

    /// For tests: the same, with the server running as this.
    #[must_use]
    pub fn under(mut self, server: Identity) -> Request {
        if let Some(facts) = self.view.facts() {
            facts.server = Some(server);
        }
        self
    }

    /// What is decided about; known without asking the host.
    pub fn matter(&self) -> Matter {
        self.matter
    }

    /// The codes of a registration, none meaning all; known without asking the host.
    pub fn codes(&self) -> &[i32] {
        &self.codes
    }

    /// The nodes that are to be provided, each by its name; known without asking the host.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// What is to be put on them; known without asking the host.
    pub fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    /// What the group is called, where it is about one and names it; known without asking the host.
    pub fn group_name(&self) -> Option<&str> {
        self.group_name.as_deref()
    }

    /// What is to be started, one job of them all.
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

    /// Who asks; none for a tool that has no name yet.
    pub fn requester(&self) -> Option<Proc> {
        self.view.source()
    }

    /// As whom, by the kernel's word; none where nobody is behind it.
    pub fn identity(&self) -> Option<Identity> {
        self.view.identity()
    }

    /// The groups of the requester's process by the kernel's word: the one that it runs as, then those beside it.
    pub fn groups(&self) -> Vec<Group> {
        self.view.groups()
    }

    /// As whom the server runs.
    pub fn server(&self) -> Option<Identity> {
        self.view.server()
    }

    /// What is at the other end of a connection; none where something else is decided about.
    pub fn peer(&self) -> Option<Peer> {
        call::connection()
    }

    /// The procs that it is about, with their owners.
    pub fn targets(&self) -> Vec<Target> {
        self.view.targets()
    }

    /// How many procs it is about; known without asking the host.
    pub fn target_count(&self) -> u32 {
        match &self.view {
            View::Call => self.targets,
            View::Test(facts) => facts.targets.len() as u32,
        }
    }

    /// What it carries: an event's infos, what a peer said of itself, what is to be logged, the directives of all applications.
    pub fn infos(&self) -> Vec<Info> {
        self.view.infos()
    }

    /// How it is to be done: the directives of job control, of a monitor, of a registration, of a log request, of a job that is to be
    /// spawned, or of a request about a group; of an invitation and its answer the infos of their event.
    pub fn directives(&self) -> Vec<Info> {
        self.view.directives()
    }

    /// The value of this key ([`crate::key`] has the Standard's) among its infos or else its directives. A repeated key means
    /// the last.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.view.get(key)
    }

    /// What those before this one in the chain said, oldest first.
    pub fn steps(&self) -> Vec<Step> {
        self.view.steps()
    }

    /// How many policies of this chain were asked before; known without asking the host.
    pub fn step_count(&self) -> u32 {
        match &self.view {
            View::Call => self.steps,
            View::Test(facts) => facts.steps.len() as u32,
        }
    }
}

impl Request {
    fn new(matter: Matter, targets: u32, steps: u32) -> Request {
        let (codes, nodes, applications) = (Vec::new(), Vec::new(), Vec::new());
        let (image, group_name) = (None, None);
        Request {
            matter,
            codes,
            nodes,
            image,
            group_name,
            applications,
            targets,
            steps,
            view: View::Call,
        }
    }
}

impl From<event_policy::RegistrationHead> for Request {
    fn from(head: event_policy::RegistrationHead) -> Request {
        Request {
            codes: head.codes,
            ..Request::new(Matter::Registration, 0, head.steps)
        }
    }
}

impl From<connection_policy::RequestHead> for Request {
    fn from(head: connection_policy::RequestHead) -> Request {
        Request::new(Matter::Connection(head.kind), head.targets, head.steps)
    }
}

impl From<event_policy::RequestHead> for Request {
    fn from(head: event_policy::RequestHead) -> Request {
        Request::new(
            Matter::Event {
                code: head.code,
                range: head.range,
            },
            head.targets,
            head.steps,
        )
    }
}

impl From<job_control_policy::RequestHead> for Request {
    fn from(head: job_control_policy::RequestHead) -> Request {
        Request::new(Matter::JobControl, head.targets, head.steps)
    }
}

impl From<monitor_policy::RequestHead> for Request {
    fn from(head: monitor_policy::RequestHead) -> Request {
        Request::new(Matter::Monitor, head.targets, head.steps)
    }
}

impl From<provision_policy::RequestHead> for Request {
    fn from(head: provision_policy::RequestHead) -> Request {
        Request {
            nodes: head.nodes,
            image: head.image,
            ..Request::new(Matter::Provision, 0, head.steps)
        }
    }
}

impl From<log_policy::RequestHead> for Request {
    fn from(head: log_policy::RequestHead) -> Request {
        Request::new(Matter::Log, 0, head.steps)
    }
}

impl From<group_policy::RequestHead> for Request {
    fn from(head: group_policy::RequestHead) -> Request {
        Request {
            group_name: head.name,
            ..Request::new(Matter::Group(head.kind), head.targets, head.steps)
        }
    }
}

impl From<spawn_policy::RequestHead> for Request {
    fn from(head: spawn_policy::RequestHead) -> Request {
        Request {
            applications: head.applications,
            ..Request::new(Matter::Spawn, head.targets, head.steps)
        }
    }
}

/// What a policy says of a request. What is concluded from all of them is the verdict of their chain.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct PolicyOutcome {
    outcome: types::Outcome,
    infos: Vec<Info>,
    amended: Option<Vec<Info>>,
    range: Option<Range>,
    rewritten: Option<Vec<Info>>,
}

impl PolicyOutcome {
    /// Nothing: those after it decide, and if none does, the site's default.
    pub fn pass() -> PolicyOutcome {
        PolicyOutcome::new(types::Outcome::Pass)
    }

    /// Yes; those after it are not asked.
    pub fn grant() -> PolicyOutcome {
        PolicyOutcome::new(types::Outcome::Grant)
    }

    /// No, with the status that the requester is told, such as [`crate::status::PMIX_ERR_NO_PERMISSIONS`]; those after it are
    /// not asked.
    pub fn deny(status: i32) -> PolicyOutcome {
        PolicyOutcome::new(types::Outcome::Deny(status))
    }

    fn new(outcome: types::Outcome) -> PolicyOutcome {
        PolicyOutcome {
            outcome,
            infos: Vec::new(),
            amended: None,
            range: None,
            rewritten: None,
        }
    }

    /// The same with a reason in words, shown to the requester under [`REASON`].
    pub fn because(self, words: impl Into<String>) -> PolicyOutcome {
        self.with(REASON, words.into())
    }

    /// The same with one more info beside it.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> PolicyOutcome {
        self.infos.push(Info::new(key, value));
        self
    }

    /// The same with these in the place of the request's directives or, where it is about an event or a connection, of its
    /// infos. Without effect if it denies.
    pub fn amend(mut self, directives: impl IntoIterator<Item = Info>) -> PolicyOutcome {
        self.amended = Some(directives.into_iter().collect());
        self
    }

    /// The same with this range in the place of the event's; without effect for one that is not within it, or if it denies.
    pub fn narrow(mut self, range: Range) -> PolicyOutcome {
        self.range = Some(range);
        self
    }

    /// The same with these in the place of what is to be logged: other texts, or other channels for them. Without effect where
    /// something else is decided about, or if it denies.
    pub fn rewrite(mut self, data: impl IntoIterator<Item = Info>) -> PolicyOutcome {
        self.rewritten = Some(data.into_iter().collect());
        self
    }

    /// What is to be logged instead, if it says so.
    pub fn rewritten(&self) -> Option<&[Info]> {
        self.rewritten.as_deref()
    }

    /// Whether it says no.
    pub fn is_denial(&self) -> bool {
        matches!(self.outcome, types::Outcome::Deny(_))
    }

    /// Whether it says yes.
    pub fn is_grant(&self) -> bool {
        matches!(self.outcome, types::Outcome::Grant)
    }

    /// What it says beside that: reasons.
    pub fn infos(&self) -> &[Info] {
        &self.infos
    }

    /// Hands all that is beside it to the host.
    fn deliver(self) -> types::Outcome {
        for info in self.infos {
            let (info, arrays) = lower_info(info);
            call::push(&info, &arrays);
        }
        if let Some(amended) = self.amended {
            amendment::amend(&lower_content(amended));
        }
        if let Some(range) = self.range {
            // A range that is no narrower changes nothing, as is said above.
            let _ = amendment::narrow(range);
        }
        if let Some(rewritten) = self.rewritten {
            // Where nothing is to be logged this changes nothing, as is said above.
            let _ = amendment::rewrite(&lower_content(rewritten));
        }
        self.outcome
    }
}

/// What the macros of policies export as `decide`.
#[doc(hidden)]
pub fn run_decide(
    head: impl Into<Request>,
    decide: impl Fn(&Request) -> PolicyOutcome,
) -> types::Outcome {
    crate::describe_panics();
    decide(&head.into()).deliver()
}
