//! Runner of cases: loads a module with its settings, and passes it the inputs of the cases in an
//! isolated environment.
use super::{
    case::{Case, CaseInput, Cases, NOON},
    case_parse::CaseSettings,
    fixture::{Consumption, FixtureState, TestFixture},
    result::{CaseDifference, CaseResult},
};
use peal_model::{Amendment, ChainResult, Event, ModuleRegistration, PolicyOutcome, UserIdentity};
use peal_sandbox::{
    CallFailure, CallRecord, ChannelCall, Engine, EventCall, Grants, HandlerResult, InitError,
    LoadError, Module, ModuleLimits, PolicyCall, Recorder, Role, Services,
};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};
use thiserror::Error;

/// Reason why a module cannot be tested.
#[derive(Debug, Error)]
pub enum TrialError {
    /// The module does not load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The input of a case needs a role that the module does not have.
    #[error("case {case:?} is for {named}, which module {module} is not: it exports no {role}", named = peal_model::with_article(.role))]
    Role {
        /// Name of the case.
        case: String,
        /// Role that the case needs.
        role: &'static str,
        /// Name of the module.
        module: String,
    },
}

/// Component under test, with a name.
pub struct Candidate<'a> {
    /// Engine that runs it.
    pub engine: &'a Engine,
    /// Name of the module.
    pub name: &'a str,
    /// Bytes of the component.
    pub bytes: &'a [u8],
    /// Names of the sinks that it may write to.
    pub sinks: &'a [String],
    /// Limits of its calls; of time, only processor time counts.
    pub limits: ModuleLimits,
    /// Records of its calls.
    pub records: CallRecords,
}

/// Records of the calls of a component under test. They take time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallRecords {
    /// Reports have the records.
    Kept,
    /// There are none.
    None,
}

/// Report on a case.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CaseReport {
    /// Name of the case.
    pub case: String,
    /// Result in one line.
    pub outcome: String,
    /// True if the case has an expectation.
    pub is_checked: bool,
    /// Differences from the expectation.
    pub differences: Vec<CaseDifference>,
    /// Lines that the component wrote to the trace.
    pub logs: Vec<String>,
    /// Texts that it wrote, by the names of the sinks.
    pub writes: BTreeMap<String, String>,
    /// Records of its calls, from its start on, if they are kept.
    #[serde(skip)]
    pub records: Vec<CallRecord>,
    /// Expectation that the result fulfils.
    #[serde(skip)]
    pub(super) expectation: toml::Table,
}

impl CaseReport {
    /// Returns true if the result is as expected; for a case without an expectation, if the call
    /// succeeded.
    pub fn is_ok(&self) -> bool {
        self.differences.is_empty()
    }
}

/// Loaded module in its environment.
pub(crate) struct Loaded {
    module: Module,
    registrations: Vec<ModuleRegistration>,
    refused: Option<String>,
    failure: Option<CallFailure>,
    settings: CaseSettings,
}

impl Loaded {
    fn new(
        of: &Candidate<'_>,
        scene: &TestFixture,
        settings: &CaseSettings,
    ) -> Result<Loaded, TrialError> {
        let sinks = of
            .sinks
            .iter()
            .map(|name| (name.clone(), scene.sink(name)))
            .collect();
        let services = Services {
            sinks,
            state: Some(Arc::new(scene.clone())),
            test_hooks: Some(Arc::new(scene.clone())),
            usage: Some(Arc::new(scene.clone())),
            recorder: match of.records {
                CallRecords::Kept => Some(Arc::new(scene.clone()) as Arc<dyn Recorder>),
                CallRecords::None => None,
            },
            ..Services::default()
        };
        let module = Module::load(
            of.engine,
            of.name,
            of.bytes,
            // A case tests what the component does; what a site grants is not known here.
            &Grants::all(),
            of.limits,
            services,
        )?;
        let mut refused = None;
        let mut failure = None;
        let registrations = match module.init(&settings.0) {
            Ok(registrations) => registrations,
            Err(error) => {
                match error {
                    InitError::Refused { reason, .. } => refused = Some(reason),
                    InitError::Failed { failure: how, .. } => failure = Some(how),
                    // Registrations beyond a limit keep a module from starting, too.
                    other => refused = Some(other.to_string()),
                }
                Vec::new()
            }
        };
        Ok(Loaded {
            module,
            registrations,
            refused,
            failure,
            settings: settings.clone(),
        })
    }

