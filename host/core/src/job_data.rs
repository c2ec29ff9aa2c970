//! Job data for the procs of a job, in the form that OpenPMIx sends with the reply to a client's
//! first request.
use crate::job::{AppSpec, JobPlacement, JobSpec};
use peal_model::{
    DataArray, Info, JobEntry, JobInfo, Key, KeyName, Kval, Proc, Rank, Text, Value, key,
};

impl JobSpec {
    /// Returns the job data: those of the host environment, or the data that programs with libpmix and
    /// Open MPI need on one node.
    pub fn job_info(&self) -> JobInfo {
        if let JobPlacement::Registered(job) = &self.placement {
            return JobInfo {
                nspace: self.nspace.clone(),
                entries: job.entries.clone(),
            };
        }
        let size = self.size();
        let host = self.hostname.as_str();
        let apps = u32::try_from(self.apps.len()).unwrap_or(u32::MAX);
        let mut entries = vec![
            job(key::PMIX_JOB_SIZE, Value::Uint32(size)),
            job(key::PMIX_UNIV_SIZE, Value::Uint32(self.slots.max(size))),
            // Open MPI 4.1 needs the maximum and asks for it if it is absent.
            job(key::PMIX_MAX_PROCS, Value::Uint32(size)),
            job(key::PMIX_JOBID, Value::string(self.nspace.as_str())),
            job(key::PMIX_NUM_NODES, Value::Uint32(1)),
            job(key::PMIX_NODE_LIST, Value::string(host)),
            job(key::PMIX_JOB_NUM_APPS, Value::Uint32(apps)),
            job(key::PMIX_NPROC_OFFSET, Value::Rank(Rank(self.offset))),
        ];
        entries.extend(self.topology.iter().map(|xml| {
            // As text: only hwloc's library can make the form for shared memory.
            job(key::PMIX_HWLOC_XML_V2, Value::String(Some(xml.clone())))
        }));
        entries.extend(self.parentage().map(JobEntry::Job));
        entries.push(array(key::PMIX_NODE_INFO_ARRAY, self.node_values()));
        entries.extend(
            self.placed()
                .map(|place| array(key::PMIX_APP_INFO_ARRAY, place.values())),
        );
        let shared = SharedRankData::of(self);
        let ranks = self.placed().flat_map(|place| place.ranks());
        entries
            .extend(ranks.map(|(place, rank)| {
                JobEntry::Rank(rank, self.rank_values(&shared, &place, rank))
            }));
        JobInfo {
            nspace: self.nspace.clone(),
            entries,
        }
    }

    fn node_values(&self) -> Vec<Info> {
        let peers = self
            .local_ranks()
            .iter()
            .map(|rank| rank.0.to_string())
            .collect::<Vec<_>>()
            .join(",");
        let procs = self
            .local_ranks()
            .into_iter()
            .map(|rank| Proc::new(self.nspace.clone(), rank));
        vec![
            Info::new(key::PMIX_HOSTNAME, Value::string(&self.hostname)),
            Info::new(key::PMIX_NODEID, Value::Uint32(0)),
            Info::new(key::PMIX_LOCAL_SIZE, Value::Uint32(self.size())),
            Info::new(
                key::PMIX_NODE_SIZE,
                Value::Uint32(self.offset.saturating_add(self.size())),
            ),
            // Without the list each rank of Open MPI 5 takes itself for the only one on its node,
            // and uses no shared memory.
            Info::new(key::PMIX_LOCAL_PEERS, Value::string(&peers)),
            Info::new(key::PMIX_LOCAL_PROCS, Value::procs(procs)),
            Info::new(key::PMIX_LOCALLDR, Value::Rank(Rank(0))),
            Info::new(
                key::PMIX_NODE_OVERSUBSCRIBED,
                Value::Bool(self.is_crowded()),
            ),
        ]
    }

    /// Returns true if there are more procs than slots, so that waiting procs should yield.
    pub fn is_crowded(&self) -> bool {
        self.offset.saturating_add(self.size()) > self.slots
    }

