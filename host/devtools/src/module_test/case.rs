//! Cases of module tests as they are written: an input of a module and the expected result.
use super::{
    case_parse::{
        CaseBytes, CaseSettings, CaseTime, Channel, Code, InfoWord, ProcWord, RangeWord, User,
        named_bytes,
    },
    request_case::RequestWord,
};
use peal_model::{ChainResult, Event, Info, LogRequest, Range, UserIdentity};
use peal_sandbox::{ChannelCall, PolicyCall};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{collections::BTreeMap, fmt, fs, io, path::Path, path::PathBuf, sync::Arc};
use thiserror::Error;

/// Default time of a case: 1 January 2026, noon UTC, a Thursday.
pub(super) const NOON: CaseTime = CaseTime(1_767_268_800_000);

/// Reason why cases cannot be read.
#[derive(Debug, Error)]
pub enum CaseError {
    /// The file cannot be read.
    #[error("{}: {reason}", file.display())]
    Unreadable {
        /// Path of the file.
        file: PathBuf,
        /// Error of the operating system.
        reason: io::Error,
    },
    /// The contents are invalid.
    #[error("{}:{line}:{column}: {message}", file.display())]
    Wrong {
        /// Path of the file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// Description of the error, and of valid contents.
        message: String,
    },
}

impl CaseError {
    pub(super) fn at(file: &Path, text: &str, offset: usize, message: &str) -> CaseError {
        let before = text.get(..offset.min(text.len())).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before
            .chars()
            .rev()
            .take_while(|character| *character != '\n')
            .count()
            + 1;
        CaseError::Wrong {
            file: file.to_owned(),
            line,
            column,
            // An error is printed as one line.
            message: message.trim().replace('\n', "; "),
        }
    }
}

/// Cases of a file.
#[derive(Clone, Debug, Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    /// True if the cases run one after the other in one module, which keeps its memory and state.
    #[serde(default)]
    pub(super) sequence: bool,
    #[serde(default)]
    pub(super) config: CaseSettings,
    pub(super) time: Option<CaseTime>,
    #[serde(default)]
    pub(super) case: Vec<Case>,
}

impl Cases {
    /// Parses cases in TOML. `file` is the path that errors name.
    pub fn parse(file: &Path, text: &str) -> Result<Cases, CaseError> {
        toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            CaseError::at(file, text, offset, error.message())
        })
    }

    /// Returns all cases in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Case> {
        self.case.iter()
    }

    /// Returns the number of cases.
    pub fn len(&self) -> usize {
        self.case.len()
    }

    /// Returns true if there is no case.
    pub fn is_empty(&self) -> bool {
        self.case.is_empty()
    }
}

/// Reads the text of a case file.
pub(super) fn read(file: &Path) -> Result<String, CaseError> {
    fs::read_to_string(file).map_err(|reason| CaseError::Unreadable {
        file: file.to_owned(),
        reason,
    })
}

/// Case of a module test.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "CaseFields")]
#[schemars(with = "CaseFields")]
pub struct Case {
    pub(super) name: String,
    pub(super) config: Option<CaseSettings>,
    pub(super) time: Option<CaseTime>,
    /// Time since the previous case, in milliseconds.
    pub(super) after: u64,
    /// True if the module is loaded again before the case.
    pub(super) restart: bool,
    pub(super) state: Option<BTreeMap<String, Vec<u8>>>,
    /// Resource usage of procs by name.
    pub(super) usage: BTreeMap<String, Vec<Info>>,
    pub(super) subject: CaseInput,
    /// Expected result; without one, only the success of the call is checked.
    pub(super) expect: Option<Expect>,
}

