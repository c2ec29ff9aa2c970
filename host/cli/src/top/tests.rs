//! Screens of `peal top` on a terminal in memory.
use super::{
    draw::{self, Colours},
    form::Glyphs,
    model::{TopAction, TopKey, TopModel},
    snapshot,
};
use crate::table::Side;
use peal_model::Status;
use peal_server::admin::{
    ACTIVITY_VERSION, ActivityCodeCount, ActivityCounts, ActivityDenial, ActivityFurther,
    ActivityJob, ActivityJobs, ActivityMissed, ActivityModule, ActivityModules, ActivityProc,
    ActivityProcState, ActivityReport, ActivityServer, ActivitySink, Chain, ChainHandler,
    ChainLevels, ChainLocation, ChainOwner, ChainPlace, ChainSources, EventPassage, JobStatus,
    LiveData, ModuleState, PassageStep, ResourceLimits, ResourceUse, ServerPhase, Trouble,
    TroubleKind, UNKNOWN_ID, UserQuotas, UserResources, WatchedStatus,
};
use ratatui::{Terminal, backend::TestBackend, style::Color};

fn name_of(uid: u32) -> String {
    match uid {
        0 => "root".to_owned(),
        1001 => "alice".to_owned(),
        uid => format!("u{uid}"),
    }
}

fn code(number: i32) -> WatchedStatus {
    Status(number).into()
}

fn job(nspace: &str, uid: u32, size: u32) -> ActivityJob {
    let proc = |rank| ActivityProc {
        rank,
        state: if rank == 2 {
            ActivityProcState::Lost
        } else {
            ActivityProcState::Connected
        },
        pid: Some(4700 + rank),
    };
    ActivityJob {
        status: JobStatus {
            nspace: nspace.to_owned(),
            size,
            uid,
            gid: uid,
            expected: 0,
            connected: size - 1,
            finalized: 0,
            lost: 1,
            elapsed: None,
        },
        procs: (0..size).map(proc).collect(),
        further_procs: 0,
    }
}

fn handler(registration: u64, name: &str, codes: &[i32]) -> ChainHandler {
    ChainHandler {
        registration,
        name: name.to_owned(),
        module: name.to_owned(),
        codes: codes.to_vec(),
        place: ChainPlace::Append,
        oneshot: false,
        location: ChainLocation::Origin,
        levels: ChainLevels::Both,
        sources: ChainSources::Any,
        affected: Vec::new(),
    }
}

fn module(owner: ChainOwner, name: &str, role: &str, calls: u64, failures: u64) -> ActivityModule {
    ActivityModule {
        owner,
        name: name.to_owned(),
        role: role.to_owned(),
        calls,
        failures,
        time_us: calls * 140,
        state: Some(if failures > 5 {
            ModuleState::Quarantined
        } else {
            ModuleState::Active
        }),
        failure: (failures > 0).then(|| "call exceeded its time limit of 100 ms".to_owned()),
    }
}

fn passage(number: u64) -> EventPassage {
    let step =
        |owner: ChainOwner, handler: &str, time_us: u64, failure: Option<&str>| PassageStep {
            owner,
            handler: handler.to_owned(),
            module: handler.to_owned(),
            status: if failure.is_some() {
                code(Status::PEAL_ERR_MODULE_TIMEOUT.0)
            } else {
                peal_model::code::PMIX_EVENT_NO_ACTION_TAKEN.into()
            },
            failure: failure.map(str::to_owned),
            time_us,
        };
    EventPassage {
        number,
        at_ms: 1_700_000_000_000 + number * 37,
        code: peal_model::code::PMIX_ERR_PROC_ABORTED.into(),
        source: Some("solver:3".to_owned()),
        uid: Some(1001),
        range: "PMIX_RANGE_NAMESPACE".to_owned(),
        time_us: 1330,
        steps: vec![
            step(ChainOwner::Site, "watchdog", 120, None),
            step(
                ChainOwner::User(1001),
                "notify-me",
                1100,
                (number == 7).then_some("call exceeded its time limit of 100 ms"),
            ),
            step(
                ChainOwner::Namespace("solver".to_owned()),
                "log-abort",
                40,
                None,
            ),
        ],
        further_steps: 0,
    }
}

