//! Answers of components in the client's chain to invitations. A component cannot send an answer
//! itself, so the client sends it.
use super::{Invited, Join};
use crate::Client;
use peal_model::{Event, Info, KeyName};

/// Key of a component's result that answers an invitation: `accept` or `decline`, a string.
const ANSWER: KeyName = KeyName("peal.group.answer");

/// Answer to an invitation.
#[derive(Debug)]
pub(crate) enum InvitationAnswer {
    /// Acceptance.
    Accept(Invited),
    /// Refusal.
    Decline(Invited),
}

impl InvitationAnswer {
    /// Returns the answer in these results of a component, if the event is an invitation and they
    /// hold one.
    pub(crate) fn of(event: &Event, results: &[Info]) -> Option<InvitationAnswer> {
        let invited = Invited::of(event)?;
        let answer = results
            .iter()
            .find(|info| info.key == ANSWER)
            .map(|info| &info.value)?;
        match answer.as_str() {
            Some("accept") => Some(InvitationAnswer::Accept(invited)),
            Some("decline") => Some(InvitationAnswer::Decline(invited)),
            _ => {
                let group = &invited.group;
                let text = answer
                    .as_str()
                    .map_or_else(|| format!("{answer:?}"), str::to_owned);
                tracing::warn!(
                    group,
                    answer = text,
                    "component's answer to an invitation ignored: neither accept nor decline"
                );
                None
            }
        }
    }
}

impl Client {
    /// Sends the answer of a component to an invitation. After an acceptance, waits for the result
    /// of the group.
    pub(crate) async fn follow(self, advice: InvitationAnswer) {
        let (group, ended) = match &advice {
            InvitationAnswer::Accept(invited) => (
                &invited.group,
                self.group_join(invited, Join::new()).await.map(drop),
            ),
            InvitationAnswer::Decline(invited) => {
                (&invited.group, self.group_decline(invited).await)
            }
        };
        if let Err(error) = ended {
            tracing::info!(group, %error, "component's answer to an invitation failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Nspace, Proc, Range, Rank, Value, code, key};

    fn advice(code: peal_model::Status, answer: Value) -> Option<InvitationAnswer> {
        let source = Some(Proc::new(Nspace::new("job").unwrap(), Rank(0)));
        let infos = vec![Info::new(key::PMIX_GROUP_ID, Value::string("crew"))];
        InvitationAnswer::of(
            &Event {
                code,
                source,
                range: Range::Custom,
                infos,
            },
            &[Info::new(ANSWER, answer)],
        )
    }

    #[test]
    fn only_invitations_are_answered_and_only_by_answers() {
        let invited = code::PMIX_GROUP_INVITED;
        assert!(
            matches!(advice(invited, Value::string("accept")), Some(InvitationAnswer::Accept(to)) if to.group == "crew")
        );
        assert!(matches!(
            advice(invited, Value::string("decline")),
            Some(InvitationAnswer::Decline(_))
        ));
        assert!(advice(invited, Value::string("perhaps")).is_none());
        assert!(advice(invited, Value::Bool(true)).is_none());
        assert!(advice(code::PMIX_GROUP_LEFT, Value::string("accept")).is_none());
    }
}