    fn rank_values(&self, shared: &SharedRankData, place: &AppRanks<'_>, rank: Rank) -> Vec<Kval> {
        let in_all = self.offset.saturating_add(rank.0);
        // The Standard has 16 bits for ranks on a node. Higher ones are not distinguished.
        let number = |number: u32| Value::Uint16(u16::try_from(number).unwrap_or(u16::MAX));
        let own = [
            number(rank.0),
            number(in_all),
            Value::Uint32(place.number),
            Value::Rank(Rank(rank.0 - place.leader)),
            Value::Rank(Rank(in_all)),
        ];
        let own = shared.own_keys.iter().zip(own).map(|(key, value)| Kval {
            key: key.clone(),
            value,
        });
        let mut kvals = Vec::with_capacity(own.len() + shared.common.len() + PLACE_VALUES);
        kvals.extend(own);
        kvals.extend(self.place_values(rank));
        // Clones share the texts of keys and values, so a rank costs little memory.
        kvals.extend_from_slice(&shared.common);
        kvals
    }

    /// Returns the values of all ranks that procs do not get at their start: a rank was not restarted, and is not
    /// bound. A host environment has all of its values told at the start.
    pub(crate) fn asked_values(&self) -> Vec<Kval> {
        if let JobPlacement::Registered(_) = &self.placement {
            return Vec::new();
        }
        let restarts = Kval::new(key::PMIX_REINCARNATION, Value::Uint32(0));
        let locality = Kval::new(key::PMIX_LOCALITY_STRING, Value::String(None));
        let unbound = self.processors.is_none().then_some(locality);
        [restarts].into_iter().chain(unbound).collect()
    }

    /// Returns the values about the processors of a proc that is bound to some.
    fn place_values(&self, rank: Rank) -> impl Iterator<Item = Kval> {
        let all = self.processors.iter().flatten();
        let own = usize::try_from(rank.0).map(|rank| all.skip(rank).take(1));
        own.into_iter().flatten().flat_map(|place| {
            let text = |key, text: &Text| Kval::new(key, Value::String(Some(text.clone())));
            [
                text(key::PMIX_CPUSET, &place.cpuset),
                text(key::PMIX_LOCALITY_STRING, &place.locality),
            ]
        })
    }

    /// Returns the values about the parent proc, if there is one.
    fn parentage(&self) -> impl Iterator<Item = Kval> {
        let parent = self.parent.iter();
        parent.flat_map(|parent| {
            let parent = Value::Proc(parent.clone());
            [
                Kval::new(key::PMIX_SPAWNED, Value::Bool(true)),
                Kval::new(key::PMIX_PARENT_ID, parent),
            ]
        })
    }

    /// Returns the applications with their ranks.
    fn placed(&self) -> impl Iterator<Item = AppRanks<'_>> {
        let mut leader = 0;
        (0..).zip(&self.apps).map(move |(number, app)| {
            let place = AppRanks {
                number,
                leader,
                app,
            };
            leader = app.size.saturating_add(leader);
            place
        })
    }
}

/// Number of values about the processors of a bound proc.
const PLACE_VALUES: usize = 2;

/// The data that all ranks of a job share, kept once for jobs with thousands of ranks.
struct SharedRankData {
    /// The keys of the values that differ between ranks, in the order of [`JobSpec::rank_values`].
    own_keys: [Key; 5],
    /// The common values.
    common: Vec<Kval>,
}

impl SharedRankData {
    fn of(spec: &JobSpec) -> SharedRankData {
        let own_keys = [
            key::PMIX_LOCAL_RANK,
            key::PMIX_NODE_RANK,
            key::PMIX_APPNUM,
            key::PMIX_APP_RANK,
            key::PMIX_GLOBAL_RANK,
        ];
        let mut common = vec![
            // A rank without host name ends Open MPI 5 by a segmentation fault in MPI_Init.
            Kval::new(key::PMIX_HOSTNAME, Value::string(&spec.hostname)),
            Kval::new(key::PMIX_NODEID, Value::Uint32(0)),
        ];
        common.extend(spec.parentage());
        SharedRankData {
            own_keys: own_keys.map(Key::from),
            common,
        }
    }
}

