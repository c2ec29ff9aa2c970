//! Tests of what each reader sees of a sample, and of the states of modules.
use super::*;
use crate::admin::{
    ChainHandler, ChainLevels, ChainLocation, ChainPlace, ChainSources, JobStatus, ModuleList,
    ModuleState, ResourceUse, ServerPhase, TroubleKind, UserResources,
};
use tokio::sync::oneshot::Sender;

fn activity_job(nspace: &str, uid: u32, procs: u32) -> ActivityJob {
    let proc = |rank| ActivityProc {
        rank,
        state: ActivityProcState::Connected,
        pid: Some(rank + 1),
    };
    ActivityJob {
        status: JobStatus {
            nspace: nspace.to_owned(),
            size: procs,
            uid,
            gid: uid,
            expected: 0,
            connected: procs,
            finalized: 0,
            lost: 0,
            elapsed: None,
        },
        procs: (0..procs).map(proc).collect(),
        further_procs: 0,
    }
}

fn chain(owner: &ChainOwner, handlers: &[&str]) -> Chain {
    let handler = |name: &&str| ChainHandler {
        registration: 1,
        name: (*name).to_owned(),
        module: "m".to_owned(),
        codes: Vec::new(),
        place: ChainPlace::Append,
        oneshot: false,
        location: ChainLocation::Origin,
        levels: ChainLevels::Both,
        sources: ChainSources::Any,
        affected: Vec::new(),
    };
    Chain {
        owner: owner.clone(),
        handlers: handlers.iter().map(handler).collect(),
    }
}

fn activity_module(owner: &ChainOwner) -> ActivityModule {
    ActivityModule {
        owner: owner.clone(),
        name: "m".to_owned(),
        role: "event-handler".to_owned(),
        calls: 1,
        failures: 0,
        time_us: 1,
        state: None,
        failure: None,
    }
}

/// Returns a sample with a job of user 7, one of user 8, and what they and the site have.
pub(crate) fn sample() -> ActivitySample {
    sample_at(Duration::from_secs(5))
}

/// Returns the same at another time since the start of the server.
pub(crate) fn sample_at(uptime: Duration) -> ActivitySample {
    let owners = [
        ChainOwner::Site,
        ChainOwner::User(7),
        ChainOwner::User(8),
        ChainOwner::Namespace("seven".to_owned()),
        ChainOwner::Namespace("eight".to_owned()),
    ];
    let user = |uid| UserResources {
        uid,
        resources: vec![ResourceUse {
            resource: "tools".to_owned(),
            held: 1,
            share: None,
            refused: 0,
        }],
    };
    ActivitySample {
        taken: Instant::now(),
        uptime,
        server: Arc::new(ActivityServer {
            release: "0".to_owned(),
            node: "n".to_owned(),
            pid: 1,
            phase: ServerPhase::Serving,
            connections: Some(3),
            troubles: vec![trouble(&Trouble {
                kind: TroubleKind::Audit,
                message: format!("first\u{1b}\n{}", "x".repeat(5000)),
            })],
        }),
        jobs: vec![activity_job("eight", 8, 2), activity_job("seven", 7, 3)],
        chains: owners.iter().map(|owner| chain(owner, &["h"])).collect(),
        modules: owners.iter().map(activity_module).collect(),
        sinks: vec![ActivitySink::default()],
        users: UserQuotas {
            resources: Vec::new(),
            users: vec![user(7), user(8)],
        },
        for_admins: OnceLock::new(),
    }
}

/// Returns the text of all sections.
fn shown(sections: &ActivitySections) -> String {
    let ActivitySections {
        server,
        jobs,
        chains,
        modules,
        sinks,
        users,
        ..
    } = sections;
    serde_json::to_string(&(
        &**server, &**jobs, &**chains, &**modules, &**sinks, &**users,
    ))
    .unwrap()
}

#[test]
fn user_sees_what_is_its_own_and_nothing_of_another() {
    let sample = sample();
    for (own, own_job, other, other_job) in [(7, "seven", 8, "eight"), (8, "eight", 7, "seven")] {
        let seen = sample.visible(ActivityViewer::User(own));
        assert_eq!(seen.jobs.jobs.len(), 1);
        let owners: Vec<&ChainOwner> = seen.chains.iter().map(|chain| &chain.owner).collect();
        let wanted = [
            &ChainOwner::User(own),
            &ChainOwner::Namespace(own_job.to_owned()),
        ];
        assert_eq!(owners, wanted);
        let owners: Vec<&ChainOwner> = seen.modules.modules.iter().map(|of| &of.owner).collect();
        assert_eq!(owners, wanted);
        assert_eq!(seen.users.users.len(), 1);
        assert!(seen.sinks.is_empty() && seen.server.troubles.is_empty());
        assert_eq!(seen.server.connections, None);
        let text = shown(&seen);
        assert!(text.contains(own_job), "{text}");
        assert!(
            !text.contains(other_job) && !text.contains(&format!("\"user\":{other}")),
            "{text}"
        );
    }
    let nothing = sample.visible(ActivityViewer::User(9));
    assert!(nothing.jobs.jobs.is_empty() && nothing.chains.is_empty());
}

