//! Groups of unmodified `libpmix` programs: collective and by invitation, and what becomes of them when somebody is late, dies or
//! leaves. What the C library's own server supports is printed the same under both.
use peal_needs::needs;
use peal_tests::compared::Compared;

/// Groups that all who are named form, each of whom calls.
const COLLECTIVE: [Compared; 4] = [
    Compared::new("group whole", "4", 0, 92),
    Compared::new("group part", "4", 0, 16),
    Compared::new("group several", "4", 0, 22),
    Compared::new("group mistakes", "4", 0, 28),
];

/// Groups to which one invites the others. Whatever is decided here the library of whoever leads decides, which ends only what all
/// accept.
const INVITED: [Compared; 6] = [
    Compared::new("invite accept", "4", 0, 23),
    Compared::new("invite decline 2", "4", 0, 12),
    Compared::new("invite ignore 2", "4", 0, 22),
    Compared::new("invite cancel 2", "4", 0, 16),
    Compared::new("invite replace 1", "4", 0, 23),
    Compared::new("invite dies 2", "4", 137, 20),
];

fn compare(compared: &Compared) {
    let (ours, theirs) = compared.under_both();
    assert_eq!(ours, theirs, "{}", compared.program);
}

#[needs(libpmix)]
#[test]
fn who_forms_a_group_sees_the_same_under_both_servers() {
    COLLECTIVE.iter().for_each(compare);
}

#[needs(libpmix)]
#[test]
fn who_is_invited_to_a_group_sees_the_same_under_both_servers() {
    INVITED.iter().for_each(compare);
}

/// What is printed under Peal alone: by the proc that is not like the others, and by each of those.
#[track_caller]
fn expect(program: &'static str, exit_status: i32, other: u32, by_it: &[&str], by_others: &[&str]) {
    let printed = Compared::new(program, "4", exit_status, 0).under_peal();
    let of = |rank: u32| if rank == other { by_it } else { by_others };
    let expected: Vec<String> =
        (0..4).flat_map(|rank| of(rank).iter().map(move |line| format!("rank {rank}: {line}"))).collect();
    assert_eq!(printed, expected, "{program}");
}

/// 4.2.2 arms a timer for one thing and takes it for another: its server is stuck when that has run out.
#[needs(libpmix)]
#[test]
fn who_waits_too_long_for_a_group_is_told_so_as_is_whoever_comes_late_and_then_all_form_it() {
    let formed = ["construct late: SUCCESS (0)", "construct late: it has no number", "destruct late: SUCCESS (0)"];
    let printed = [&["construct late: TIMEOUT (-24)"][..], &formed, &["finalize: SUCCESS (0)"]].concat();
    expect("group late 1", 0, 1, &printed, &printed);
}

const LEFT: [&str; 2] = ["construct left: SUCCESS (0)", "construct left: it has no number"];
const END: [&str; 2] = ["destruct left: SUCCESS (0)", "finalize: SUCCESS (0)"];

/// The server of 4.2.2 waits for the dead.
#[needs(libpmix)]
#[test]
fn the_death_of_one_who_has_not_called_is_the_end_of_it_for_all_and_those_who_are_left_form_another() {
    let aborted = &["construct all: GROUP-CONSTRUCT-ABORT (-165)"][..];
    expect("group dies 1", 137, 1, &["dies"], &[aborted, &LEFT, &END].concat());
}

/// The same.
#[needs(libpmix)]
#[test]
fn a_group_that_bears_it_is_formed_without_whoever_dies() {
    expect("group tolerant 1", 137, 1, &["dies"], &[&LEFT[..], &["fence left: SUCCESS (0)"], &END].concat());
}

const FORMED: [&str; 2] = ["construct ours: SUCCESS (0)", "construct ours: it has no number"];
const GONE: [&str; 3] = ["fence ours: SUCCESS (0)", "destruct ours: SUCCESS (0)", "finalize: SUCCESS (0)"];

/// The server of 4.2.2 tells nobody.
#[needs(libpmix)]
#[test]
fn the_death_of_a_member_is_told_to_a_group_that_wants_to_know_and_does_not_keep_it_from_its_end() {
    let told = &["hears -170 ours about own:1"][..];
    expect("group mourned 1", 137, 1, &[&FORMED[..], &["dies"]].concat(), &[&FORMED, told, &GONE].concat());
}

/// To the server of 4.2.2 that is an unknown command.
#[needs(libpmix)]
#[test]
fn who_leaves_a_group_is_in_it_no_more_and_the_others_are_told() {
    let left = &["leave ours: SUCCESS (0)", "destruct ours: NOT-FOUND (-46)", "finalize: SUCCESS (0)"][..];
    let told = &["hears -160 ours about own:1"][..];
    expect("group leaves 1", 0, 1, &[&FORMED[..], left].concat(), &[&FORMED, told, &GONE].concat());
}

/// The C library has its own client put members in the place of a group, where it knows them; its server does not.
#[needs(libpmix)]
#[test]
fn a_groups_name_stands_for_its_members_in_job_control_and_in_the_range_of_an_event() {
    let printed = Compared::new("group named", "4", 0, 0).under_peal();
    let of = |rank: u32| -> Vec<String> {
        let member = ["construct ours: SUCCESS (0)", "construct ours: it has no number"];
        let told: &[&str] = match rank {
            0 => &["hears 424244 by own:1", "signals: 0"],
            1 => &["signal ours: SUCCESS (0)", "signals: 1", "destruct ours: SUCCESS (0)"],
            _ => &["hears 424243 by own:1", "hears 424244 by own:1", "signals: 1", "destruct ours: SUCCESS (0)"],
        };
        let all = member.iter().filter(|_| rank > 0).chain(told).chain(&["finalize: SUCCESS (0)"]);
        all.map(|line| format!("rank {rank}: {line}")).collect()
    };
    assert_eq!(printed, (0..4).flat_map(of).collect::<Vec<_>>());
}