impl Case {
    /// Returns the name of the case.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Input of the module.
#[derive(Clone, Debug)]
pub(super) enum CaseInput {
    /// Settings only, for a case about the start.
    Start,
    Event {
        event: Arc<Event>,
        identity: Option<UserIdentity>,
        tag: Option<u32>,
        steps: Arc<Vec<ChainResult>>,
    },
    Request(PolicyCall),
    Log(ChannelCall),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CaseFields {
    name: String,
    config: Option<CaseSettings>,
    time: Option<CaseTime>,
    #[serde(default)]
    after: f64,
    #[serde(default)]
    restart: bool,
    state: Option<BTreeMap<String, CaseBytes>>,
    #[serde(default)]
    usage: BTreeMap<String, Vec<InfoWord>>,
    #[serde(default)]
    steps: Vec<StepWord>,
    event: Option<EventWord>,
    request: Option<RequestWord>,
    log: Option<LogWord>,
    expect: Option<Expect>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StepWord {
    #[serde(default)]
    name: String,
    status: Code,
    #[serde(default)]
    infos: Vec<InfoWord>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EventWord {
    code: Code,
    range: Option<RangeWord>,
    source: Option<ProcWord>,
    user: Option<User>,
    tag: Option<u32>,
    #[serde(default)]
    infos: Vec<InfoWord>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogWord {
    channel: Channel,
    source: Option<ProcWord>,
    user: Option<User>,
    timestamp: Option<CaseTime>,
    #[serde(default)]
    data: Vec<InfoWord>,
    #[serde(default)]
    directives: Vec<InfoWord>,
}

/// Expected result. Absent fields are not compared, but a failure is always reported.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    /// Expectation that the module is registered for the event.
    pub(super) called: Option<bool>,
    /// Part of the reason with which the module refuses to start.
    pub(super) refused: Option<String>,
    /// Kind of the failure.
    pub(super) failure: Option<String>,
    pub(super) outcome: Option<String>,
    pub(super) status: Option<Code>,
    /// All infos, in their order.
    pub(super) infos: Option<Vec<InfoWord>>,
    /// Infos that must be among the result's.
    pub(super) includes: Option<Vec<InfoWord>>,
    pub(super) amended: Option<Vec<InfoWord>>,
    /// Data that a log policy substitutes.
    pub(super) rewritten: Option<Vec<InfoWord>>,
    pub(super) range: Option<RangeWord>,
    pub(super) raises: Option<Vec<ExpectedEvent>>,
    pub(super) changes: Option<Vec<String>>,
    /// Job control that the module requests.
    pub(super) controls: Option<Vec<ControlWord>>,
    /// Log requests of the module.
    pub(super) reports: Option<Vec<ReportWord>>,
    pub(super) logs: Option<Vec<String>>,
    pub(super) state: Option<BTreeMap<String, CaseBytes>>,
    pub(super) writes: Option<BTreeMap<String, CaseBytes>>,
}

/// Event that the module is expected to raise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectedEvent {
    pub(super) code: Code,
    pub(super) range: RangeWord,
    #[serde(default)]
    pub(super) infos: Vec<InfoWord>,
}

/// Job control that the module is expected to request.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ControlWord {
    #[serde(default)]
    pub(super) targets: Vec<ProcWord>,
    pub(super) directives: Vec<InfoWord>,
}

/// Log request that the module is expected to make.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportWord {
    pub(super) data: Vec<InfoWord>,
    #[serde(default)]
    pub(super) directives: Vec<InfoWord>,
}

/// Case with an invalid combination of fields.
#[derive(Debug)]
struct InvalidCase {
    case: String,
    wrong: &'static str,
}

impl fmt::Display for InvalidCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "case {:?}: {}", self.case, self.wrong)
    }
}

pub(super) fn infos(words: Vec<InfoWord>) -> Vec<Info> {
    words.into_iter().map(|info| info.0).collect()
}

impl TryFrom<CaseFields> for Case {
    type Error = String;

    fn try_from(given: CaseFields) -> Result<Case, String> {
        let CaseFields {
            name,
            config,
            time,
            after,
            restart,
            state,
            usage,
            steps,
            event,
            request,
            log,
            expect,
        } = given;
        let wrong = |wrong| {
            InvalidCase {
                case: name.clone(),
                wrong,
            }
            .to_string()
        };
        // This excludes NaN and infinities as well.
        if !(0.0..1e9).contains(&after) {
            return Err(wrong("after is a number of seconds, as in 61 or 0.5"));
        }
        let step = |step: StepWord| {
            let StepWord {
                name,
                status,
                infos: words,
            } = step;
            ChainResult {
                name: name.into(),
                status: status.0,
                infos: infos(words),
            }
        };
        let steps = Arc::new(steps.into_iter().map(step).collect::<Vec<_>>());
        let subject = match (event, request, log) {
            (None, None, None) => CaseInput::Start,
            (Some(event), None, None) => event.subject(steps),
            (None, Some(request), None) => {
                let request = Arc::new(request.request().map_err(wrong)?);
                CaseInput::Request(PolicyCall {
                    number: 0,
                    request,
                    steps,
                })
            }
            (None, None, Some(log)) => log.subject(steps),
            _ => return Err(wrong("it has one of event, request and log")),
        };
        // The truncation is intended: fractions of a millisecond do not matter here.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked above"
        )]
        let after = (after * 1000.0) as u64;
        let state = state.as_ref().map(named_bytes);
        let usage = usage
            .into_iter()
            .map(|(proc, used)| (proc, infos(used)))
            .collect();
        Ok(Case {
            name,
            config,
            time,
            after,
            restart,
            state,
            usage,
            subject,
            expect,
        })
    }
}

impl EventWord {
    fn subject(self, steps: Arc<Vec<ChainResult>>) -> CaseInput {
        let EventWord {
            code,
            range,
            source,
            user,
            tag,
            infos: words,
        } = self;
        let range = range.map_or(Range::Session, |range| range.0);
        let event = Event {
            code: code.0,
            source: source.map(|proc| proc.0),
            range,
            infos: infos(words),
        };
        CaseInput::Event {
            event: Arc::new(event),
            identity: user.map(|user| user.0),
            tag,
            steps,
        }
    }
}

impl LogWord {
    fn subject(self, steps: Arc<Vec<ChainResult>>) -> CaseInput {
        let LogWord {
            channel,
            source,
            user,
            timestamp,
            data,
            directives,
        } = self;
        let request = LogRequest {
            source: source.map(|proc| proc.0),
            identity: user.map(|user| user.0),
            // Log requests have seconds (`PMIX_LOG_TIMESTAMP`).
            timestamp: timestamp.map(|moment| moment.0 / 1000),
            data: infos(data),
            directives: infos(directives),
        };
        CaseInput::Log(ChannelCall {
            channel: channel.0,
            request: Arc::new(request),
            steps,
        })
    }
}
