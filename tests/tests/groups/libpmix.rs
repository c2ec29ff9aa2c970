//! Groups of unmodified `libpmix` programs: collective and by invitation. The tests also cover
//! members that are late, die or leave. Where the C library's own server supports a feature, both
//! print the same.
use peal_needs::needs;
use peal_tests::{compared_programs::INVITATIONS, comparison::ProgramComparison};

/// Groups that all named procs form, each by its own call.
const COLLECTIVE: [ProgramComparison; 4] = [
    ProgramComparison::new("group whole", "4", 0, 92),
    ProgramComparison::new("group part", "4", 0, 16),
    ProgramComparison::new("group several", "4", 0, 22),
    ProgramComparison::new("group mistakes", "4", 0, 28),
];

fn compare(compared: &ProgramComparison) {
    let (ours, theirs) = compared.under_both();
    assert_eq!(ours, theirs, "{}", compared.program);
}

#[needs(libpmix)]
#[test]
fn group_construct_is_equal_under_both_servers() {
    COLLECTIVE.iter().for_each(compare);
}

#[needs(libpmix)]
#[test]
fn group_invitation_is_equal_under_both_servers() {
    INVITATIONS.iter().for_each(compare);
}

/// Checks the output under Peal alone: of the proc that differs from the others, and of each of the
/// others.
#[track_caller]
fn expect(program: &'static str, exit_status: i32, other: u32, by_it: &[&str], by_others: &[&str]) {
    let printed = ProgramComparison::new(program, "4", exit_status, 0).under_peal();
    let of = |rank: u32| if rank == other { by_it } else { by_others };
    let expected: Vec<String> = (0..4)
        .flat_map(|rank| {
            of(rank)
                .iter()
                .map(move |line| format!("rank {rank}: {line}"))
        })
        .collect();
    assert_eq!(printed, expected, "{program}");
}

/// 4.2.2 arms a timer for one purpose and uses it for another: its server hangs when it expires.
#[needs(prepared, libpmix)]
#[test]
fn timed_out_and_late_callers_get_status_and_group_forms_later() {
    let formed = [
        "construct late: SUCCESS (0)",
        "construct late: it has no number",
        "destruct late: SUCCESS (0)",
    ];
    let printed = [
        &["construct late: TIMEOUT (-24)"][..],
        &formed,
        &["finalize: SUCCESS (0)"],
    ]
    .concat();
    expect("group late 1", 0, 1, &printed, &printed);
}

const LEFT: [&str; 2] = [
    "construct left: SUCCESS (0)",
    "construct left: it has no number",
];
const END: [&str; 2] = ["destruct left: SUCCESS (0)", "finalize: SUCCESS (0)"];

/// The server of 4.2.2 waits for the dead proc.
#[needs(prepared, libpmix)]
#[test]
fn death_before_call_fails_for_all_and_rest_form_another() {
    let aborted = &["construct all: GROUP-CONSTRUCT-ABORT (-165)"][..];
    expect(
        "group dies 1",
        137,
        1,
        &["dies"],
        &[aborted, &LEFT, &END].concat(),
    );
}

/// The server of 4.2.2 waits for the dead proc.
#[needs(prepared, libpmix)]
#[test]
fn fault_tolerant_group_is_formed_without_dead_proc() {
    let told = &["hears -170 left about own:1", "fence left: SUCCESS (0)"][..];
    expect(
        "group tolerant 1",
        137,
        1,
        &["dies"],
        &[&LEFT[..], told, &END].concat(),
    );
}

const FORMED: [&str; 2] = [
    "construct ours: SUCCESS (0)",
    "construct ours: it has no number",
];
const GONE: [&str; 3] = [
    "fence ours: SUCCESS (0)",
    "destruct ours: SUCCESS (0)",
    "finalize: SUCCESS (0)",
];

