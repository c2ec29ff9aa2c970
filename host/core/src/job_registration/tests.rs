//! Registrations as Slurm, Open MPI and newer host environments make them.
use super::*;
use crate::job::ProcNode;
use peal_model::{DataArray, JobEntry, Kval};

const USER: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};

fn array(key: KeyName, infos: Vec<Info>) -> Info {
    Info::new(key, Value::DataArray(DataArray::infos(infos)))
}

/// Infos of Slurm's plugin on the second of three nodes, with two procs on each.
fn slurm_infos() -> Vec<Info> {
    let mut infos = vec![
        Info::new(key::PMIX_JOBID, Value::string("1.0")),
        Info::new(key::PMIX_NODEID, Value::Uint32(1)),
    ];
    infos.extend((0..6).map(|rank| {
        array(
            key::PMIX_PROC_DATA,
            vec![
                Info::new(key::PMIX_RANK, Value::Rank(Rank(rank))),
                Info::new(key::PMIX_APPNUM, Value::Int(0)),
                Info::new(
                    key::PMIX_HOSTNAME,
                    Value::string(&format!("n{}", rank / 2 + 1)),
                ),
                // The plugin's mistake: the id of the node that registers.
                Info::new(key::PMIX_NODEID, Value::Uint32(1)),
            ],
        )
    }));
    infos.extend([
        Info::new(key::PMIX_JOB_SIZE, Value::Uint32(6)),
        Info::new(key::PMIX_LOCAL_SIZE, Value::Uint32(2)),
        Info::new(key::PMIX_NODE_MAP, Value::string("pmix[n[1:1-3]]")),
        Info::new(key::PMIX_PROC_MAP, Value::string("raw:0,1;2,3;4,5")),
        Info::new(key::PMIX_LOCAL_PEERS, Value::string("2,3")),
    ]);
    infos
}

fn registration(infos: Vec<Info>, local: &[u32]) -> LauncherJob {
    let nspace = Nspace::new("slurm.pmix.1.0").unwrap();
    let root = UserIdentity { uid: 0, gid: 0 };
    let mut registration = LauncherJob::new(nspace, "n2", root);
    registration.describe(i32::try_from(local.len()).unwrap(), infos);
    for rank in local {
        registration.add_client(Rank(*rank), USER);
    }
    registration
}

fn registered(spec: &JobSpec) -> &RegisteredJob {
    let JobPlacement::Registered(job) = &spec.placement else {
        panic!("the job should be registered")
    };
    job
}

fn value_of_rank(spec: &JobSpec, rank: u32, key: KeyName) -> Option<Value> {
    let entries = registered(spec).entries.iter();
    let of_rank = entries.filter_map(|entry| match entry {
        JobEntry::Rank(of, kvals) if of.0 == rank => Some(kvals),
        _ => None,
    });
    let found = of_rank.flatten().find(|kval| kval.key == key);
    found.map(|kval| kval.value.clone())
}

fn job_values(spec: &JobSpec, key: KeyName) -> Vec<Value> {
    let entries = registered(spec).entries.iter();
    let of_job = entries.filter_map(|entry| match entry {
        JobEntry::Job(Kval { key: of, value }) if *of == key => Some(value.clone()),
        _ => None,
    });
    of_job.collect()
}

#[test]
fn procs_of_slurm_are_placed_by_the_maps() {
    let spec = registration(slurm_infos(), &[2, 3]).spec().unwrap();
    assert_eq!((spec.size(), spec.identity), (6, USER));
    assert_eq!(spec.local_ranks(), [Rank(2), Rank(3)]);
    let places = [1, 2, 3, 4, 6].map(|rank| spec.node_of(Rank(rank)));
    let (this, other) = (Some(ProcNode::This), Some(ProcNode::Other));
    assert_eq!(places, [other, this, this, other, None]);
    let names = [1, 2, 4, 6].map(|rank| spec.hostname_of(Rank(rank)));
    assert_eq!(names, [Some("n1"), Some("n2"), Some("n3"), None]);
    assert!(spec.has_procs_elsewhere());
    assert_eq!(spec.nodes(), ["n1", "n2", "n3"]);
    assert_eq!(spec.ranks_on(Some("n3")), [Rank(4), Rank(5)]);
}