/// Returns a report; each further one has more events and calls.
fn report(number: u64) -> ActivityReport {
    let site = || ChainOwner::Site;
    let alice = || ChainOwner::User(1001);
    let solver = || ChainOwner::Namespace("solver".to_owned());
    let use_of = |resource: &str, held, share, refused| ResourceUse {
        resource: resource.to_owned(),
        held,
        share: Some(share),
        refused,
    };
    let limits = |resource: &str| ResourceLimits {
        resource: resource.to_owned(),
        share: 100,
        share_setting: format!("server.max_{resource}_per_user"),
        total: None,
        total_setting: None,
        held: Some(1),
    };
    ActivityReport {
        version: ACTIVITY_VERSION,
        number,
        uptime_ms: 8_040_000 + number * 1000,
        only_user: None,
        server: Some(ActivityServer {
            release: "0.1.0".to_owned(),
            node: "n017".to_owned(),
            pid: 4242,
            phase: ServerPhase::Serving,
            connections: Some(11),
            troubles: Vec::new(),
        }),
        counts: Some(ActivityCounts {
            at_ms: 8_040_000 + number * 1000,
            events: vec![
                ActivityCodeCount {
                    code: peal_model::code::PMIX_ERR_PROC_ABORTED.into(),
                    count: 3 + number,
                },
                ActivityCodeCount {
                    code: code(-3001),
                    count: 1200 * number + 17 * (number % 3) * number,
                },
            ],
            further_events: 0,
            uncounted: false,
            denials: number / 2,
        }),
        jobs: Some(ActivityJobs {
            jobs: vec![job("solver", 1001, 8), job("viewer", 1002, 3)],
            further: 0,
        }),
        chains: Some(vec![
            Chain {
                owner: site(),
                handlers: vec![
                    handler(1, "watchdog", &[]),
                    handler(2, "escalate", &[-3001, -25]),
                ],
            },
            Chain {
                owner: alice(),
                handlers: vec![handler(1, "notify-me", &[-3001])],
            },
            Chain {
                owner: solver(),
                handlers: vec![handler(1, "log-abort", &[])],
            },
        ]),
        modules: Some(ActivityModules {
            modules: vec![
                module(site(), "watchdog", "event-handler", 1200 * number, 0),
                module(site(), "escalate", "event-handler", 3 + number, 0),
                module(site(), "same-user", "event-policy", 1203 * number, 0),
                module(
                    alice(),
                    "notify-me",
                    "event-handler",
                    1200 * number,
                    2 * number,
                ),
                module(solver(), "log-abort", "event-handler", 0, 0),
            ],
            further: 0,
        }),
        sinks: Some(vec![ActivitySink {
            name: "ops-mail".to_owned(),
            queued: 14,
            queued_bytes: 40_000,
            delivered: 90 + number,
            refused: 0,
            retried: 3,
            dropped: 0,
            unreachable: true,
        }]),
        users: Some(UserQuotas {
            resources: vec![limits("connections"), limits("tools")],
            users: vec![
                UserResources {
                    uid: 1001,
                    resources: vec![
                        use_of("connections", 95, 100, 12),
                        use_of("tools", 1, 64, 0),
                    ],
                },
                UserResources {
                    uid: 1002,
                    resources: vec![use_of("connections", 3, 100, 0)],
                },
            ],
        }),
        further: Some(ActivityFurther::default()),
        denials: vec![ActivityDenial {
            at_ms: 1_700_000_000_123 + number,
            hook: "job-control".to_owned(),
            requester: Some("viewer:0".to_owned()),
            uid: Some(1002),
            targets: vec!["solver:0".to_owned(), "solver:1".to_owned()],
            by: "policy \"same-user\"".to_owned(),
            status: peal_model::code::PMIX_ERR_NO_PERMISSIONS.into(),
            reason: "job solver belongs to another user".to_owned(),
        }],
        passages: vec![passage(number)],
        missed: ActivityMissed::default(),
    }
}

