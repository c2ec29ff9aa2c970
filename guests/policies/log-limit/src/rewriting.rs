//! Changes to the data of a request: hidden values and diverted output.
use peal_name_patterns::Pattern;
use peal_sdk::{Info, Value, key};

/// Replacement of a hidden value.
const HIDDEN: &str = "(redacted)";

/// Diversion of the output of some namespaces to a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diversion {
    nspace: Pattern,
    channel: String,
}

impl Diversion {
    /// Parses `NAMESPACE=KEY`; a `*` at the end of the namespace stands for any text.
    pub fn read(text: &str) -> Result<Diversion, String> {
        let wanted = || {
            format!(
                "{text:?} in \"divert\" is no NAMESPACE=CHANNEL, as in \"solver-*=site.log.board\""
            )
        };
        let (name, channel) = text.split_once('=').ok_or_else(wanted)?;
        let name = name.trim();
        let channel = channel.trim();
        let nspace = Pattern::read(name).ok_or_else(wanted)?;
        if !channel.contains('.') || channel.contains('=') {
            return Err(wanted());
        }
        Ok(Diversion {
            nspace,
            channel: channel.to_owned(),
        })
    }
}

/// Moves output to `stdout` to the channel of the first diversion for this namespace. Returns
/// whether there was any.
pub fn divert(data: &mut [Info], nspace: &str, diversions: &[Diversion]) -> bool {
    let Some(diversion) = diversions
        .iter()
        .find(|diversion| diversion.nspace.is_for(nspace))
    else {
        return false;
    };
    let mut changed = false;
    for info in data
        .iter_mut()
        .filter(|info| info.key == key::PMIX_LOG_STDOUT)
    {
        info.key.clone_from(&diversion.channel);
        changed = true;
    }
    changed
}

/// Hides the values of these keys, also in nested arrays. Returns whether there were any.
pub fn redact(infos: &mut [Info], secret: &[String]) -> bool {
    let mut changed = false;
    for info in infos {
        if secret.contains(&info.key) {
            info.value = HIDDEN.into();
            changed = true;
        } else {
            changed |= redact_within(&mut info.value, secret);
        }
    }
    changed
}

fn redact_within(value: &mut Value, secret: &[String]) -> bool {
    match value {
        Value::Infos(infos) => redact(infos, secret),
        Value::Values { items, .. } => items
            .iter_mut()
            .fold(false, |changed, item| redact_within(item, secret) | changed),
        _ => false,
    }
}

/// Counts the lines of a list of infos: at least one for each, and all lines of texts.
pub fn lines(infos: &[Info]) -> u64 {
    let of = |info: &Info| match &info.value {
        Value::Text(text) => (text
            .strip_suffix('\n')
            .unwrap_or(text)
            .matches('\n')
            .count() as u64)
            .saturating_add(1),
        Value::Infos(infos) => lines(infos).max(1),
        _ => 1,
    };
    infos.iter().map(of).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out() -> Vec<Info> {
        vec![
            Info::new(key::PMIX_LOG_STDOUT, "text"),
            Info::new(key::PMIX_LOG_STDERR, "text"),
        ]
    }

    #[test]
    fn first_diversion_decides_about_output() {
        let diversions = [
            "test=site.log.tests",
            "sol*=site.log.board",
            "*=site.log.rest",
        ]
        .map(Diversion::read);
        let diversions: Vec<Diversion> = diversions.into_iter().map(Result::unwrap).collect();
        for (nspace, channel) in [
            ("test", "site.log.tests"),
            ("tests", "site.log.rest"),
            ("sol", "site.log.board"),
            ("solver", "site.log.board"),
        ] {
            let mut data = out();
            assert!(divert(&mut data, nspace, &diversions));
            assert_eq!(
                data,
                [
                    Info::new(channel, "text"),
                    Info::new(key::PMIX_LOG_STDERR, "text")
                ],
                "{nspace}"
            );
        }
        assert!(!divert(&mut out(), "other", &diversions[..2]));
        assert!(!divert(&mut out()[1..], "test", &diversions));
        for wrong in [
            "",
            "test",
            "=site.log.board",
            "a*b=site.log.board",
            "test=",
            "test=board",
            "a=b.c=d.e",
        ] {
            assert!(
                Diversion::read(wrong).unwrap_err().contains("\"divert\""),
                "{wrong}"
            );
        }
    }

    #[test]
    fn secrets_are_hidden_however_deep() {
        let secret = ["site.token".to_owned()];
        let deep = |value: &str| {
            let inner = vec![Info::new("site.token", value), Info::new("site.load", 5u32)];
            vec![
                Info::new("site.all", vec![Info::new("site.job", inner)]),
                Info::new("site.token", value),
            ]
        };
        let mut infos = deep("hunter2");
        assert!(redact(&mut infos, &secret));
        assert_eq!(infos, deep(HIDDEN));
        assert!(!redact(&mut out(), &secret));
    }

    #[test]
    fn every_info_is_a_line_at_least() {
        let of = |value: Value| lines(&[Info::new("site.text", value)]);
        assert_eq!(
            [
                of("".into()),
                of("one".into()),
                of("one\n".into()),
                of("one\ntwo".into())
            ],
            [1, 1, 1, 2]
        );
        assert_eq!(
            [
                of(5u32.into()),
                of(out().into()),
                of(Vec::<Info>::new().into())
            ],
            [1, 2, 1]
        );
    }
}
