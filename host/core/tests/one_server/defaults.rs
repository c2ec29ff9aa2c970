//! Built-in rules, case by case and compared with an independent model.
use peal_core::{
    defaults::{Defaults, HookDefault, RuleRequest, decide},
    user_scope::UserScope,
};
use peal_model::{
    BuiltInRule, ConnectionKind, Hook, Nspace, Proc, Rank, Status, TargetProc, UserIdentity, Value,
    code,
};
use proptest::prelude::*;

const ROOT: u32 = 0;
const SERVER: u32 = 500;
const MINE: u32 = 1000;
const OTHERS: u32 = 2000;

fn identity(uid: u32) -> UserIdentity {
    UserIdentity { uid, gid: 100 }
}

fn proc(job: &str) -> Proc {
    Proc::new(Nspace::new(job).unwrap(), Rank(0))
}

/// Returns a proc of a job with this owner; an unknown one without.
fn target(job: &str, owner: Option<u32>) -> TargetProc {
    TargetProc {
        proc: proc(job),
        owner: owner.map(identity),
    }
}

/// Returns the built-in rule's answer to a requester of this user.
fn ask(uid: Option<u32>, rule: BuiltInRule<'_>, targets: &[TargetProc]) -> Result<(), Status> {
    let me = proc("me");
    let case = RuleRequest {
        requester: Some(&me),
        identity: uid.map(identity),
        server: identity(SERVER),
        targets,
        hook: Hook::JobControl,
        rule,
    };
    decide(HookDefault::BuiltIn, &case).map_err(|refused| refused.status())
}

const GRANTED: Result<(), Status> = Ok(());
const REFUSED: Result<(), Status> = Err(code::PMIX_ERR_NO_PERMISSIONS);
const UNKNOWN: Result<(), Status> = Err(code::PMIX_ERR_NOT_FOUND);

#[test]
fn client_connection_needs_registered_uid() {
    let rule = BuiltInRule::OwnConnection(ConnectionKind::Client);
    assert_eq!(
        ask(Some(MINE), rule, &[target("mine", Some(MINE))]),
        GRANTED
    );
    for other in [OTHERS, ROOT, SERVER] {
        assert_eq!(
            ask(Some(other), rule, &[target("mine", Some(MINE))]),
            REFUSED,
            "user {other}"
        );
    }
    assert_eq!(ask(Some(MINE), rule, &[target("nobody's", None)]), UNKNOWN);
    assert_eq!(ask(None, rule, &[target("mine", Some(MINE))]), REFUSED);
}

#[test]
fn tool_connection_needs_uid_of_server_or_job_or_root() {
    let rule = BuiltInRule::OwnConnection(ConnectionKind::Tool);
    for (uid, targets, answer) in [
        (SERVER, vec![], GRANTED),
        (ROOT, vec![], GRANTED),
        (MINE, vec![], REFUSED),
        (MINE, vec![target("mine", Some(MINE))], GRANTED),
        (MINE, vec![target("theirs", Some(OTHERS))], REFUSED),
        (
            MINE,
            vec![target("mine", Some(MINE)), target("theirs", Some(OTHERS))],
            REFUSED,
        ),
        (MINE, vec![target("nobody's", None)], REFUSED),
        (ROOT, vec![target("theirs", Some(OTHERS))], GRANTED),
        (SERVER, vec![target("nobody's", None)], GRANTED),
    ] {
        assert_eq!(
            ask(Some(uid), rule, &targets),
            answer,
            "user {uid} about {targets:?}"
        );
    }
    assert_eq!(ask(None, rule, &[]), REFUSED);
}

#[test]
fn event_is_granted_and_forged_source_refused() {
    let own = Value::Proc(proc("me"));
    let foreign = Value::Proc(proc("other"));
    for (claimed, answer) in [
        (None, GRANTED),
        (Some(&own), GRANTED),
        (Some(&foreign), REFUSED),
    ] {
        assert_eq!(
            ask(Some(MINE), BuiltInRule::OwnSource { claimed }, &[]),
            answer,
            "{claimed:?}"
        );
    }
    // Whom it is aimed at makes no difference: across users it is not delivered.
    assert_eq!(
        ask(
            Some(MINE),
            BuiltInRule::OwnSource { claimed: None },
            &[target("theirs", Some(OTHERS))]
        ),
        GRANTED
    );
    assert_eq!(
        ask(None, BuiltInRule::OwnSource { claimed: None }, &[]),
        REFUSED
    );
}

#[test]
fn event_delivered_across_uids_only_to_rm_and_site_handlers() {
    let reach = UserScope::of(Some(identity(MINE)));
    assert!(reach.includes(Some(MINE)));
    assert!(!reach.includes(Some(OTHERS)) && !reach.includes(Some(ROOT)) && !reach.includes(None));
    // The resource manager's own reach all.
    assert!(UserScope::of(None).includes(Some(OTHERS)) && UserScope::of(None).includes(None));
}