#[test]
fn node_of_each_rank_is_that_of_the_maps() {
    let spec = registration(slurm_infos(), &[2, 3]).spec().unwrap();
    let ids = [0, 2, 4].map(|rank| value_of_rank(&spec, rank, key::PMIX_NODEID).unwrap());
    assert_eq!(ids, [0, 1, 2].map(Value::Uint32));
    let name = value_of_rank(&spec, 5, key::PMIX_HOSTNAME).unwrap();
    assert_eq!(name, Value::string("n3"));
    // What the host environment says stays as it is.
    assert_eq!(
        value_of_rank(&spec, 5, key::PMIX_APPNUM),
        Some(Value::Int(0))
    );
    let local = value_of_rank(&spec, 5, key::PMIX_LOCAL_RANK).unwrap();
    assert_eq!(local, Value::Uint16(1));
}

#[test]
fn each_node_has_an_array_with_its_procs() {
    let spec = registration(slurm_infos(), &[2, 3]).spec().unwrap();
    let arrays = job_values(&spec, key::PMIX_NODE_INFO_ARRAY);
    let peers: Vec<Value> = arrays
        .iter()
        .map(|array| {
            let Value::DataArray(array) = array else {
                panic!("a node has an array")
            };
            let infos: Vec<Info> = array.as_infos().unwrap().into_iter().cloned().collect();
            infos.value_of(key::PMIX_LOCAL_PEERS).unwrap().clone()
        })
        .collect();
    assert_eq!(peers, ["0,1", "2,3", "4,5"].map(Value::string));
    assert_eq!(job_values(&spec, key::PMIX_NUM_NODES), [Value::Uint32(3)]);
}

#[test]
fn job_is_complete_when_its_procs_are_registered() {
    let nspace = Nspace::new("job").unwrap();
    let mut job = LauncherJob::new(nspace, "n2", USER);
    // Open MPI registers the procs first, Slurm the job.
    job.add_client(Rank(0), USER);
    assert!(!job.is_complete());
    job.describe(2, slurm_infos());
    assert!(!job.is_complete());
    job.add_client(Rank(1), USER);
    assert!(job.is_complete());
}

#[test]
fn members_of_job_array_count_as_infos_of_the_job() {
    let infos = vec![
        array(
            key::PMIX_JOB_INFO_ARRAY,
            vec![
                Info::new(key::PMIX_JOB_SIZE, Value::Uint32(4)),
                Info::new(key::PMIX_NODE_MAP, Value::ByteObject(b"n1,n2\0"[..].into())),
                Info::new(key::PMIX_PROC_MAP, Value::string("pmix[0-1;2-3]")),
            ],
        ),
        array(
            key::PMIX_NODE_INFO_ARRAY,
            vec![
                Info::new(key::PMIX_HOSTNAME, Value::string("n1")),
                Info::new(key::PMIX_NODE_SIZE, Value::Uint32(32)),
            ],
        ),
    ];
    let spec = registration(infos, &[2, 3]).spec().unwrap();
    assert_eq!(spec.size(), 4);
    assert_eq!(spec.nodes(), ["n1", "n2"]);
    assert_eq!(job_values(&spec, key::PMIX_NODE_INFO_ARRAY).len(), 2);
}

#[test]
fn job_without_infos_has_its_registered_procs() {
    let spec = registration(Vec::new(), &[0, 1]).spec().unwrap();
    assert_eq!(spec.size(), 2);
    assert!(!spec.has_procs_elsewhere());
    assert_eq!(job_values(&spec, key::PMIX_JOB_SIZE), [Value::Uint32(2)]);
}

#[test]
fn later_description_replaces_values_and_adds_procs() {
    let mut job = registration(slurm_infos(), &[2, 3]);
    job.describe(2, vec![Info::new(key::PMIX_JOBID, Value::string("other"))]);
    let spec = job.spec().unwrap();
    assert_eq!(job_values(&spec, key::PMIX_JOBID), [Value::string("other")]);
    assert_eq!(spec.size(), 6);
}

#[test]
fn contradictions_and_wrong_types_are_refused() {
    let refused = |infos| registration(infos, &[2, 3]).spec().unwrap_err();
    let size = refused(vec![Info::new(key::PMIX_JOB_SIZE, Value::string("six"))]);
    assert!(matches!(size, LauncherJobError::WrongType { .. }), "{size}");
    let rank = refused(vec![Info::new(key::PMIX_JOB_SIZE, Value::Uint32(2))]);
    assert!(
        matches!(rank, LauncherJobError::RankBeyondSize { size: 2, .. }),
        "{rank}"
    );
    let maps = refused(vec![
        Info::new(key::PMIX_NODE_MAP, Value::string("n1,n2")),
        Info::new(key::PMIX_PROC_MAP, Value::string("0;1;2")),
    ]);
    let lengths = LauncherJobError::MapLengths { nodes: 2, procs: 3 };
    assert_eq!(maps, lengths);
    let data = refused(vec![
        Info::new(key::PMIX_JOB_SIZE, Value::Uint32(6)),
        Info::new(key::PMIX_PROC_DATA, Value::Uint32(1)),
    ]);
    assert!(matches!(data, LauncherJobError::WrongType { .. }), "{data}");
    let huge = refused(vec![Info::new(key::PMIX_JOB_SIZE, Value::Uint32(u32::MAX))]);
    assert_eq!(huge.status(), code::PMIX_ERR_OUT_OF_RESOURCE);
}

