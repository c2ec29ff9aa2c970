//! Parsing of construct requests, complete before any effect.
use super::{ConstructDirectives, ConstructRequest, ConstructRole};
use peal_model::{Info, InfoFlags, Kval, Proc, RankData, Status, Value, code, key};
use std::time::Duration;
use thiserror::Error;

/// Maximum length of a group's name, in bytes.
const LONGEST_NAME: usize = 256;

/// The reason why a request is refused before any effect.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GroupError {
    /// A value has the wrong type or is out of bounds.
    #[error("{key} should be {expected}")]
    BadDirective {
        /// The key string.
        key: &'static str,
        /// The accepted values.
        expected: &'static str,
    },
    /// The name is missing, empty or too long.
    #[error("a group needs a name of 1 to {LONGEST_NAME} bytes")]
    BadName,
    /// A bootstrap leader names other procs.
    #[error("with pmix.grp.btstrp the caller must name no proc but itself")]
    BootstrapNames,
    /// A leader does not name itself.
    #[error("{0} names leaders and is not among them")]
    NotNamed(Proc),
    /// The caller's values exceed its memory.
    #[error("the values that the caller has put exceed their limit")]
    TooMuch,
    /// A required directive is not supported.
    #[error("{0} is required and not supported")]
    Unsupported(String),
}

impl GroupError {
    /// Returns the status for the reply.
    pub fn status(&self) -> Status {
        match self {
            GroupError::BadDirective { .. } | GroupError::BadName | GroupError::BootstrapNames => {
                code::PMIX_ERR_BAD_PARAM
            }
            GroupError::NotNamed(_) => code::PMIX_ERR_NOT_A_MEMBER,
            GroupError::Unsupported(_) => code::PMIX_ERR_NOT_SUPPORTED,
            GroupError::TooMuch => code::PMIX_ERR_OUT_OF_RESOURCE,
        }
    }
}

/// A parsed construct request.
#[derive(Clone, PartialEq, Debug)]
pub struct ParsedConstruct {
    /// The caller's contribution.
    pub construct: ConstructRequest,
    /// The timeout of the call.
    pub timeout: Option<Duration>,
}

/// Parses a request of `PMIx_Group_construct`.
pub fn read(
    source: &Proc,
    procs: Vec<Proc>,
    directives: Vec<Info>,
) -> Result<ParsedConstruct, GroupError> {
    let mut parsed = ParsedConstruct {
        construct: ConstructRequest::of(ConstructRole::Member),
        timeout: None,
    };
    let mut bootstrap = None;
    let ConstructRequest {
        directives: construct_directives,
        additions,
        order,
        infos,
        data,
        ..
    } = &mut parsed.construct;
    for info in directives {
        match &info.key {
            name if *name == key::PMIX_GROUP_BOOTSTRAP => bootstrap = Some(count(&info)?),
            name if *name == key::PMIX_GROUP_ADD_MEMBERS => {
                additions.extend(parse_procs(&info, key::PMIX_GROUP_ADD_MEMBERS.0)?)
            }
            name if *name == key::PMIX_GROUP_FINAL_MEMBERSHIP_ORDER => {
                *order = Some(parse_procs(
                    &info,
                    key::PMIX_GROUP_FINAL_MEMBERSHIP_ORDER.0,
                )?);
            }
            name if *name == key::PMIX_GROUP_INFO => {
                infos.extend(parse_member_infos(source, &info)?)
            }
            name if *name == key::PMIX_PROC_INFO_ARRAY => *data = put(source, &info),
            name if *name == key::PMIX_TIMEOUT => parsed.timeout = seconds(&info)?,
            name => match flag_of(construct_directives, name) {
                Some((flag, key)) => *flag = yes(&info, key)?,
                None if info.flags.contains(InfoFlags::REQUIRED) => {
                    return Err(GroupError::Unsupported(name.to_string()));
                }
                None => {}
            },
        }
    }
    parsed.construct.role = match (bootstrap, procs) {
        // A bootstrap leader names itself. A call without procs means the same here.
        (Some(count), procs) if procs.is_empty() || procs == [source.clone()] => {
            ConstructRole::Bootstrap(count)
        }
        (Some(_), _) => return Err(GroupError::BootstrapNames),
        // A proc that a leader adds (`PMIX_GROUP_ADD_MEMBERS`) calls without procs.
        (None, procs) if procs.is_empty() => ConstructRole::Member,
        (None, procs) if procs.iter().any(|named| named.covers(source)) => {
            ConstructRole::Leader(procs.into())
        }
        (None, _) => return Err(GroupError::NotNamed(source.clone())),
    };
    Ok(parsed)
}