    fn starts(&self) -> bool {
        self.refused.is_none() && self.failure.is_none()
    }

    /// Calls the module with the input of a case.
    fn call(&self, subject: &CaseInput) -> CaseResult {
        match subject {
            // A server does not call a module that did not start.
            _ if !self.starts() => CaseResult::default(),
            CaseInput::Start => CaseResult::default(),
            CaseInput::Event {
                event,
                identity,
                tag,
                steps,
            } => self.handle(event, *identity, *tag, steps),
            CaseInput::Request(call) => self.decide(call),
            CaseInput::Log(call) => self.log(call),
        }
    }

    fn handle(
        &self,
        event: &Arc<Event>,
        identity: Option<UserIdentity>,
        tag: Option<u32>,
        steps: &Arc<Vec<ChainResult>>,
    ) -> CaseResult {
        // No codes mean a default registration.
        let is_for = |registration: &ModuleRegistration| {
            registration.codes.is_empty() || registration.codes.contains(&event.code)
        };
        let found = self
            .registrations
            .iter()
            .enumerate()
            .find(|(_, registration)| {
                tag.map_or_else(|| is_for(registration), |tag| registration.tag == tag)
            });
        // A module without registrations of its own is registered by its configuration, which a
        // case does not have.
        if found.is_none() && !self.registrations.is_empty() && tag.is_none() {
            return CaseResult {
                is_passed_over: true,
                ..CaseResult::default()
            };
        }
        let registration = found.map_or(1, |(at, _)| at as u64 + 1);
        let tag = tag
            .or(found.map(|(_, registration)| registration.tag))
            .unwrap_or_default();
        let call = EventCall {
            number: 0,
            registration,
            tag,
            event: event.clone(),
            identity,
            steps: steps.clone(),
        };
        let HandlerResult {
            status,
            infos,
            notifications: raises,
            changes,
            controls,
            reports,
            failure,
            ..
        } = self.module.handle(call);
        CaseResult {
            status: Some(status),
            infos,
            raises,
            changes,
            controls,
            reports,
            failure,
            ..CaseResult::default()
        }
    }

    fn decide(&self, call: &PolicyCall) -> CaseResult {
        let result = self.module.decide(call.clone());
        let (outcome, status, failure) = match result.outcome {
            Ok(PolicyOutcome::Pass) => (Some("pass"), None, None),
            Ok(PolicyOutcome::Grant) => (Some("grant"), None, None),
            Ok(PolicyOutcome::Deny(status)) => (Some("deny"), Some(status), None),
            Err(failure) => (None, None, Some(failure)),
        };
        let Amendment {
            infos: amended,
            range,
            data: rewritten,
        } = result.amendment;
        CaseResult {
            outcome,
            status,
            failure,
            infos: result.infos,
            amended,
            rewritten,
            range,
            ..CaseResult::default()
        }
    }

    fn log(&self, call: &ChannelCall) -> CaseResult {
        let result = self.module.log(call.clone());
        CaseResult {
            status: Some(result.status),
            infos: result.infos,
            failure: result.failure,
            ..CaseResult::default()
        }
    }

    fn fits(&self, case: &Case) -> Result<(), TrialError> {
        let role = match &case.subject {
            CaseInput::Start => return Ok(()),
            CaseInput::Event { .. } => Some(Role::EventHandler),
            CaseInput::Request(call) => Role::policy(call.request.subject.hook()),
            CaseInput::Log(_) => Some(Role::LogChannel),
        };
        match role.filter(|role| !self.module.has_role(*role)) {
            None => Ok(()),
            Some(role) => {
                let case = case.name.clone();
                let module = self.module.name().to_owned();
                Err(TrialError::Role {
                    case,
                    role: role.name(),
                    module,
                })
            }
        }
    }
}

/// Runner of the cases of a module.
pub(crate) struct CaseRunner<'a> {
    of: &'a Candidate<'a>,
    cases: &'a Cases,
    scene: TestFixture,
    loaded: Option<Loaded>,
    /// State at the start of the case that is called repeatedly.
    state: BTreeMap<String, Vec<u8>>,
}