fn model(reports: u64) -> TopModel {
    let mut model = TopModel::new(LiveData::new(name_of, None), Glyphs::Unicode);
    (1..=reports).for_each(|number| model.report(report(number)));
    model
}

/// Returns the lines of a screen without the spaces at their ends.
fn screen(model: &mut TopModel, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut rows = Vec::new();
    terminal
        .draw(|frame| {
            draw::draw(frame, model, Colours::Plain);
            let buffer = frame.buffer_mut();
            for y in 0..height {
                let row = (0..width).map(|x| buffer[(x, y)].symbol().to_owned());
                rows.push(row.collect::<String>().trim_end().to_owned());
            }
        })
        .unwrap();
    rows
}

fn press(model: &mut TopModel, keys: &[TopKey]) {
    for key in keys {
        assert_eq!(model.press(*key), TopAction::Continue, "{key:?}");
    }
}

fn type_text(model: &mut TopModel, text: &str) {
    text.chars()
        .for_each(|of| press(model, &[TopKey::Char(of)]));
}

/// Returns the screen as one text, printed for people who run this test to look at it.
fn shown(model: &mut TopModel) -> String {
    let text = screen(model, 80, 24).join("\n");
    eprintln!("{text}\n{}", "-".repeat(80));
    text
}

#[test]
fn jobs_fit_into_80_columns_and_24_lines() {
    let mut model = model(9);
    let lines = screen(&mut model, 80, 24);
    assert_eq!(lines.len(), 24);
    assert_eq!(lines[0], " peal 0.1.0  n017  serving  up 2h14m");
    assert!(lines[1].starts_with(" events/s "), "{}", lines[1]);
    assert!(lines[1].contains("connections 11"), "{}", lines[1]);
    assert!(
        lines[2].starts_with(" 1 Jobs   2 Codes   3 Chains "),
        "{}",
        lines[2]
    );
    assert_eq!(
        lines[3],
        " JOB     USER   PROCS  CONNECTED  EXPECTED  FINALIZED  LOST"
    );
    assert_eq!(
        lines[4],
        " solver  alice      8          7         0          0     1"
    );
    assert!(lines[23].starts_with(" q quit  ? help "), "{}", lines[23]);
}

#[test]
fn every_pane_and_detail_fits_on_every_screen() {
    let sizes = [(80, 24), (120, 40), (40, 10), (20, 5), (1, 1), (200, 60)];
    for (width, height) in sizes {
        for pane in '1'..='7' {
            let mut model = model(9);
            press(&mut model, &[TopKey::Char(pane)]);
            let table = screen(&mut model, width, height);
            press(&mut model, &[TopKey::Enter, TopKey::Down, TopKey::Enter]);
            let detail = screen(&mut model, width, height);
            for lines in [&table, &detail] {
                let keys = " q quit"
                    .get(..usize::from(width).min(7))
                    .unwrap_or_default();
                let last = lines.last().unwrap();
                assert!(last.starts_with(keys.trim_end()), "{width}: {lines:?}");
            }
            if width >= 80 {
                let columns = model_columns(pane, width);
                for column in columns {
                    assert!(table[3].contains(column), "{width} {column}: {}", table[3]);
                }
            }
        }
    }
}

/// Returns the titles of the columns that a pane shows on a screen of this width.
fn model_columns(pane: char, width: u16) -> Vec<&'static str> {
    let mut model = model(9);
    press(&mut model, &[TopKey::Char(pane)]);
    let columns = model.content().table.columns;
    let shown = columns.iter().filter(|column| column.screen <= width);
    shown.map(|column| column.title).collect()
}

