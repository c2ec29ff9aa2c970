//! Rule: the invitations that it matches, and its answer.
use peal_name_patterns::Pattern;

/// Answer to an invitation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Accept,
    Decline,
}

impl Answer {
    pub fn name(self) -> &'static str {
        match self {
            Answer::Accept => "accept",
            Answer::Decline => "decline",
        }
    }
}

/// Patterns of a rule; a missing one matches anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    group: Pattern,
    nspace: Option<Pattern>,
    user: Option<u32>,
    answer: Answer,
    text: String,
}

impl Rule {
    /// Parses `GROUP/NAMESPACE/USER=ANSWER`. In the name of a group, a `*` at the end also stands
    /// for these separators.
    pub fn read(text: &str) -> Result<Rule, String> {
        let wrong = |what: &str| {
            let wanted =
                "GROUP/NAMESPACE/USER=ANSWER, as in \"crew-*/solver-*=accept\" or \"*=decline\"";
            format!("{text:?} in \"rules\" is no {wanted}: {what}")
        };
        let (invitation, answer) = text
            .rsplit_once('=')
            .ok_or_else(|| wrong("it has no answer"))?;
        let answer = match answer.trim() {
            "accept" => Answer::Accept,
            "decline" => Answer::Decline,
            _ => return Err(wrong("the answer is accept or decline")),
        };
        let mut parts = invitation.split('/').map(str::trim);
        let pattern = |part: &str, what| Pattern::read(part).ok_or_else(|| wrong(what));
        let group = pattern(
            parts.next().unwrap_or_default(),
            "a group is a name, or the beginning of one with a * behind it",
        )?;
        let nspace = parts.next().map(|part| {
            pattern(
                part,
                "a namespace is a name, or the beginning of one with a * behind it",
            )
        });
        let user = parts
            .next()
            .map(|part| part.parse().map_err(|_| wrong("a user is a number")));
        if parts.next().is_some() {
            return Err(wrong("it has too many parts"));
        }
        Ok(Rule {
            group,
            nspace: nspace.transpose()?,
            user: user.transpose()?,
            answer,
            text: text.to_owned(),
        })
    }

    /// Returns whether the rule matches an invitation to this group by a proc of this namespace and
    /// user, as far as they are known.
    pub fn is_for(&self, group: &str, nspace: Option<&str>, user: Option<u32>) -> bool {
        let from = |pattern: &Pattern| nspace.is_some_and(|nspace| pattern.is_for(nspace));
        self.group.is_for(group)
            && self.nspace.as_ref().is_none_or(from)
            && self.user.is_none_or(|wanted| user == Some(wanted))
    }

    pub fn answer(&self) -> Answer {
        self.answer
    }

    /// Returns the rule as configured.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_field_matches_any_value_and_unknown_value_none() {
        let rule = |text| Rule::read(text).expect("a rule");
        assert!(rule("*=decline").is_for("crew", None, None));
        assert!(rule("crew/job=accept").is_for("crew", Some("job"), None));
        assert!(!rule("crew/*=accept").is_for("crew", None, Some(0)));
        assert!(rule("crew/*/0=accept").is_for("crew", Some("job"), Some(0)));
        assert!(!rule("crew/*/0=accept").is_for("crew", Some("job"), None));
        assert_eq!(rule(" crew / job = accept ").answer(), Answer::Accept);
    }
}
