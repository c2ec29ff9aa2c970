//! What comes of job control: to whom it was not done and why, and how far requests are that take their time.
use crate::{Client, ClientError, call::Call};
use peal_core::{
    job_control::{ControlState, OPERATION, OUTCOME, REQUEST, STATE, STATUS},
    policy::REASON,
};
use peal_model::{CommandCode, Info, KeyName, Proc, Query, Status, Value, code, key};

/// What came of a request that was granted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JobControlResult {
    /// The procs to which it was not done.
    pub not_done: Vec<ProcOutcome>,
    /// Of a cancellation of all requests, those that cannot be cancelled any more, with the reasons.
    pub not_cancelled: Vec<ControlStatus>,
    /// Everything that was answered.
    pub infos: Vec<Info>,
}

impl JobControlResult {
    pub(crate) fn told(infos: Vec<Info>) -> JobControlResult {
        let not_done = ProcOutcome::all(&infos)
            .into_iter()
            .filter(|outcome| !outcome.status.is_success());
        JobControlResult {
            not_done: not_done.collect(),
            not_cancelled: ControlStatus::not_cancelled(&infos),
            infos,
        }
    }
}

/// What became of a request for one proc.
#[derive(Clone, PartialEq, Debug)]
pub struct ProcOutcome {
    /// Which proc.
    pub proc: Proc,
    /// Success, or what stood in the way.
    pub status: Status,
    /// The same in words.
    pub reasons: Vec<String>,
}

impl ProcOutcome {
    /// Those of an answer, that of a refused request ([`ClientError::Refused`]) too.
    pub fn all(infos: &[Info]) -> Vec<ProcOutcome> {
        outcomes(&infos.iter().collect::<Vec<_>>())
    }
}

/// Why something was refused or failed, in words, as Peal's servers say it.
pub fn reasons(infos: &[Info]) -> Vec<String> {
    reasons_in(&infos.iter().collect::<Vec<_>>())
}

/// A request as the server keeps it.
#[derive(Clone, PartialEq, Debug)]
pub struct ControlStatus {
    /// What its requester calls it (`PMIX_JOB_CTRL_ID`), or the server, where he does not.
    pub id: String,
    /// How far it is.
    pub state: ControlState,
    /// What was asked for, in words.
    pub action: String,
    /// Why it is as it is.
    pub reasons: Vec<String>,
    /// What became of it for each proc, as far as that is told.
    pub outcomes: Vec<ProcOutcome>,
}

impl ControlStatus {
    /// The requests that an answer says cannot be cancelled, that of a refused cancellation ([`ClientError::Refused`]) too.
    pub fn not_cancelled(infos: &[Info]) -> Vec<ControlStatus> {
        infos
            .iter()
            .filter(|info| info.key == REQUEST)
            .filter_map(ControlStatus::of)
            .collect()
    }

    fn of(info: &Info) -> Option<ControlStatus> {
        let told = members(info)?;
        let word = find(&told, STATE).and_then(Value::as_str)?;
        Some(ControlStatus {
            id: find(&told, key::PMIX_JOB_CTRL_ID)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            state: ControlState::ALL
                .into_iter()
                .find(|state| state.name() == word)?,
            action: find(&told, OPERATION)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            reasons: reasons_in(&told),
            outcomes: outcomes(&told),
        })
    }
}

impl Client {
    /// How far a request is, by its name; nothing if the server keeps none of that name.
    pub async fn control_status(&self, id: &str) -> Result<Option<ControlStatus>, ClientError> {
        let which = Info::new(key::PMIX_JOB_CTRL_ID, Value::string(id));
        let told = self.control_requests(vec![which]).await?;
        Ok(told.into_iter().find(|status| status.id == id))
    }

    /// How far all our requests are that the server keeps.
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
    let said = infos.iter().filter(|info| info.key == REASON);
    said.filter_map(|info| info.value.as_str())
        .map(str::to_owned)
        .collect()
}

fn outcomes(infos: &[&Info]) -> Vec<ProcOutcome> {
    let told = infos
        .iter()
        .filter(|info| info.key == OUTCOME)
        .filter_map(|info| members(info));
    told.filter_map(|told| {
        let (Value::Proc(proc), Value::Status(status)) =
            (find(&told, key::PMIX_PROCID)?, find(&told, STATUS)?)
        else {
            return None;
        };
        Some(ProcOutcome {
            proc: proc.clone(),
            status: *status,
            reasons: reasons_in(&told),
        })
    })
    .collect()
}