/// Prints all screens, for people who look at them.
#[test]
fn panes_show_rates_times_and_failures() {
    let mut model = model(30);
    press(&mut model, &[TopKey::Char('2')]);
    let codes = shown(&mut model);
    assert!(codes.contains("EVENTS/S▼"), "{codes}");
    assert!(codes.contains("PMIX_ERR_PROC_ABORTED"), "{codes}");
    press(&mut model, &[TopKey::Char('3')]);
    let chains = shown(&mut model);
    let notify = chains.lines().find(|line| line.contains("notify-me"));
    let notify = notify.unwrap();
    for wanted in [
        "user alice 1",
        "1200",
        "140 us",
        "36000",
        "60",
        "quarantined",
    ] {
        assert!(notify.contains(wanted), "{wanted}: {notify}");
    }
    assert!(chains.contains("event-policy"), "{chains}");
    for pane in ['4', '5', '6', '7'] {
        press(&mut model, &[TopKey::Char(pane)]);
        shown(&mut model);
    }
    let users = shown(&mut model);
    let alice = users.lines().find(|line| line.contains("alice")).unwrap();
    assert!(
        alice.contains("connections") && alice.contains("95%"),
        "{alice}"
    );
    press(&mut model, &[TopKey::Enter]);
    assert!(shown(&mut model).contains("█████"));
    eprintln!("{}", screen(&mut model, 120, 40).join("\n"));
    press(&mut model, &[TopKey::Char('3')]);
    eprintln!("{}", screen(&mut model, 120, 40).join("\n"));
    press(&mut model, &[TopKey::Char('?')]);
    assert!(shown(&mut model).contains("Keys and columns"));
}

#[test]
fn event_is_followed_from_its_code_through_its_chain() {
    let mut model = model(7);
    // The code with fewer events is below the other one.
    press(
        &mut model,
        &[TopKey::Char('2'), TopKey::Down, TopKey::Enter],
    );
    let of_code = shown(&mut model);
    assert!(of_code.contains("Code PMIX_ERR_PROC_ABORTED"), "{of_code}");
    assert!(of_code.contains("site/watchdog"), "{of_code}");
    press(&mut model, &[TopKey::Enter]);
    let way = shown(&mut model);
    assert!(way.contains("Event 7  PMIX_ERR_PROC_ABORTED"), "{way}");
    let steps: Vec<&str> = way
        .lines()
        .filter(|line| {
            line.contains("watchdog") || line.contains("notify-me") || line.contains("log-abort")
        })
        .collect();
    assert_eq!(steps.len(), 3, "{way}");
    assert!(
        steps[0].contains("site") && steps[0].contains("120 us"),
        "{way}"
    );
    assert!(
        steps[1].contains("user alice") && steps[1].contains("1.10 ms"),
        "{way}"
    );
    assert!(steps[2].contains("job solver"), "{way}");
    // Later events do not replace the one that is open.
    model.report(report(8));
    assert!(shown(&mut model).contains("Event 7  "));
    press(&mut model, &[TopKey::Escape]);
    assert!(shown(&mut model).contains("Code PMIX_ERR_PROC_ABORTED"));
    press(&mut model, &[TopKey::Escape]);
    assert!(!model.is_detail());
}

#[test]
fn selection_stays_on_its_row_when_others_come() {
    let mut model = model(5);
    press(
        &mut model,
        &[TopKey::Char('5'), TopKey::Down, TopKey::Enter],
    );
    let is_open = |model: &mut TopModel| shown(model).contains("22:13:20.127 UTC");
    assert!(is_open(&mut model));
    model.report(report(6));
    assert!(is_open(&mut model));
    press(&mut model, &[TopKey::Escape]);
    let content = model.content();
    assert_eq!(content.selected, 2, "one denial is above the two of before");
}

