//! Runs cases: a module is loaded, told its settings and handed what a case says, in a scene where nothing else happens.
use super::{
    case::{Case, CaseInput, Cases, NOON},
    case_parse::CaseSettings,
    fixture::{FixtureState, Taken, TestFixture},
    result::{CaseDifference, CaseResult},
};
use peal_model::{Amendment, ChainResult, Event, PolicyOutcome, UserIdentity};
use peal_sandbox::{
    CallFailure, ChannelCall, Engine, EventCall, Grants, HandlerResult, InitError, LoadError,
    Module, ModuleLimits, ModuleRegistration, PolicyCall, Role, Services,
};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};
use thiserror::Error;

/// Why a module cannot be tried.
#[derive(Debug, Error)]
pub enum TrialError {
    /// It does not load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A case hands it what it has no role for.
    #[error("case {case:?} is for {named}, which module {module} is not: it exports no {role}", named = peal_model::with_article(.role))]
    Role {
        /// Which case.
        case: String,
        /// For which role.
        role: &'static str,
        /// Which module.
        module: String,
    },
}

/// A component that is tried, under a name.
pub struct Candidate<'a> {
    /// What runs it.
    pub engine: &'a Engine,
    /// What it is called.
    pub name: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The names of the sinks that it may write to.
    pub sinks: &'a [String],
    /// What it may use; of time, that of the processor counts.
    pub limits: ModuleLimits,
}

/// What became of a case.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CaseReport {
    /// Which case.
    pub case: String,
    /// What came out, in a line.
    pub outcome: String,
    /// Whether the case says what to expect.
    pub is_checked: bool,
    /// Where that is not what was expected.
    pub differences: Vec<CaseDifference>,
    /// What to expect if what came out is right.
    #[serde(skip)]
    pub(super) expectation: toml::Table,
}

impl CaseReport {
    /// Whether it came out as expected; of one that is not checked, whether the module answered.
    pub fn is_ok(&self) -> bool {
        self.differences.is_empty()
    }
}

/// A module in its scene.
pub(crate) struct Loaded {
    module: Module,
    wishes: Vec<ModuleRegistration>,
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
            stage: Some(Arc::new(scene.clone())),
            usage: Some(Arc::new(scene.clone())),
            ..Services::default()
        };
        let module = Module::load(
            of.engine,
            of.name,
            of.bytes,
            &Grants::all(),
            of.limits,
            services,
        )?;
        let (mut refused, mut failure) = (None, None);
        let wishes = match module.init(&settings.0) {
            Ok(wishes) => wishes,
            Err(error) => {
                match error {
                    InitError::Refused { reason, .. } => refused = Some(reason),
                    InitError::Failed { failure: how, .. } => failure = Some(how),
                    other => refused = Some(other.to_string()),
                }
                Vec::new()
            }
        };
        Ok(Loaded {
            module,
            wishes,
            refused,
            failure,
            settings: settings.clone(),
        })
    }

    fn starts(&self) -> bool {
        self.refused.is_none() && self.failure.is_none()
    }

    /// What comes out of what a case hands it.
    fn call(&self, subject: &CaseInput) -> CaseResult {
        match subject {
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
        let is_for =
            |wish: &ModuleRegistration| wish.codes.is_empty() || wish.codes.contains(&event.code);
        let wish = self
            .wishes
            .iter()
            .enumerate()
            .find(|(_, wish)| tag.map_or_else(|| is_for(wish), |tag| wish.tag == tag));
        if wish.is_none() && !self.wishes.is_empty() && tag.is_none() {
            return CaseResult {
                is_passed_over: true,
                ..CaseResult::default()
            };
        }
        let registration = wish.map_or(1, |(at, _)| at as u64 + 1);
        let tag = tag.or(wish.map(|(_, wish)| wish.tag)).unwrap_or_default();
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
        } = self.module.handle(&call);
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
        let result = self.module.decide(call);
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
        let result = self.module.log(call);
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
            CaseInput::Request(call) => Role::policy(call.request.matter.hook()),
            CaseInput::Log(_) => Some(Role::LogChannel),
        };
        match role.filter(|role| !self.module.has_role(*role)) {
            None => Ok(()),
            Some(role) => {
                let (case, module) = (case.name.clone(), self.module.name().to_owned());
                Err(TrialError::Role {
                    case,
                    role: role.name(),
                    module,
                })
            }
        }
    }
}