/// An application and its first rank.
#[derive(Clone, Copy)]
struct AppRanks<'a> {
    number: u32,
    leader: u32,
    app: &'a AppSpec,
}

impl<'a> AppRanks<'a> {
    fn ranks(self) -> impl Iterator<Item = (AppRanks<'a>, Rank)> {
        (self.leader..self.leader.saturating_add(self.app.size)).map(move |rank| (self, Rank(rank)))
    }

    fn values(&self) -> Vec<Info> {
        let mut values = vec![
            Info::new(key::PMIX_APPNUM, Value::Uint32(self.number)),
            Info::new(key::PMIX_APP_SIZE, Value::Uint32(self.app.size)),
            Info::new(key::PMIX_APPLDR, Value::Rank(Rank(self.leader))),
        ];
        let texts = [
            (key::PMIX_APP_ARGV, &self.app.command),
            (key::PMIX_WDIR, &self.app.wdir),
        ];
        values.extend(
            texts
                .into_iter()
                .filter_map(|(key, texts)| Some(Info::new(key, Value::string(texts.as_deref()?)))),
        );
        values
    }
}

/// Makes an entry of the job.
pub(crate) fn job(key: KeyName, value: Value) -> JobEntry {
    JobEntry::Job(Kval::new(key, value))
}

/// Makes an entry of a node, application or session.
pub(crate) fn array(key: KeyName, infos: Vec<Info>) -> JobEntry {
    job(key, Value::DataArray(DataArray::infos(infos)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Nspace, UserIdentity};

    #[test]
    fn ranks_count_over_applications_and_global_ones_over_jobs() {
        let nspace = Nspace::new("job").unwrap();
        let parent = Proc::new(Nspace::new("first").unwrap(), Rank(1));
        let app = |size| AppSpec {
            size,
            command: None,
            wdir: None,
        };
        let one = JobSpec::new(nspace, 0, "node", UserIdentity { uid: 1, gid: 1 });
        let spec = JobSpec {
            apps: vec![app(2), app(1)],
            parent: Some(parent.clone()),
            offset: 4,
            ..one
        };
        let info = spec.job_info();
        let of = |rank: u32| {
            info.entries.iter().find_map(|entry| match entry {
                JobEntry::Rank(Rank(of), kvals) if *of == rank => Some(kvals.as_slice()),
                _ => None,
            })
        };
        let value = |rank, key: KeyName| {
            of(rank)
                .unwrap()
                .iter()
                .find(|kval| kval.key == key)
                .map(|kval| &kval.value)
        };
        let places: Vec<_> = (0..3)
            .map(|rank| {
                [
                    key::PMIX_APPNUM,
                    key::PMIX_APP_RANK,
                    key::PMIX_GLOBAL_RANK,
                    key::PMIX_LOCAL_RANK,
                ]
                .map(|key| value(rank, key).and_then(Value::as_u64).unwrap())
            })
            .collect();
        assert_eq!(places, [[0, 0, 4, 0], [0, 1, 5, 1], [1, 0, 6, 2]]);
        assert_eq!(value(2, key::PMIX_PARENT_ID), Some(&Value::Proc(parent)));
        assert!(of(3).is_none());
        let apps = info.entries.iter().filter_map(|entry| match entry {
            JobEntry::Job(Kval {
                key,
                value: Value::DataArray(values),
            }) if *key == key::PMIX_APP_INFO_ARRAY => values.as_infos(),
            _ => None,
        });
        let leaders: Vec<_> = apps
            .map(|values| {
                values
                    .iter()
                    .find(|info| info.key == key::PMIX_APPLDR)
                    .and_then(|info| info.value.as_u64())
            })
            .collect();
        assert_eq!(leaders, [Some(0), Some(2)]);
    }
}