#[test]
fn filter_and_order_change_rows_and_are_shown() {
    let mut model = model(3);
    press(&mut model, &[TopKey::Char('s'), TopKey::Char('S')]);
    let lines = screen(&mut model, 80, 24);
    assert!(lines[3].contains("JOB▼"), "{}", lines[3]);
    assert!(lines[4].contains("viewer"), "{}", lines[4]);
    press(&mut model, &[TopKey::Char('/')]);
    type_text(&mut model, "SOLq");
    press(&mut model, &[TopKey::Backspace]);
    assert!(shown(&mut model).contains(" filter: SOL"));
    press(&mut model, &[TopKey::Enter]);
    let filtered = shown(&mut model);
    assert!(filtered.contains("filter \"SOL\""), "{filtered}");
    assert!(
        filtered.contains("solver") && !filtered.contains("viewer"),
        "{filtered}"
    );
    press(&mut model, &[TopKey::Escape]);
    assert!(shown(&mut model).contains("viewer"));
}

#[test]
fn paused_screen_stays_and_then_shows_the_latest() {
    let mut model = model(3);
    press(&mut model, &[TopKey::Char('5'), TopKey::Char('p')]);
    let paused = shown(&mut model);
    assert!(paused.contains("PAUSED"), "{paused}");
    (4..9).for_each(|number| model.report(report(number)));
    assert_eq!(shown(&mut model), paused);
    press(&mut model, &[TopKey::Char('p')]);
    let content = model.content();
    assert_eq!(content.table.rows.len(), 8);
}

#[test]
fn long_lists_scroll_with_the_selection() {
    let mut model = model(1);
    let mut many = report(2);
    let jobs = (0..100).map(|number| job(&format!("job-{number:03}"), 1001, 4));
    many.jobs = Some(ActivityJobs {
        jobs: jobs.collect(),
        further: 23,
    });
    model.report(many);
    let top = shown(&mut model);
    assert!(
        top.contains("job-000") && top.contains("and 23 more jobs"),
        "{top}"
    );
    press(&mut model, &[TopKey::End]);
    assert!(shown(&mut model).contains("job-099"));
    press(&mut model, &[TopKey::PageUp, TopKey::Up]);
    let above = shown(&mut model);
    assert!(
        above.contains("job-080") && !above.contains("job-000"),
        "{above}"
    );
    press(&mut model, &[TopKey::Home]);
    assert!(shown(&mut model).contains("job-000"));
}

#[test]
fn problems_and_the_end_of_the_server_are_shown() {
    let mut model = model(1);
    let mut bad = report(2);
    if let Some(server) = &mut bad.server {
        server.troubles = vec![Trouble {
            kind: TroubleKind::Audit,
            message: "it cannot be written: disk full\nmore".to_owned(),
        }];
    }
    model.report(bad);
    assert!(shown(&mut model).contains(" TROUBLE audit: it cannot be written: disk full\n"));
    model.end("the server has ended".to_owned());
    assert!(shown(&mut model).contains(" the server has ended  q quit"));
    assert_eq!(model.press(TopKey::Char('q')), TopAction::Quit);
}

#[test]
fn nothing_from_outside_moves_the_cursor() {
    let mut model = model(1);
    let mut evil = report(2);
    evil.jobs = Some(ActivityJobs {
        jobs: vec![job("a\u{1b}[2J\n\u{202e}b", 1001, 1)],
        further: 0,
    });
    model.report(evil);
    let text = shown(&mut model);
    assert!(text.contains("a\\u{1b}[2J\\n\\u{202e}b"), "{text}");
    press(&mut model, &[TopKey::Enter]);
    assert!(!shown(&mut model).contains('\u{1b}'));
}

