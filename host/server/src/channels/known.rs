//! Which log channels there are (`PMIX_QUERY_LOG_CHANNELS`): those of modules, and those that the host environment tells of.
use peal_model::{Info, Key, Query, Status, Value, code, key};
use std::collections::BTreeSet;

/// Whether somebody wants to know.
pub(crate) fn are_asked(queries: &[Query]) -> bool {
    let mut keys = queries.iter().flat_map(|query| query.keys.iter().flatten());
    keys.any(|asked| asked.as_bytes() == key::PMIX_QUERY_LOG_CHANNELS.0.as_bytes())
}

/// The host environment's answer with all channels in it, by their keys with commas between them: ours, which come first, and
/// its own. A host that knows of none need not know the question.
pub(crate) fn told(ours: &[Key], answer: Result<Vec<Info>, Status>) -> Result<Vec<Info>, Status> {
    let mut infos = match answer {
        Err(code::PMIX_ERR_NOT_SUPPORTED | code::PMIX_ERR_NOT_FOUND) => Vec::new(),
        answer => answer?,
    };
    let of_host = infos.extract_if(.., |info| info.key == key::PMIX_QUERY_LOG_CHANNELS).collect::<Vec<Info>>();
    let theirs = of_host.iter().filter_map(|info| info.value.as_str()).flat_map(|keys| keys.split(','));
    let mut seen = BTreeSet::new();
    let all = ours.iter().map(Key::as_str).chain(theirs.map(str::trim));
    let all: Vec<&str> = all.filter(|channel| !channel.is_empty() && seen.insert(*channel)).collect();
    infos.push(Info::new(key::PMIX_QUERY_LOG_CHANNELS, Value::string(&all.join(","))));
    Ok(infos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channels(keys: &str) -> Info {
        Info::new(key::PMIX_QUERY_LOG_CHANNELS, Value::string(keys))
    }

    #[test]
    fn ours_come_first_and_each_is_told_once() {
        let ours = [Key::from(key::PMIX_LOG_STDERR), Key::from(key::PMIX_LOG_EMAIL)];
        let other = || Info::new(key::PMIX_QUERY_NAMESPACES, Value::string("job"));
        for (answer, told) in [
            (Ok(vec![]), vec![channels("pmix.log.stderr,pmix.log.email")]),
            (Err(code::PMIX_ERR_NOT_SUPPORTED), vec![channels("pmix.log.stderr,pmix.log.email")]),
            (
                Ok(vec![channels("pmix.log.stdout, pmix.log.stderr,"), other()]),
                vec![other(), channels("pmix.log.stderr,pmix.log.email,pmix.log.stdout")],
            ),
        ] {
            assert_eq!(super::told(&ours, answer), Ok(told));
        }
        assert_eq!(told(&[], Ok(vec![])), Ok(vec![channels("")]), "there are none, which is an answer");
        assert_eq!(told(&ours, Err(code::PMIX_ERR_BAD_PARAM)), Err(code::PMIX_ERR_BAD_PARAM));
    }
}
