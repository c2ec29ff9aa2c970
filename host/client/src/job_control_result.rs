//! Results of job control: procs for which it failed with the reasons, and the state of requests in
//! progress.
use crate::{Client, ClientError, call::Call};
use peal_core::{
    job_control::{CHECK, ControlState, OPERATION, OUTCOME, REQUEST, STATE, STATUS},
    policy::REASON,
};
use peal_model::{CommandCode, Info, Infos, KeyName, Proc, Query, Status, Value, code, key};

/// Result of a granted request.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JobControlResult {
    /// Procs for which the action failed.
    pub not_done: Vec<ProcOutcome>,
    /// For a cancellation of all requests: those that can no longer be cancelled, with the reasons.
    pub not_cancelled: Vec<ControlStatus>,
    /// All infos of the reply.
    pub infos: Vec<Info>,
}

impl JobControlResult {
    pub(crate) fn from_infos(infos: Vec<Info>) -> JobControlResult {
        let not_done = ProcOutcome::parse_outcomes(&infos)
            .into_iter()
            .filter(|outcome| !outcome.status.is_success());
        JobControlResult {
            not_done: not_done.collect(),
            not_cancelled: ControlStatus::not_cancelled(&infos),
            infos,
        }
    }

    /// Returns the procs that a checked request would reach ([`Client::check_control`]).
    pub fn reached(&self) -> Vec<Proc> {
        match self.infos.value_of(CHECK) {
            Some(Value::DataArray(procs)) => procs.as_procs().unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Returns the names of the requests that a checked request would cancel, or of the nodes that it would
    /// provision.
    pub fn reached_names(&self) -> Vec<String> {
        let Some(Value::DataArray(names)) = self.infos.value_of(CHECK) else {
            return Vec::new();
        };
        let names = names.items().iter().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    }
}

/// Result of a request for one proc.
#[derive(Clone, PartialEq, Debug)]
pub struct ProcOutcome {
    /// Name of the proc.
    pub proc: Proc,
    /// Success, or the status of the failure.
    pub status: Status,
    /// Reasons of the failure in words.
    pub reasons: Vec<String>,
}

impl ProcOutcome {
    /// Returns the results by proc in a reply, which may be that of a refused request
    /// ([`ClientError::Refused`]).
    pub fn parse_outcomes(infos: &[Info]) -> Vec<ProcOutcome> {
        outcomes(&infos.iter().collect::<Vec<_>>())
    }
}

/// Returns the reasons of a refusal or failure in words, as Peal's servers give them.
pub fn reasons(infos: &[Info]) -> Vec<String> {
    reasons_in(&infos.iter().collect::<Vec<_>>())
}

/// Request in the server's job-control ledger.
#[derive(Clone, PartialEq, Debug)]
pub struct ControlStatus {
    /// Id that its requester gave it (`PMIX_JOB_CTRL_ID`), else one of the server.
    pub id: String,
    /// State of the request.
    pub state: ControlState,
    /// Requested action in words.
    pub action: String,
    /// Reasons of the state.
    pub reasons: Vec<String>,
    /// Results by proc, as far as the server returns them.
    pub outcomes: Vec<ProcOutcome>,
}

impl ControlStatus {
    /// Returns the requests in a reply that cannot be cancelled. The reply may be that of a refused
    /// cancellation ([`ClientError::Refused`]).
    pub fn not_cancelled(infos: &[Info]) -> Vec<ControlStatus> {
        infos
            .iter()
            .filter(|info| info.key == REQUEST)
            .filter_map(ControlStatus::of)
            .collect()
    }

    fn of(info: &Info) -> Option<ControlStatus> {
        let infos = members(info)?;
        let word = find(&infos, STATE).and_then(Value::as_str)?;
        Some(ControlStatus {
            id: find(&infos, key::PMIX_JOB_CTRL_ID)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            state: ControlState::ALL
                .into_iter()
                .find(|state| state.name() == word)?,
            action: find(&infos, OPERATION)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            reasons: reasons_in(&infos),
            outcomes: outcomes(&infos),
        })
    }
}

impl Client {
    /// Returns the state of the request with this id; `None` if the server keeps no such request.
    pub async fn control_status(&self, id: &str) -> Result<Option<ControlStatus>, ClientError> {
        let which = Info::new(key::PMIX_JOB_CTRL_ID, Value::string(id));
        let requests = self.control_requests(vec![which]).await?;
        Ok(requests.into_iter().find(|status| status.id == id))
    }

    /// Returns the states of all requests of this proc that the server keeps.
    pub async fn control_statuses(&self) -> Result<Vec<ControlStatus>, ClientError> {
        self.control_requests(Vec::new()).await
    }

    async fn control_requests(
        &self,
        qualifiers: Vec<Info>,
    ) -> Result<Vec<ControlStatus>, ClientError> {
        let query = Query {
            keys: vec![Some(key::PMIX_JOB_CTRL_ID.0.into())],
            qualifiers,
        };
        let found = match self.query(&[query]).await {
            Ok(found) => found.infos,
            // A query that finds nothing is refused with this status.
            Err(ClientError::Refused {
                status: code::PMIX_ERR_NOT_FOUND,
                ..
            }) => Vec::new(),
            Err(error) => return Err(error),
        };
        let kept: Vec<&Info> = found
            .iter()
            .filter(|info| info.key == key::PMIX_JOB_CTRL_ID)
            .collect();
        let kept = kept
            .into_iter()
            .filter_map(members)
            .flatten()
            .filter(|info| info.key == REQUEST);
        let unfit = || ClientError::UnfitAnswer {
            call: Call(CommandCode::Query),
        };
        kept.map(|info| ControlStatus::of(info).ok_or_else(unfit))
            .collect()
    }
}

fn members(info: &Info) -> Option<Vec<&Info>> {
    match &info.value {
        Value::DataArray(array) => array.as_infos(),
        _ => None,
    }
}

fn find<'a>(infos: &[&'a Info], key: KeyName) -> Option<&'a Value> {
    infos
        .iter()
        .rev()
        .find(|info| info.key == key)
        .map(|info| &info.value)
}

fn reasons_in(infos: &[&Info]) -> Vec<String> {
    let reasons = infos.iter().filter(|info| info.key == REASON);
    reasons
        .filter_map(|info| info.value.as_str())
        .map(str::to_owned)
        .collect()
}

fn outcomes(infos: &[&Info]) -> Vec<ProcOutcome> {
    let outcomes = infos
        .iter()
        .filter(|info| info.key == OUTCOME)
        .filter_map(|info| members(info));
    outcomes
        .filter_map(|infos| {
            let (Value::Proc(proc), Value::Status(status)) =
                (find(&infos, key::PMIX_PROCID)?, find(&infos, STATUS)?)
            else {
                return None;
            };
            Some(ProcOutcome {
                proc: proc.clone(),
                status: *status,
                reasons: reasons_in(&infos),
            })
        })
        .collect()
}