#[test]
fn colours_are_used_only_where_wanted() {
    let colours = |colours: Colours| {
        let mut model = model(9);
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let drawn = terminal
            .draw(|frame| draw::draw(frame, &mut model, colours))
            .unwrap();
        let cells = drawn.buffer.content.iter();
        cells
            .filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
            .count()
    };
    assert_eq!(colours(Colours::Plain), 0);
    assert!(colours(Colours::Coloured) > 50);
}

#[test]
fn screen_before_the_first_report_says_so() {
    let mut model = TopModel::new(LiveData::new(name_of, None), Glyphs::Ascii);
    let lines = screen(&mut model, 80, 24);
    assert_eq!(lines[0], " peal  waiting for the server");
    assert!(lines.iter().all(|line| line.is_ascii()), "{lines:?}");
}

#[test]
fn snapshot_has_all_panes_as_text_and_json() {
    let mut data = LiveData::new(name_of, None);
    (1..=2).for_each(|number| data.apply(report(number)));
    let text = snapshot::text(&data, Glyphs::Ascii);
    eprintln!("{text}");
    for wanted in [
        "peal 0.1.0 on n017, process 4242, serving, up 2h14m",
        "JOBS\nJOB     USER",
        "CODES\nCODE",
        "CHAINS\nCHAIN",
        "DENIALS\nTIME (UTC)",
        "SINKS\nSINK",
        "USERS\nUSER",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(text.is_ascii() && !text.contains("TREND"), "{text}");
    let json = snapshot::json(&data);
    assert_eq!(json["codes"][0]["per_second"], 1.0);
    assert_eq!(json["modules"][0]["calls_per_second"], 1200.0);
    assert_eq!(json["modules"][0]["mean_time_us"], 140.0);
    assert_eq!(json["events"][0]["steps"][1]["owner"]["user"], 1001);
    assert_eq!(json["denials"][0]["hook"], "job-control");
}

#[test]
fn unchanged_sections_stay_and_their_rates_are_zero() {
    let mut data = LiveData::new(name_of, None);
    (1..=2).for_each(|number| data.apply(report(number)));
    assert!(data.events.latest().unwrap() > 1000.0);
    let counts = ActivityCounts {
        at_ms: 8_043_000,
        ..data.counts.clone()
    };
    data.apply(ActivityReport {
        server: None,
        counts: Some(counts),
        jobs: None,
        chains: None,
        modules: None,
        sinks: None,
        users: None,
        further: None,
        denials: Vec::new(),
        passages: Vec::new(),
        missed: ActivityMissed {
            denials: 0,
            passages: 5,
        },
        ..report(3)
    });
    assert_eq!(data.events.latest(), Some(0.0));
    assert_eq!(data.jobs.jobs.len(), 2);
    let watchdog = data.modules.modules.first().unwrap().clone();
    let rate = data.module_rate(&watchdog);
    assert_eq!((rate.calls, rate.mean_us), (0.0, Some(140.0)));
    assert_eq!(data.missed.passages, 5);
}

#[test]
fn rates_are_by_the_time_of_the_counts() {
    let mut data = LiveData::new(name_of, None);
    let at = |number: u64, at_ms: u64, count: u64| ActivityReport {
        counts: Some(ActivityCounts {
            at_ms,
            events: vec![ActivityCodeCount {
                code: code(-3001),
                count,
            }],
            ..ActivityCounts::default()
        }),
        ..report(number)
    };
    data.apply(at(1, 500, 100));
    data.apply(at(2, 1000, 200));
    assert_eq!(data.events.latest(), Some(200.0));
    // No time has passed: the new events belong to the next rate.
    data.apply(at(3, 1000, 250));
    assert_eq!(data.events.latest(), Some(200.0));
    data.apply(at(4, 2000, 300));
    assert_eq!(data.events.latest(), Some(100.0));
    assert_eq!(data.code(-3001).latest(), Some(100.0));
}

#[test]
fn details_of_handler_show_its_events_and_no_others() {
    let mut model = model(1);
    let mut next = report(2);
    // Another handler of the same module.
    for step in next.passages.iter_mut().flat_map(|of| &mut of.steps) {
        if step.handler == "watchdog" {
            step.handler = "another".to_owned();
        }
    }
    model.report(next);
    press(&mut model, &[TopKey::Char('3'), TopKey::Enter]);
    let content = model.content();
    assert_eq!(content.title.as_deref(), Some("Handler watchdog"));
    assert_eq!(content.table.rows.len(), 1, "the event of the first report");
}

#[test]
fn user_is_told_what_is_hidden_and_what_has_no_room() {
    let mut model = model(1);
    let mut own = report(2);
    own.only_user = Some(1001);
    own.passages.iter_mut().for_each(|of| of.steps.clear());
    if let Some(counts) = &mut own.counts {
        counts.uncounted = true;
    }
    if let Some(jobs) = &mut own.jobs {
        jobs.jobs[0].further_procs = 7;
        jobs.jobs[0].status.size = 20;
    }
    own.further = Some(ActivityFurther {
        handlers: 3,
        sinks: 0,
        users: 2,
    });
    model.report(own);
    for (keys, wanted) in [
        ("2", "yours are not counted"),
        ("3", "and 3 more handlers"),
        ("7", "and 2 more users"),
    ] {
        type_text(&mut model, keys);
        let text = shown(&mut model);
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    type_text(&mut model, "4");
    let wide = screen(&mut model, 130, 24).join("\n");
    assert!(wide.contains("no handler of yours"), "{wide}");
    press(&mut model, &[TopKey::Char('1'), TopKey::Enter]);
    let text = shown(&mut model);
    assert!(
        text.contains("and 7 more procs, which") && text.contains("and 5 more procs on other"),
        "{text}"
    );
    let further = &snapshot::json(model.shown())["further"];
    assert_eq!(
        (&further["handlers"], &further["users"]),
        (&3.into(), &2.into())
    );
}

#[test]
fn server_without_admin_socket_shows_no_invented_values() {
    let mut model = TopModel::new(LiveData::new(name_of, Some("s".to_owned())), Glyphs::Ascii);
    let mut known = report(1);
    known.server = None;
    known.passages.iter_mut().for_each(|of| of.steps.clear());
    if let Some(jobs) = &mut known.jobs {
        jobs.jobs[0].status.uid = UNKNOWN_ID;
        jobs.jobs[0].status.gid = UNKNOWN_ID;
    }
    model.report(known);
    let lines = screen(&mut model, 80, 24);
    assert!(
        lines[3].contains("RUNNING") && !lines[3].contains("CONNECTED"),
        "{}",
        lines[3]
    );
    assert!(lines[4].starts_with(" solver  - "), "{}", lines[4]);
    press(&mut model, &[TopKey::Enter]);
    let details = shown(&mut model);
    assert!(
        !details.contains("group") && details.contains("7 running"),
        "{details}"
    );
    press(&mut model, &[TopKey::Char('4')]);
    let content = model.content();
    let cells = &content.table.rows[0].cells;
    let last: Vec<&str> = cells
        .iter()
        .skip(5)
        .map(|cell| cell.text.as_str())
        .collect();
    assert_eq!(last, ["-", "unknown", "-"]);
}

#[test]
fn long_texts_are_cut_to_their_width_in_one_pass() {
    let aligned = |text: &str, width| draw::layout::aligned(text, width, Side::Left, Glyphs::Ascii);
    assert_eq!(aligned("abc", 5), "abc  ");
    assert_eq!(aligned("abcdef", 4), "abc~");
    assert_eq!(aligned("日本語", 4), "日~ ");
    assert_eq!(aligned("日本", 4), "日本");
    assert_eq!(aligned("ab", 1), "~");
    assert_eq!(aligned(&"x".repeat(4 << 20), 3), "xx~");
}