/// Checks the name of a group.
pub fn name(group: Option<peal_model::Text>) -> Result<peal_model::Text, GroupError> {
    group
        .filter(|name| (1..=LONGEST_NAME).contains(&name.as_bytes().len()))
        .ok_or(GroupError::BadName)
}

/// Returns the timeout of a call (`PMIX_TIMEOUT`); none for zero.
pub fn timeout(directives: &[Info]) -> Result<Option<Duration>, GroupError> {
    let given = directives
        // The last one counts, as in `read`.
        .iter()
        .rev()
        .find(|info| info.key == key::PMIX_TIMEOUT);
    given.map_or(Ok(None), seconds)
}

fn flag_of<'a>(
    construct_directives: &'a mut ConstructDirectives,
    name: &peal_model::Key,
) -> Option<(&'a mut bool, &'static str)> {
    let flags = [
        (
            &mut construct_directives.context_id,
            key::PMIX_GROUP_ASSIGN_CONTEXT_ID,
        ),
        (
            &mut construct_directives.local_only,
            key::PMIX_GROUP_LOCAL_ONLY,
        ),
        (&mut construct_directives.optional, key::PMIX_GROUP_OPTIONAL),
        (
            &mut construct_directives.fault_tolerant,
            key::PMIX_GROUP_FT_COLLECTIVE,
        ),
        (
            &mut construct_directives.notify,
            key::PMIX_GROUP_NOTIFY_TERMINATION,
        ),
        (&mut construct_directives.leads, key::PMIX_GROUP_LEADER),
    ];
    flags
        .into_iter()
        .find(|(_, key)| name == key)
        .map(|(flag, key)| (flag, key.0))
}

fn yes(info: &Info, key: &'static str) -> Result<bool, GroupError> {
    info.value.as_bool().ok_or(GroupError::BadDirective {
        key,
        expected: "a PMIX_BOOL",
    })
}

fn count(info: &Info) -> Result<usize, GroupError> {
    let number = info
        .value
        .as_u64()
        .filter(|number| *number > 0)
        .and_then(|number| usize::try_from(number).ok());
    let expected = "how many procs lead, a PMIX_SIZE of at least 1";
    number.ok_or(GroupError::BadDirective {
        key: key::PMIX_GROUP_BOOTSTRAP.0,
        expected,
    })
}

fn parse_procs(info: &Info, key: &'static str) -> Result<Vec<Proc>, GroupError> {
    info.value.as_procs().ok_or(GroupError::BadDirective {
        key,
        expected: "an array of procs",
    })
}

fn seconds(info: &Info) -> Result<Option<Duration>, GroupError> {
    let expected = "a number of seconds, a PMIX_INT of at least 0";
    let seconds = info.value.as_u64().ok_or(GroupError::BadDirective {
        key: key::PMIX_TIMEOUT.0,
        expected,
    })?;
    Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
}

/// Returns the infos that a proc contributes. Later releases of OpenPMIx put the proc's name first.
fn parse_member_infos(source: &Proc, info: &Info) -> Result<Vec<Info>, GroupError> {
    let expected = "an array of infos";
    let bad = || GroupError::BadDirective {
        key: key::PMIX_GROUP_INFO.0,
        expected,
    };
    let Value::DataArray(array) = &info.value else {
        return Err(bad());
    };
    let infos = array.as_infos().ok_or_else(bad)?;
    // Only the caller's own name is dropped. That of another proc is data.
    let is_proc_id =
        |info: &&&Info| info.key == key::PMIX_PROCID && info.value == Value::Proc(source.clone());
    let skipped = usize::from(infos.first().filter(is_proc_id).is_some());
    Ok(infos.into_iter().skip(skipped).cloned().collect())
}

/// Returns the values that a proc of a later OpenPMIx release has put and not committed. They come
/// with its name and the scope.
fn put(source: &Proc, info: &Info) -> Option<RankData> {
    let Value::DataArray(array) = &info.value else {
        return None;
    };
    let of_proc = |info: &&Info| info.key != key::PMIX_PROCID && info.key != key::PMIX_DATA_SCOPE;
    let kvals = array.as_infos()?.into_iter().filter(of_proc);
    let kvals: Vec<Kval> = kvals
        .map(|info| Kval {
            key: info.key.clone(),
            value: info.value.clone(),
        })
        .collect();
    (!kvals.is_empty()).then(|| RankData {
        proc: source.clone(),
        kvals,
    })
}