fn placed(nodes: &[(&str, &[u32])], hostname: &str) -> Result<JobSpec, PlacementError> {
    let nodes = nodes.iter().map(|(name, ranks)| NodeRanks {
        hostname: (*name).to_owned(),
        ranks: ranks.iter().copied().map(Rank).collect(),
    });
    let nspace = Nspace::new("job").unwrap();
    JobSpec::on_nodes(nspace, nodes.collect(), hostname, USER)
}

#[test]
fn job_data_of_placed_job_name_its_nodes_and_ranks() {
    let nodes: [(&str, &[u32]); 3] = [("a", &[0, 1, 4]), ("b", &[2, 3]), ("c", &[5])];
    let spec = placed(&nodes, "b").unwrap();
    assert_eq!(spec.local_ranks(), [Rank(2), Rank(3)]);
    assert_eq!((spec.size(), spec.route()), (6, NodeRoute::Servers));
    let places = [1, 2, 5].map(|rank| spec.hostname_of(Rank(rank)));
    assert_eq!(places, [Some("a"), Some("b"), Some("c")]);
    let of_job = [
        (key::PMIX_NUM_NODES, Value::Uint32(3)),
        (key::PMIX_JOB_SIZE, Value::Uint32(6)),
        (key::PMIX_NODE_MAP, Value::string("raw:a,b,c")),
        (key::PMIX_PROC_MAP, Value::string("raw:0,1,4;2,3;5")),
    ];
    for (key, value) in of_job {
        assert_eq!(job_values(&spec, key), [value]);
    }
    let of_rank_4 = [
        (key::PMIX_NODEID, Value::Uint32(0)),
        (key::PMIX_HOSTNAME, Value::string("a")),
        (key::PMIX_LOCAL_RANK, Value::Uint16(2)),
        (key::PMIX_NODE_RANK, Value::Uint16(2)),
        (key::PMIX_GLOBAL_RANK, Value::Rank(Rank(4))),
    ];
    for (key, value) in of_rank_4 {
        assert_eq!(value_of_rank(&spec, 4, key), Some(value));
    }
    let arrays = job_values(&spec, key::PMIX_NODE_INFO_ARRAY);
    let peers = arrays.iter().filter_map(|array| match array {
        Value::DataArray(infos) => {
            let mut infos = infos.as_infos()?.into_iter();
            let peers = infos.find(|info| info.key == key::PMIX_LOCAL_PEERS)?;
            peers.value.as_str()
        }
        _ => None,
    });
    assert_eq!(peers.collect::<Vec<_>>(), ["0,1,4", "2,3", "5"]);
    // The maps are read back as they were meant, as those of another launcher are.
    let maps = [key::PMIX_NODE_MAP, key::PMIX_PROC_MAP];
    let infos = maps.map(|key| Info::new(key, job_values(&spec, key).remove(0)));
    let again = registration(infos.to_vec(), &[2, 3]).spec().unwrap();
    assert_eq!(registered(&again).nodes, registered(&spec).nodes);
}

#[test]
fn placement_with_missing_or_repeated_ranks_is_refused() {
    let refused = |nodes: &[(&str, &[u32])]| placed(nodes, "a").unwrap_err();
    let twice = refused(&[("a", &[0, 1]), ("b", &[1])]);
    assert!(matches!(
        twice,
        PlacementError::RepeatedRank { rank: Rank(1), .. }
    ));
    let missing = PlacementError::MissingRank {
        rank: Rank(1),
        size: 2,
    };
    assert_eq!(refused(&[("a", &[0]), ("b", &[2])]), missing);
    let again = PlacementError::RepeatedNode("a".to_owned());
    assert_eq!(refused(&[("a", &[0]), ("a", &[1])]), again);
    for name in ["", "a,b", "n[1-2]"] {
        assert_eq!(
            refused(&[(name, &[0])]),
            PlacementError::NodeName(name.to_owned())
        );
    }
    // A node without procs of the job registers it, too.
    assert_eq!(placed(&[("b", &[0])], "a").unwrap().local_ranks(), []);
}
