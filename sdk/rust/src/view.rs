//! Where the answers of an event or request come from: the call being made or, in a unit test, what the test says.
use crate::{
    Group, Identity, Info, Proc, Step, Target, Value,
    bindings::call,
    tree::{lift_chain, lift_content, lift_found},
};

/// What events and requests are views of.
#[derive(Debug)]
pub(crate) enum View {
    /// The call being made; each question is answered by the host.
    Call,
    /// A test.
    Test(Box<Facts>),
}

/// What a test says.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) source: Option<Proc>,
    pub(crate) identity: Option<Identity>,
    pub(crate) groups: Vec<Group>,
    pub(crate) server: Option<Identity>,
    pub(crate) targets: Vec<Target>,
    pub(crate) infos: Vec<Info>,
    pub(crate) directives: Vec<Info>,
    pub(crate) steps: Vec<Step>,
}

impl View {
    pub(crate) fn test() -> View {
        View::Test(Box::default())
    }

    /// What a test says; that of a call cannot be changed.
    pub(crate) fn facts(&mut self) -> Option<&mut Facts> {
        match self {
            View::Call => None,
            View::Test(facts) => Some(facts),
        }
    }

    pub(crate) fn source(&self) -> Option<Proc> {
        match self {
            View::Call => call::source(),
            View::Test(facts) => facts.source.clone(),
        }
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        match self {
            View::Call => call::credentials(),
            View::Test(facts) => facts.identity,
        }
    }

    pub(crate) fn groups(&self) -> Vec<Group> {
        match self {
            View::Call => call::groups(),
            View::Test(facts) => facts.groups.clone(),
        }
    }

    pub(crate) fn server(&self) -> Option<Identity> {
        match self {
            View::Call => call::server(),
            View::Test(facts) => facts.server,
        }
    }

    pub(crate) fn procs(&self) -> Vec<Proc> {
        match self {
            View::Call => call::targets(),
            View::Test(facts) => facts
                .targets
                .iter()
                .map(|target| target.proc.clone())
                .collect(),
        }
    }

    pub(crate) fn targets(&self) -> Vec<Target> {
        match self {
            View::Call => {
                let (procs, owners) = (call::targets(), call::owners());
                procs
                    .into_iter()
                    .zip(owners)
                    .map(|(proc, owner)| Target { proc, owner })
                    .collect()
            }
            View::Test(facts) => facts.targets.clone(),
        }
    }

    pub(crate) fn infos(&self) -> Vec<Info> {
        match self {
            View::Call => lift_content(call::infos()),
            View::Test(facts) => facts.infos.clone(),
        }
    }

    pub(crate) fn directives(&self) -> Vec<Info> {
        match self {
            View::Call => lift_content(call::directives()),
            View::Test(facts) => facts.directives.clone(),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        match self {
            View::Call => call::get(key).map(lift_found),
            View::Test(facts) => {
                let last = |infos: &[Info]| {
                    infos
                        .iter()
                        .rfind(|info| info.key == key)
                        .map(|info| info.value.clone())
                };
                last(&facts.infos).or_else(|| last(&facts.directives))
            }
        }
    }

    pub(crate) fn steps(&self) -> Vec<Step> {
        match self {
            View::Call => lift_chain(call::steps()),
            View::Test(facts) => facts.steps.clone(),
        }
    }
}

/// How a test says what an event or request is like. On the one that a host hands over these have no effect.
macro_rules! for_tests {
    ($view:ident) => {
        impl $view {
            /// For tests: the same, caused by this proc.
            #[must_use]
            pub fn by(mut self, source: crate::Proc) -> $view {
                if let Some(facts) = self.view.facts() {
                    facts.source = Some(source);
                }
                self
            }

            /// For tests: the same, with this user and group of the source.
            #[must_use]
            pub fn as_user(mut self, identity: crate::Identity) -> $view {
                if let Some(facts) = self.view.facts() {
                    facts.identity = Some(identity);
                }
                self
            }

            /// For tests: the same with one more info.
            #[must_use]
            pub fn with(mut self, key: impl Into<String>, value: impl Into<crate::Value>) -> $view {
                if let Some(facts) = self.view.facts() {
                    facts.infos.push(crate::Info::new(key, value));
                }
                self
            }

            /// For tests: the same with one more directive.
            #[must_use]
            pub fn with_directive(
                mut self,
                key: impl Into<String>,
                value: impl Into<crate::Value>,
            ) -> $view {
                if let Some(facts) = self.view.facts() {
                    facts.directives.push(crate::Info::new(key, value));
                }
                self
            }

            /// For tests: the same, with one more proc that it is about.
            #[must_use]
            pub fn about(mut self, proc: crate::Proc, owner: Option<crate::Identity>) -> $view {
                if let Some(facts) = self.view.facts() {
                    facts.targets.push(crate::Target { proc, owner });
                }
                self
            }

            /// For tests: the same behind one more step of the chain.
            #[must_use]
            pub fn after(mut self, step: crate::Step) -> $view {
                if let Some(facts) = self.view.facts() {
                    facts.steps.push(step);
                }
                self
            }
        }
    };
}
pub(crate) use for_tests;
