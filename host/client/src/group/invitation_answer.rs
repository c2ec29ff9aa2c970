//! What a component in the client's own chain says to an invitation, and the client then does: a component answers nobody itself.
use super::{Invited, Join};
use crate::Client;
use peal_model::{Event, Info, KeyName};

/// Under which a component returns what is to be answered to an invitation: `accept` or `decline`, a text.
const ANSWER: KeyName = KeyName("peal.group.answer");

/// What is to be answered to an invitation.
#[derive(Debug)]
pub(crate) enum InvitationAnswer {
    /// That we come.
    Accept(Invited),
    /// That we do not.
    Decline(Invited),
}

impl InvitationAnswer {
    /// What these results of a component say to this event, if that is an invitation and they say anything.
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
                let (group, text) = (
                    &invited.group,
                    answer
                        .as_str()
                        .map_or_else(|| format!("{answer:?}"), str::to_owned),
                );
                tracing::warn!(
                    group,
                    answer = text,
                    "a component says neither accept nor decline to an invitation"
                );
                None
            }
        }
    }
}

impl Client {
    /// Answers an invitation as a component says, and learns what becomes of the group.
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
            tracing::info!(group, %error, "an invitation that a component answered came to nothing");
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