/// Cases on their way through a module.
pub(crate) struct CaseRunner<'a> {
    of: &'a Candidate<'a>,
    cases: &'a Cases,
    scene: TestFixture,
    loaded: Option<Loaded>,
    /// The state with which the case began that is called again and again.
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

    /// Sets the scene for a case, and loads the module if it is to be fresh.
    fn set(&mut self, case: &Case) -> Result<&Loaded, TrialError> {
        {
            let mut props = self.scene.props();
            if !self.cases.sequence {
                *props = FixtureState {
                    now: self.cases.time.unwrap_or(NOON).0,
                    ..FixtureState::default()
                };
            }
            props.now = case
                .time
                .map_or(props.now, |time| time.0)
                .saturating_add(case.after);
            props.said.clear();
            props.written.clear();
            props.usage = case.usage.clone();
            if let Some(state) = &case.state {
                props.state = state.clone();
            }
        }
        let settings = case.config.as_ref().unwrap_or(&self.cases.config);
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
    fn one(&mut self, case: &Case) -> Result<CaseResult, TrialError> {
        let scene = self.scene.clone();
        let loaded = self.set(case)?;
        loaded.fits(case)?;
        let mut outcome = loaded.call(&case.subject);
        if !loaded.starts() {
            (outcome.refused, outcome.failure) = (loaded.refused.clone(), loaded.failure.clone());
        }
        let props = scene.props();
        outcome.state = props.state.clone();
        outcome.logs = props.said.clone();
        outcome.writes = props.written.clone();
        Ok(outcome)
    }

    /// Sets the scene for a case, so that it can be called again and again; in a sequence those before it come first.
    pub(crate) fn ready(&mut self, case: &Case) -> Result<(), TrialError> {
        let sequence = self
            .cases
            .iter()
            .take_while(|before| !std::ptr::eq(*before, case));
        for before in sequence.filter(|_| self.cases.sequence) {
            self.one(before)?;
        }
        self.set(case)?.fits(case)?;
        let mut props = self.scene.props();
        props.taken = Taken::default();
        self.state = props.state.clone();
        Ok(())
    }

    /// Calls the module with a case, and nothing else.
    pub(crate) fn again(&self, case: &Case) -> Result<(), CallFailure> {
        let failure = self
            .loaded
            .as_ref()
            .and_then(|loaded| loaded.call(&case.subject).failure);
        failure.map_or(Ok(()), Err)
    }

    /// Starts a fresh instance and drops it.
    pub(crate) fn start(&self) -> Result<(), CallFailure> {
        self.loaded
            .as_ref()
            .map_or(Ok(()), |loaded| loaded.module.start())
    }

    /// What the last call took.
    pub(crate) fn taken(&self) -> Taken {
        self.scene.props().taken
    }

    /// Makes the scene again what it was when it was ready; what the module has in memory stays.
    pub(crate) fn sweep(&self) {
        let mut props = self.scene.props();
        props.state = self.state.clone();
        props.said.clear();
        props.written.clear();
    }
}

/// Runs all cases of a file.
pub fn run(of: &Candidate<'_>, cases: &Cases) -> Result<Vec<CaseReport>, TrialError> {
    let mut run = CaseRunner::new(of, cases);
    let report = |case: &Case| {
        let outcome = run.one(case)?;
        Ok(CaseReport {
            case: case.name.clone(),
            outcome: outcome.summary(),
            is_checked: case.expect.is_some(),
            differences: outcome.differences(&case.expect.clone().unwrap_or_default()),
            expectation: outcome.expectation(),
        })
    };
    cases.case.iter().map(report).collect()
}