#[test]
fn requests_about_others_own_uid_only_but_root_may_query() {
    for (rule, root) in [
        (BuiltInRule::OwnTargets { users: &[] }, REFUSED),
        (BuiltInRule::OwnTargetsOrRoot, GRANTED),
    ] {
        for (uid, targets, answer) in [
            (MINE, vec![target("mine", Some(MINE))], GRANTED),
            (MINE, vec![], GRANTED),
            (MINE, vec![target("theirs", Some(OTHERS))], REFUSED),
            (
                MINE,
                vec![target("mine", Some(MINE)), target("theirs", Some(OTHERS))],
                REFUSED,
            ),
            (MINE, vec![target("nobody's", None)], UNKNOWN),
            (ROOT, vec![target("theirs", Some(OTHERS))], root),
            (ROOT, vec![target("nobody's", None)], UNKNOWN),
            (SERVER, vec![target("theirs", Some(OTHERS))], REFUSED),
        ] {
            assert_eq!(
                ask(Some(uid), rule, &targets),
                answer,
                "{rule:?}: user {uid} about {targets:?}"
            );
        }
        assert_eq!(ask(None, rule, &[]), REFUSED, "{rule:?}");
    }
    let names = |users| ask(Some(MINE), BuiltInRule::OwnTargets { users }, &[]);
    assert_eq!(names(&[MINE]), GRANTED);
    assert_eq!(names(&[MINE, OTHERS]), REFUSED);
}

#[test]
fn log_granted_as_the_admin_lists_channels() {
    assert_eq!(ask(Some(MINE), BuiltInRule::Grant, &[]), GRANTED);
}

#[test]
fn refusal_names_requester_and_obstacle() {
    let me = proc("me");
    let words = |targets: &[TargetProc], users: &[u32]| {
        let server = identity(SERVER);
        let identity = Some(identity(MINE));
        let case = RuleRequest {
            requester: Some(&me),
            identity,
            server,
            targets,
            hook: Hook::JobControl,
            rule: BuiltInRule::OwnTargets { users },
        };
        decide(HookDefault::BuiltIn, &case).unwrap_err().to_string()
    };
    assert_eq!(
        words(&[target("gone", None)], &[]),
        "gone:0 is not known here"
    );
    assert_eq!(
        words(&[target("theirs", Some(OTHERS))], &[]),
        "theirs:0 belongs to user 2000, me:0 to user 1000"
    );
    assert_eq!(
        words(&[], &[OTHERS]),
        "me:0 belongs to user 1000 and names user 2000"
    );
}

#[test]
fn the_site_may_grant_or_deny_a_hook_altogether() {
    let mut defaults = Defaults::default();
    defaults.set(Hook::JobControl, HookDefault::Grant);
    defaults.set(Hook::Log, HookDefault::Deny);
    let theirs = [target("theirs", Some(OTHERS))];
    let ask = |hook, rule| {
        let case = RuleRequest {
            requester: None,
            identity: Some(identity(MINE)),
            server: identity(1),
            targets: &theirs,
            hook,
            rule,
        };
        decide(defaults.of(hook), &case).map_err(|refused| refused.to_string())
    };
    assert_eq!(
        ask(
            Hook::JobControl,
            BuiltInRule::OwnTargets { users: &[OTHERS] }
        ),
        Ok(())
    );
    assert_eq!(
        ask(Hook::Log, BuiltInRule::Grant),
        Err("the site's default for log is to deny".to_owned())
    );
    assert!(
        ask(Hook::Monitor, BuiltInRule::OwnTargets { users: &[] }).is_err(),
        "others stay as they are"
    );
}

/// The table in other words: the set of all users that a request touches must be the requester's alone, and it must be
/// known whose everything is.
fn touches_only(uid: u32, owners: &[Option<u32>], users: &[u32]) -> bool {
    let touched: Option<std::collections::BTreeSet<u32>> = owners.iter().copied().collect();
    touched.is_some_and(|mut touched| {
        touched.extend(users);
        touched.remove(&uid);
        touched.is_empty()
    })
}

proptest! {
    #[test]
    fn the_rules_agree_with_the_model(
        uid in prop::option::of(0..4_u32),
        owners in prop::collection::vec(prop::option::of(0..4_u32), 0..4),
        users in prop::collection::vec(0..4_u32, 0..3),
        server in 0..4_u32,
    ) {
        let targets: Vec<TargetProc> = owners.iter().map(|owner| target("job", *owner)).collect();
        let me = proc("me");
        let ask = |rule| {
            let server = identity(server);
            let identity = uid.map(identity);
            decide(HookDefault::BuiltIn, &RuleRequest { requester: Some(&me), identity, server, targets: &targets, hook: Hook::JobControl, rule }).is_ok()
        };
        let own = uid.is_some_and(|uid| touches_only(uid, &owners, &users));
        prop_assert_eq!(ask(BuiltInRule::OwnTargets { users: &users }), own);
        let named = uid.is_some_and(|uid| touches_only(uid, &owners, &[]));
        prop_assert_eq!(ask(BuiltInRule::OwnConnection(ConnectionKind::Client)), named);
        let tool = uid.is_some_and(|uid| uid == 0 || uid == server || (!owners.is_empty() && named));
        prop_assert_eq!(ask(BuiltInRule::OwnConnection(ConnectionKind::Tool)), tool);
        prop_assert_eq!(ask(BuiltInRule::OwnSource { claimed: None }), uid.is_some());
    }
}
