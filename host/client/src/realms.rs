//! Values of job data that belong to a node, an application or a session: arrays of infos, each with
//! the name or number of its realm.
use peal_model::{Info, Infos, Key, KeyName, Kval, Nspace, Value, key};
use std::collections::BTreeMap;

/// Kind of a realm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum RealmKind {
    /// A node (`PMIX_NODE_INFO_ARRAY`).
    Node,
    /// An application (`PMIX_APP_INFO_ARRAY`).
    App,
    /// A session (`PMIX_SESSION_INFO_ARRAY`).
    Session,
}

impl RealmKind {
    const ALL: [RealmKind; 3] = [RealmKind::Node, RealmKind::App, RealmKind::Session];

    fn array(self) -> KeyName {
        match self {
            RealmKind::Node => key::PMIX_NODE_INFO_ARRAY,
            RealmKind::App => key::PMIX_APP_INFO_ARRAY,
            RealmKind::Session => key::PMIX_SESSION_INFO_ARRAY,
        }
    }

    fn directive(self) -> KeyName {
        match self {
            RealmKind::Node => key::PMIX_NODE_INFO,
            RealmKind::App => key::PMIX_APP_INFO,
            RealmKind::Session => key::PMIX_SESSION_INFO,
        }
    }

    /// Returns the keys that name a realm of this kind, in an array as well as in a get.
    fn names(self) -> &'static [KeyName] {
        match self {
            RealmKind::Node => &[key::PMIX_HOSTNAME, key::PMIX_NODEID],
            RealmKind::App => &[key::PMIX_APPNUM],
            RealmKind::Session => &[key::PMIX_SESSION_ID],
        }
    }
}

/// Realm that a get names by its infos.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RealmSelector {
    kind: RealmKind,
    names: Vec<Info>,
}

impl RealmSelector {
    /// Returns the realm that the infos of a get name (`PMIX_NODE_INFO` with `PMIX_HOSTNAME`, and so
    /// on); `None` if they name none.
    pub(crate) fn of(infos: &[Info]) -> Option<RealmSelector> {
        let kinds = RealmKind::ALL.into_iter();
        let mut chosen = kinds.filter(|kind| infos.is_true(kind.directive()));
        let kind = chosen.next()?;
        let is_name = |info: &&Info| kind.names().iter().any(|name| info.key == *name);
        let names: Vec<Info> = infos.iter().filter(is_name).cloned().collect();
        (!names.is_empty()).then_some(RealmSelector { kind, names })
    }

    /// Returns the node of this name.
    pub(crate) fn node(name: Value) -> RealmSelector {
        RealmSelector {
            kind: RealmKind::Node,
            names: vec![Info::new(key::PMIX_HOSTNAME, name)],
        }
    }

    /// Returns true if the array is that of this realm: each name that both have is equal, and they
    /// have one.
    fn is_met_by(&self, array: &[Info]) -> bool {
        let mut common = self.names.iter().filter_map(|name| {
            let there = array.iter().find(|info| info.key == name.key)?;
            Some(is_same(&there.value, &name.value))
        });
        common.next() == Some(true) && common.all(|same| same)
    }
}

/// Compares names, of which numbers may be of different types.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left.as_u64(), right.as_u64()) {
        (Some(left), Some(right)) => left == right,
        _ => left == right,
    }
}

/// Keys of a job whose value is different on each node. A get by the wildcard rank means this node.
const OF_THE_NODE: [KeyName; 8] = [
    key::PMIX_LOCAL_PEERS,
    key::PMIX_LOCAL_PROCS,
    key::PMIX_LOCAL_SIZE,
    key::PMIX_LOCAL_CPUSETS,
    key::PMIX_LOCALLDR,
    key::PMIX_NODE_SIZE,
    key::PMIX_NODEID,
    key::PMIX_AVAIL_PHYS_MEMORY,
];

/// Returns true if the value of a key is different on each node.
pub(crate) fn is_of_the_node(key: &Key) -> bool {
    OF_THE_NODE.iter().any(|name| *key == *name)
}

/// Arrays of the realms of jobs.
#[derive(Debug, Default)]
pub(crate) struct RealmData(BTreeMap<(Nspace, RealmKind), Vec<Vec<Info>>>);

impl RealmData {
    /// Stores a value of a job if it is the array of a realm. The members of an older array of the
    /// same realm are replaced.
    pub(crate) fn learn(&mut self, nspace: &Nspace, kval: &Kval) {
        let Some(kind) = RealmKind::ALL
            .into_iter()
            .find(|kind| kval.key == kind.array())
        else {
            return;
        };
        let Value::DataArray(array) = &kval.value else {
            return;
        };
        let infos: Vec<Info> = array.as_infos().into_iter().flatten().cloned().collect();
        let is_name = |info: &&Info| kind.names().iter().any(|name| info.key == *name);
        let names = infos.iter().filter(is_name).cloned().collect();
        let realm = RealmSelector { kind, names };
        let arrays = self.0.entry((nspace.clone(), kind)).or_default();
        arrays.retain(|array| !realm.is_met_by(array));
        arrays.push(infos);
    }

    /// Returns the value of a realm of a job.
    pub(crate) fn find(&self, nspace: &Nspace, realm: &RealmSelector, key: &Key) -> Option<Value> {
        let arrays = self.0.get(&(nspace.clone(), realm.kind))?;
        let array = arrays.iter().find(|array| realm.is_met_by(array))?;
        let info = array.iter().find(|info| info.key == *key)?;
        Some(info.value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::DataArray;

    fn node(name: &str, id: u32, peers: &str) -> Kval {
        let infos = [
            Info::new(key::PMIX_HOSTNAME, Value::string(name)),
            Info::new(key::PMIX_NODEID, Value::Uint32(id)),
            Info::new(key::PMIX_LOCAL_PEERS, Value::string(peers)),
        ];
        Kval::new(
            key::PMIX_NODE_INFO_ARRAY,
            Value::DataArray(DataArray::infos(infos)),
        )
    }

    #[test]
    fn value_of_a_node_is_found_by_name_or_number() {
        let nspace = Nspace::new("job").unwrap();
        let mut realms = RealmData::default();
        for kval in [node("a", 0, "0"), node("b", 1, "1"), node("a", 0, "0,2")] {
            realms.learn(&nspace, &kval);
        }
        let wanted = |name: Info| {
            let infos = [Info::new(key::PMIX_NODE_INFO, Value::Bool(true)), name];
            let realm = RealmSelector::of(&infos)?;
            realms.find(&nspace, &realm, &key::PMIX_LOCAL_PEERS.into())
        };
        let of_name = |name| wanted(Info::new(key::PMIX_HOSTNAME, Value::string(name)));
        let of_number = |id| wanted(Info::new(key::PMIX_NODEID, Value::Uint16(id)));
        assert_eq!(of_name("a"), Some(Value::string("0,2")));
        assert_eq!(of_name("b"), Some(Value::string("1")));
        assert_eq!(of_number(1), Some(Value::string("1")));
        assert_eq!(of_name("c"), None);
        assert_eq!(RealmSelector::of(&[]), None);
    }
}
