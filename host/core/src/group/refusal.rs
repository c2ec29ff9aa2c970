//! Refusals of participants of groups.
use super::GroupKey;
use crate::policy::REASON;
use peal_model::{Info, Proc, Status, Value, key};
use serde::{Deserialize, Serialize};

/// The refusal of a participant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupRefusal {
    /// The refused proc.
    pub proc: Proc,
    /// The status for the proc and the other participants.
    pub status: Status,
    /// The reasons.
    pub reasons: Vec<Info>,
}

impl GroupRefusal {
    /// Returns the infos of an event about the refusal, because replies carry a status only.
    pub(super) fn event_infos(&self, group: &GroupKey) -> Vec<Info> {
        let head = [
            Info::new(
                key::PMIX_GROUP_ID,
                Value::String(group.name.called().cloned()),
            ),
            Info::new(
                key::PMIX_EVENT_AFFECTED_PROC,
                Value::Proc(self.proc.clone()),
            ),
            // Default handlers of programs must not treat it as fatal.
            Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        ];
        // Infos of a policy must not replace those of the event itself.
        let reasons = self
            .reasons
            .iter()
            .filter(|info| info.key == REASON || head.iter().all(|own| own.key != info.key));
        head.iter().chain(reasons).cloned().collect()
    }
}