/// The server of 4.2.2 notifies no proc.
#[needs(prepared, libpmix)]
#[test]
fn death_of_member_is_reported_on_request_and_group_may_end() {
    let told = &["hears -170 ours about own:1"][..];
    expect(
        "group mourned 1",
        137,
        1,
        &[&FORMED[..], &["dies"]].concat(),
        &[&FORMED, told, &GONE].concat(),
    );
}

/// The server of 4.2.2 does not know the command.
#[needs(prepared, libpmix)]
#[test]
fn leaving_member_is_removed_and_others_are_notified() {
    let left = &[
        "leave ours: SUCCESS (0)",
        "destruct ours: NOT-FOUND (-46)",
        "finalize: SUCCESS (0)",
    ][..];
    let told = &["hears -160 ours about own:1"][..];
    expect(
        "group leaves 1",
        0,
        1,
        &[&FORMED[..], left].concat(),
        &[&FORMED, told, &GONE].concat(),
    );
}

/// The C library raises the event itself from 7.0 on. Here the program does.
#[needs(prepared, libpmix)]
#[test]
fn departure_by_an_event_reaches_each_member_once() {
    let left = &["destruct ours: NOT-FOUND (-46)", "finalize: SUCCESS (0)"][..];
    let told = &["hears -160 ours about own:1", "hears 424244 ours by own:1"][..];
    expect(
        "group departs 1",
        0,
        1,
        &[&FORMED[..], left].concat(),
        &[&FORMED, told, &GONE].concat(),
    );
}

/// Checks the output of procs that lead or follow under Peal; the server of 4.2.2 knows no leader.
#[track_caller]
fn expect_by_rank(program: &'static str, exit_status: i32, by_rank: [&[&str]; 4]) {
    let printed = ProgramComparison::new(program, "4", exit_status, 0).under_peal();
    let lines = by_rank.iter().enumerate();
    let expected: Vec<String> = lines
        .flat_map(|(rank, lines)| lines.iter().map(move |line| format!("rank {rank}: {line}")))
        .collect();
    assert_eq!(printed, expected, "{program}");
}

#[needs(prepared, libpmix)]
#[test]
fn leader_has_a_group_formed_without_a_dead_proc() {
    let told = ["hears -170 ours about own:2"];
    let formed = ["construct ours: SUCCESS (0)"];
    let lines = [&told[..], &formed, &GONE].concat();
    expect_by_rank("group led 2", 137, [&lines, &lines, &["dies"], &lines]);
}

#[needs(prepared, libpmix)]
#[test]
fn another_proc_leads_when_the_leader_dies() {
    let formed = ["construct ours: SUCCESS (0)"];
    let told = ["hears -168 ours about own:0", "hears -167 ours about own:1"];
    let early = [&told[..], &formed, &GONE].concat();
    let late = ["hears -167 ours by own:1", "hears -170 ours about own:0"];
    let late = [&late[..], &formed, &GONE].concat();
    expect_by_rank("group leaderless", 137, [&["dies"], &early, &early, &late]);
}

/// The C library's own client replaces a group by its members if it knows them; its server does
/// not.
#[needs(prepared, libpmix)]
#[test]
fn group_name_means_members_in_control_and_event_range() {
    let printed = ProgramComparison::new("group named", "4", 0, 0).under_peal();
    let of = |rank: u32| -> Vec<String> {
        let member = [
            "construct ours: SUCCESS (0)",
            "construct ours: it has no number",
        ];
        let told: &[&str] = match rank {
            0 => &["hears 424244 by own:1", "signals: 0"],
            1 => &[
                "signal ours: SUCCESS (0)",
                "signals: 1",
                "destruct ours: SUCCESS (0)",
            ],
            _ => &[
                "hears 424243 by own:1",
                "hears 424244 by own:1",
                "signals: 1",
                "destruct ours: SUCCESS (0)",
            ],
        };
        let all = member
            .iter()
            .filter(|_| rank > 0)
            .chain(told)
            .chain(&["finalize: SUCCESS (0)"]);
        all.map(|line| format!("rank {rank}: {line}")).collect()
    };
    assert_eq!(printed, (0..4).flat_map(of).collect::<Vec<_>>());
}
