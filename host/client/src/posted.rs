//! Values that this proc put: those of the next commit, and committed ones for procs of other
//! nodes. The latter are kept as this proc's contribution to later groups.
use peal_model::{Info, Key, Kval, Scope, Value, key};

/// Values that this proc put.
#[derive(Debug, Default)]
pub(crate) struct Posted {
    /// Values of the next commit, in the order of the puts.
    uncommitted: Vec<(Scope, Kval)>,
    /// Committed values for procs of other nodes, in the order in which their keys were first put.
    committed: Vec<Kval>,
}

impl Posted {
    /// Keeps a value for the next commit.
    pub(crate) fn put(&mut self, scope: Scope, kval: Kval) {
        self.uncommitted.push((scope, kval));
    }

    /// Takes out the values of the next commit.
    pub(crate) fn take(&mut self) -> Vec<(Scope, Kval)> {
        std::mem::take(&mut self.uncommitted)
    }

    /// Puts values of a failed commit back before those that were put since.
    pub(crate) fn put_back(&mut self, values: Vec<(Scope, Kval)>) {
        self.uncommitted.splice(0..0, values);
    }

    /// Notes values of a commit that the server has accepted.
    pub(crate) fn note_committed(&mut self, values: Vec<(Scope, Kval)>) {
        values
            .into_iter()
            .filter_map(for_others)
            .for_each(|kval| replace(&mut self.committed, kval));
    }

    /// Values for procs of other nodes, committed or not, each key with its last value.
    pub(crate) fn for_others(&self) -> Vec<Kval> {
        let mut values = self.committed.clone();
        self.uncommitted
            .iter()
            .cloned()
            .filter_map(for_others)
            .for_each(|kval| replace(&mut values, kval));
        values
    }
}

fn for_others((scope, kval): (Scope, Kval)) -> Option<Kval> {
    [Scope::Remote, Scope::Global]
        .contains(&scope)
        .then_some(kval)
}

/// Adds a value. It replaces one of the same key; a qualified value replaces one of the same key
/// and qualifiers.
fn replace(values: &mut Vec<Kval>, kval: Kval) {
    match values
        .iter_mut()
        .find(|known| known.key == kval.key && qualified(known) == qualified(&kval))
    {
        Some(known) => *known = kval,
        None => values.push(kval),
    }
}

/// Returns the key of a qualified value and its qualifiers.
fn qualified(kval: &Kval) -> Option<(&Key, Vec<&Info>)> {
    let Value::DataArray(array) = &kval.value else {
        return None;
    };
    let mut infos = array
        .as_infos()
        .filter(|_| kval.key == key::PMIX_QUALIFIED_VALUE)?
        .into_iter();
    Some((&infos.next()?.key, infos.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{DataArray, KeyName};

    fn kval(key: &'static str, value: u32) -> Kval {
        Kval::new(KeyName(key), Value::Uint32(value))
    }

    #[test]
    fn values_for_others_are_the_last_committed_or_not() {
        let mut posted = Posted::default();
        posted.put(Scope::Remote, kval("first", 1));
        posted.put(Scope::Global, kval("second", 1));
        posted.put(Scope::Local, kval("local", 1));
        let committed = posted.take();
        posted.note_committed(committed);
        posted.put(Scope::Remote, kval("second", 2));
        posted.put(Scope::Local, kval("first", 2));
        assert_eq!(posted.for_others(), [kval("first", 1), kval("second", 2)]);
    }

    #[test]
    fn failed_commit_leaves_values_for_the_next() {
        let mut posted = Posted::default();
        posted.put(Scope::Remote, kval("key", 1));
        let failed = posted.take();
        posted.put(Scope::Remote, kval("key", 2));
        posted.put_back(failed);
        assert_eq!(posted.for_others(), [kval("key", 2)], "the later put holds");
        assert_eq!(
            posted.take(),
            [
                (Scope::Remote, kval("key", 1)),
                (Scope::Remote, kval("key", 2))
            ]
        );
    }

    #[test]
    fn qualified_value_replaces_that_of_the_same_qualifier() {
        let of_group = |id: u64, value: u32| {
            let infos = [
                Info::new(KeyName("key"), Value::Uint32(value)),
                Info::new(key::PMIX_GROUP_CONTEXT_ID, Value::Size(id)),
            ];
            Kval::new(
                key::PMIX_QUALIFIED_VALUE,
                Value::DataArray(DataArray::infos(infos)),
            )
        };
        let mut posted = Posted::default();
        for (id, value) in [(1, 1), (2, 1), (1, 2)] {
            posted.put(Scope::Remote, of_group(id, value));
        }
        assert_eq!(posted.for_others(), [of_group(1, 2), of_group(2, 1)]);
    }
}