impl<'a> CaseRunner<'a> {
    pub(crate) fn new(of: &'a Candidate<'a>, cases: &'a Cases) -> CaseRunner<'a> {
        let now = cases.time.unwrap_or(NOON).0;
        let scene = TestFixture::default();
        scene.props().now = now;
        CaseRunner {
            of,
            cases,
            scene,
            loaded: None,
            state: BTreeMap::new(),
        }
    }

    /// Sets up the environment for a case, and loads the module if it must be fresh.
    fn set(&mut self, case: &Case) -> Result<&Loaded, TrialError> {
        {
            // The lock ends with this block: the module uses the fixture when it is loaded below.
            let mut props = self.scene.props();
            if !self.cases.sequence {
                *props = FixtureState {
                    now: self.cases.time.unwrap_or(NOON).0,
                    ..FixtureState::default()
                };
            }
            // In a sequence the clock goes on from the case before.
            props.now = case
                .time
                .map_or(props.now, |time| time.0)
                .saturating_add(case.after);
            // In a sequence the state stays, but output belongs to one case.
            props.trace_lines.clear();
            props.written.clear();
            props.records.clear();
            props.usage = case.usage.clone();
            if let Some(state) = &case.state {
                props.state = state.clone();
            }
        }
        let settings = case.config.as_ref().unwrap_or(&self.cases.config);
        // Other settings need another init, and so does a module that did not start.
        let kept = self.loaded.take().filter(|loaded| {
            self.cases.sequence && !case.restart && loaded.starts() && loaded.settings == *settings
        });
        let loaded = match kept {
            Some(loaded) => loaded,
            None => Loaded::new(self.of, &self.scene, settings)?,
        };
        Ok(self.loaded.insert(loaded))
    }

    /// Runs one case.
    fn run_case(&mut self, case: &Case) -> Result<CaseResult, TrialError> {
        // A handle of its own, because `loaded` borrows the runner.
        let scene = self.scene.clone();
        let loaded = self.set(case)?;
        loaded.fits(case)?;
        let mut outcome = loaded.call(&case.subject);
        if !loaded.starts() {
            (outcome.refused, outcome.failure) = (loaded.refused.clone(), loaded.failure.clone());
        }
        let props = scene.props();
        outcome.state = props.state.clone();
        outcome.logs = props.trace_lines.clone();
        outcome.writes = props.written.clone();
        Ok(outcome)
    }

    /// Prepares a case for repeated calls. In a sequence, the cases before it run first.
    pub(crate) fn ready(&mut self, case: &Case) -> Result<(), TrialError> {
        let sequence = self
            .cases
            .iter()
            // By address, since two cases may be equal.
            .take_while(|before| !std::ptr::eq(*before, case));
        for before in sequence.filter(|_| self.cases.sequence) {
            self.run_case(before)?;
        }
        self.set(case)?.fits(case)?;
        let mut props = self.scene.props();
        // What init and earlier cases consumed does not count.
        props.usage_of_last_call = Consumption::default();
        self.state = props.state.clone();
        Ok(())
    }

    /// Calls the module with a prepared case.
    pub(crate) fn again(&self, case: &Case) -> Result<(), CallFailure> {
        let failure = self
            .loaded
            .as_ref()
            .and_then(|loaded| loaded.call(&case.subject).failure);
        failure.map_or(Ok(()), Err)
    }

    /// Starts a fresh instance, and drops it.
    pub(crate) fn start(&self) -> Result<(), CallFailure> {
        self.loaded
            .as_ref()
            .map_or(Ok(()), |loaded| loaded.module.start())
    }

    /// Returns the consumption of the last call.
    pub(crate) fn consumption(&self) -> Consumption {
        self.scene.props().usage_of_last_call
    }

    /// Resets the environment to the state of a prepared case; the module's memory stays.
    pub(crate) fn sweep(&self) {
        let mut props = self.scene.props();
        props.state = self.state.clone();
        props.trace_lines.clear();
        props.written.clear();
    }
}

/// Runs all cases of a file.
pub fn run(of: &Candidate<'_>, cases: &Cases) -> Result<Vec<CaseReport>, TrialError> {
    let mut run = CaseRunner::new(of, cases);
    let report = |case: &Case| {
        let outcome = run.run_case(case)?;
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let writes = outcome.writes.iter();
        Ok(CaseReport {
            case: case.name.clone(),
            outcome: outcome.summary(),
            is_checked: case.expect.is_some(),
            differences: outcome.differences(&case.expect.clone().unwrap_or_default()),
            logs: outcome.logs.clone(),
            writes: writes
                .map(|(sink, bytes)| (sink.clone(), text(bytes)))
                .collect(),
            records: std::mem::take(&mut run.scene.props().records),
            expectation: outcome.expectation(),
        })
    };
    cases.case.iter().map(report).collect()
}
