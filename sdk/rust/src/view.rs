//! Source of the values of an event or request: the current call or, in a unit test, a
//! [`TestCall`].
use crate::{
    ChainResult, Info, Proc, TargetProc, UnixGroup, UserIdentity, Value,
    bindings::call,
    tree::{lift_infos, lift_results, lift_value},
};

/// Source of the values of an event or request.
#[derive(Debug)]
pub(crate) enum View {
    /// Current call; the host returns the values.
    Call,
    /// Unit test.
    Test(Box<TestCall>),
}

/// Values of a call in a unit test.
#[derive(Debug, Default)]
pub(crate) struct TestCall {
    pub(crate) source: Option<Proc>,
    pub(crate) identity: Option<UserIdentity>,
    pub(crate) unix_groups: Vec<UnixGroup>,
    pub(crate) server_identity: Option<UserIdentity>,
    pub(crate) targets: Vec<TargetProc>,
    pub(crate) infos: Vec<Info>,
    pub(crate) directives: Vec<Info>,
    pub(crate) previous: Vec<ChainResult>,
}

impl View {
    pub(crate) fn test() -> View {
        View::Test(Box::default())
    }

    /// Returns the values of a test for changes; none in a call of the host.
    pub(crate) fn test_call(&mut self) -> Option<&mut TestCall> {
        match self {
            View::Call => None,
            View::Test(test_call) => Some(test_call),
        }
    }

    pub(crate) fn source(&self) -> Option<Proc> {
        match self {
            View::Call => call::source(),
            View::Test(test_call) => test_call.source.clone(),
        }
    }

    pub(crate) fn identity(&self) -> Option<UserIdentity> {
        match self {
            View::Call => call::credentials(),
            View::Test(test_call) => test_call.identity,
        }
    }

    pub(crate) fn unix_groups(&self) -> Vec<UnixGroup> {
        match self {
            View::Call => call::unix_groups(),
            View::Test(test_call) => test_call.unix_groups.clone(),
        }
    }

    pub(crate) fn server_identity(&self) -> Option<UserIdentity> {
        match self {
            View::Call => call::server_identity(),
            View::Test(test_call) => test_call.server_identity,
        }
    }

    pub(crate) fn procs(&self) -> Vec<Proc> {
        match self {
            View::Call => call::targets(),
            View::Test(test_call) => test_call
                .targets
                .iter()
                .map(|target| target.proc.clone())
                .collect(),
        }
    }

    pub(crate) fn targets(&self) -> Vec<TargetProc> {
        match self {
            View::Call => {
                let procs = call::targets();
                let owners = call::target_owners();
                procs
                    .into_iter()
                    .zip(owners)
                    .map(|(proc, owner)| TargetProc { proc, owner })
                    .collect()
            }
            View::Test(test_call) => test_call.targets.clone(),
        }
    }

    pub(crate) fn infos(&self) -> Vec<Info> {
        match self {
            View::Call => lift_infos(call::infos()),
            View::Test(test_call) => test_call.infos.clone(),
        }
    }

    pub(crate) fn directives(&self) -> Vec<Info> {
        match self {
            View::Call => lift_infos(call::directives()),
            View::Test(test_call) => test_call.directives.clone(),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        match self {
            View::Call => call::get(key).map(lift_value),
            View::Test(test_call) => {
                let last = |infos: &[Info]| {
                    infos
                        .iter()
                        .rfind(|info| info.key == key)
                        .map(|info| info.value.clone())
                };
                last(&test_call.infos).or_else(|| last(&test_call.directives))
            }
        }
    }

    pub(crate) fn previous_results(&self) -> Vec<ChainResult> {
        match self {
            View::Call => lift_results(call::previous_results()),
            View::Test(test_call) => test_call.previous.clone(),
        }
    }
}

/// Setters of events and requests in tests. Without effect in a call of the host.
macro_rules! for_tests {
    ($view:ident) => {
        impl $view {
            /// Sets the source or requester, in tests.
            #[must_use]
            pub fn with_source(mut self, source: crate::Proc) -> $view {
                if let Some(test_call) = self.view.test_call() {
                    test_call.source = Some(source);
                }
                self
            }

            /// Sets user and group of the source, in tests.
            #[must_use]
            pub fn with_identity(mut self, identity: crate::UserIdentity) -> $view {
                if let Some(test_call) = self.view.test_call() {
                    test_call.identity = Some(identity);
                }
                self
            }

            /// Adds an info, in tests.
            #[must_use]
            pub fn with(mut self, key: impl Into<String>, value: impl Into<crate::Value>) -> $view {
                if let Some(test_call) = self.view.test_call() {
                    test_call.infos.push(crate::Info::new(key, value));
                }
                self
            }

            /// Adds a directive, in tests.
            #[must_use]
            pub fn with_directive(
                mut self,
                key: impl Into<String>,
                value: impl Into<crate::Value>,
            ) -> $view {
                if let Some(test_call) = self.view.test_call() {
                    test_call.directives.push(crate::Info::new(key, value));
                }
                self
            }

            /// Adds a target proc with its owner, in tests.
            #[must_use]
            pub fn with_target(
                mut self,
                proc: crate::Proc,
                owner: Option<crate::UserIdentity>,
            ) -> $view {
                if let Some(test_call) = self.view.test_call() {
                    test_call.targets.push(crate::TargetProc { proc, owner });
                }
                self
            }

            /// Adds the result of an earlier module of the chain, in tests.
            #[must_use]
            pub fn with_previous_result(mut self, step: crate::ChainResult) -> $view {
                if let Some(test_call) = self.view.test_call() {
                    test_call.previous.push(step);
                }
                self
            }
        }
    };
}
pub(crate) use for_tests;