#[test]
fn admins_share_sections_and_see_everything() {
    let sample = sample();
    let [one, other] = [(); 2].map(|()| sample.visible(ActivityViewer::Admin));
    assert!(Arc::ptr_eq(&one.jobs, &other.jobs) && Arc::ptr_eq(&one.chains, &other.chains));
    assert_eq!((one.jobs.jobs.len(), one.chains.len()), (2, 5));
    assert_eq!((one.sinks.len(), one.users.users.len()), (1, 2));
    let message = &one.server.troubles[0].message;
    assert!(message.starts_with("first\\u{1b}\nxxx") && message.len() < 230);
}

#[test]
fn what_has_no_room_is_counted() {
    let mut room = SectionRoom::default();
    let long = "\u{1}".repeat(MAX_ITEM_BYTES / 6 - 100);
    let items = [&long, &long, &"short".to_owned()].map(Clone::clone);
    let (taken, further) = room.take(items.iter());
    assert_eq!(
        (taken.len(), further),
        (1, 2),
        "none after one without room"
    );
    let numbers: Vec<u32> = (0..5000).collect();
    let (taken, further) = SectionRoom::default().take(numbers.iter());
    assert_eq!((taken.len(), further), (MAX_ITEMS, 904));
    let mut sample = sample();
    sample.jobs = vec![activity_job("eight", 8, 5000), activity_job("seven", 7, 3)];
    let names: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    sample.chains = vec![
        chain(&ChainOwner::Site, &names),
        chain(&ChainOwner::User(7), &["h"]),
    ];
    let all = sample.visible(ActivityViewer::Admin);
    let procs: Vec<(usize, u64)> = all
        .jobs
        .jobs
        .iter()
        .map(|job| (job.procs.len(), job.further_procs))
        .collect();
    assert_eq!(procs, [(MAX_ITEMS, 904), (0, 3)]);
    let handlers: usize = all.chains.iter().map(|chain| chain.handlers.len()).sum();
    let further = usize::try_from(all.further.handlers).unwrap();
    assert_eq!(handlers + further, 5001);
    let own = sample.visible(ActivityViewer::User(7));
    assert_eq!(own.jobs.jobs[0].procs.len(), 3, "others take no room");
    assert_eq!((own.chains.len(), own.further.handlers), (1, 0));
}

type ListReply = Sender<Result<AdminReply, String>>;

fn list(name: &str) -> Result<AdminReply, String> {
    let status = ModuleStatus {
        reaches: Vec::new(),
        name: name.to_owned(),
        owner: ChainOwner::Site,
        roles: Vec::new(),
        state: ModuleState::Active,
        sha256: String::new(),
        failures: 0,
        failure: None,
        memory: 0,
        path: None,
        signer: None,
    };
    Ok(AdminReply::Modules(ModuleList {
        version: 1,
        modules: vec![status],
        versions: Vec::new(),
        refused: Vec::new(),
        cluster: None,
    }))
}

fn name(states: &[ModuleStatus]) -> Option<&str> {
    states.first().map(|status| status.name.as_str())
}

#[tokio::test(start_paused = true)]
async fn states_are_of_now_unless_the_process_is_busy() {
    let mut states = ModuleStates::default();
    let answer = |text: &'static str| move |reply: ListReply| reply.send(list(text)).is_ok();
    assert_eq!(name(&states.now(answer("one")).await), Some("one"));
    assert_eq!(name(&states.now(answer("two")).await), Some("two"));
    // A deployment begins: one request waits, and later samples do not.
    let mut waiting = None;
    let busy = |reply: ListReply| waiting.replace(reply).is_none();
    assert_eq!(name(&states.now(busy).await), Some("two"));
    let unasked = |_: ListReply| panic!("a second request waits");
    assert_eq!(name(&states.now(unasked).await), Some("two"));
    // Its reply is of an earlier time.
    waiting.unwrap().send(list("late")).unwrap();
    assert_eq!(name(&states.now(answer("three")).await), Some("three"));
    assert_eq!(name(&states.now(|_| false).await), Some("three"));
}

#[test]
fn failure_of_a_module_is_escaped_and_cut() {
    let Ok(AdminReply::Modules(ModuleList { mut modules, .. })) = list("m") else {
        panic!("a list is expected");
    };
    modules[0].failure = Some(format!("bad\u{1b}{}", "x".repeat(20 << 20)));
    let totals = ModuleTotals {
        owner: peal_core::owner::Owner::Site,
        module: "m".to_owned(),
        role: "event-handler",
        calls: 0,
        failures: 0,
        time: Duration::ZERO,
    };
    let failure = module(totals, ChainOwner::Site, modules.first()).failure;
    let failure = failure.unwrap();
    assert!(failure.starts_with("bad\\u{1b}x") && failure.len() < 210);
}
