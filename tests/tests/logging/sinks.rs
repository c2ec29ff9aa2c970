//! Log requests arrive at a real rsyslog, a real mail server and a file of a site; each once, even
//! if the server dies.
#[path = "../../../host/sinks/tests/support/mod.rs"]
pub(crate) mod peers;

use peal_model::{Info, KeyName, Value, code, key};
use peal_needs::needs;
use peal_tests::{Done, c_program, daemon::Place, guest, in_process::soon, peal, run};
use peers::{
    rsyslog::Rsyslog,
    smtp::{MailServer, Offers},
    until,
};
use rustix::process::Signal;
use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
};

/// Site with every kind of sink.
struct Site {
    place: Place,
    syslog: Rsyslog,
    mail: MailServer,
}

impl Site {
    /// Creates the site: syslog by TLS and by the old protocol on this machine, mail by STARTTLS
    /// with a password.
    fn new() -> Site {
        let place = Place::new();
        let syslog = Rsyslog::started();
        let mail = MailServer::new(
            Offers::StartTls,
            Some(&syslog.certificates),
            Some(("peal", "a secret")),
        );
        let site = Site {
            place,
            syslog,
            mail,
        };
        let password = site.place.path("password");
        fs::write(&password, "a secret\n").unwrap();
        fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
        site.place.configure(&site.configuration(&password));
        site
    }

    fn configuration(&self, password: &Path) -> String {
        let Site {
            place,
            syslog,
            mail,
        } = self;
        let pem = |name: &str| syslog.certificates.file(name);
        format!(
            r#"
[store]
path = {store:?}
[[sink]]
name = "local-syslog"
syslog.address = "unix:{local}"
[[sink]]
name = "global-syslog"
first_retry_delay_ms = 20
max_retry_delay_ms = 100
[sink.syslog]
address = "tls://127.0.0.1:{tls}"
ca = {ca:?}
certificate = {certificate:?}
key = {key:?}
[[sink]]
name = "mail"
first_retry_delay_ms = 20
max_retry_delay_ms = 100
[sink.mail]
server = "127.0.0.1:{port}"
ca = {ca:?}
user = "peal"
password_file = {password:?}
sender = "Peal <peal@peers.test>"
allowed_senders = ["app@peers.test"]
[[sink]]
name = "board"
file.path = {board:?}
[[sink]]
name = "datastore"
file.path = {datastore:?}
[[module]]
name = "record"
path = {record:?}
channels = ["job_record", "global_datastore"]
sinks = ["job-record", "datastore"]
grants = ["sink", "clock"]
[[module]]
name = "stdio"
path = {stdio:?}
channels = ["stdout", "stderr"]
sinks = ["stdout", "stderr"]
grants = ["sink"]
[[module]]
name = "syslog"
path = {syslog:?}
channels = ["local_syslog", "global_syslog", "syslog"]
sinks = ["local-syslog", "global-syslog"]
grants = ["sink", "clock"]
config = {{ hostname = "node1" }}
[[module]]
name = "email"
path = {email:?}
channels = ["email"]
sinks = ["mail"]
grants = ["sink", "clock"]
[[module]]
name = "board"
path = {file:?}
channels = ["site.log.board"]
sinks = ["board"]
grants = ["sink", "clock"]
config = {{ sink = "board" }}
"#,
            store = place.path("store"),
            local = syslog.file("log").display(),
            tls = syslog.tls,
            ca = pem("ca.pem"),
            certificate = pem("client.pem"),
            key = pem("client.key"),
            port = mail.port,
            board = place.path("board.log"),
            datastore = place.path("datastore.jsonl"),
            record = guest("record"),
            stdio = guest("stdio"),
            syslog = guest("syslog"),
            email = guest("email"),
            file = guest("file"),
        )
    }

    /// Runs `peal log` with its server, which is the only one that the tool finds.
    fn log(&self, server: u32, args: &[&str]) -> Done {
        let mut command = peal(["log", "--pid", &server.to_string()]);
        command
            .args(args)
            .env("PMIX_SYSTEM_TMPDIR", self.place.path(""));
        run(&mut command)
    }

    /// Returns the text after the time in each line of the board.
    fn board(&self) -> Vec<String> {
        let text = fs::read_to_string(self.place.path("board.log")).unwrap_or_default();
        text.lines()
            .map(|line| {
                line.split_once(' ')
                    .map_or(line, |(_, rest)| rest)
                    .to_owned()
            })
            .collect()
    }
}

/// Returns the last part of an rsyslog line, and the first.
fn ends(line: &str) -> (String, String) {
    let parts: Vec<&str> = line.splitn(8, '|').collect();
    (parts[0].to_owned(), parts[7].trim_start().to_owned())
}

#[needs(prepared, rsyslog, smtp)]
#[test]
fn message_reaches_each_named_channel_and_forges_nothing() {
    let mut site = Site::new();
    site.mail.start();
    let daemon = site.place.start();
    let pid = daemon.pid();
    let evil = "one\n<13>1 - forged - - - two\x1b[31m\r\n.\nSubject: three";
    let to = [
        "--channel",
        "local_syslog",
        "--channel",
        "global_syslog",
        "--channel",
        "email",
        "--channel",
        "site.log.board",
    ];
    let mail = [
        "--mail-to",
        "Ops <ops@peers.test>",
        "--mail-to",
        "dev@peers.test",
        "--subject",
        "Grüße — 你好",
    ];
    site.log(
        pid,
        &[&to[..], &mail, &["--priority", "local0.err", evil]].concat(),
    )
    .expect_status(0);

    let lines = [
        "one",
        "<13>1 - forged - - - two\\u{1b}[31m\\r",
        ".",
        "Subject: three",
    ];
    for way in ["unix", "tls"] {
        until("all lines are in syslog", || {
            site.syslog.lines(way).len() >= 4
        });
        let found: Vec<_> = site
            .syslog
            .lines(way)
            .iter()
            .map(|line| ends(line))
            .collect();
        assert_eq!(
            found,
            lines.map(|line| ("131".to_owned(), line.to_owned())),
            "{way}"
        );
    }
    let board = site.board();
    assert_eq!(board.len(), 4);
    assert!(
        board
            .iter()
            .zip(lines)
            .all(|(found, line)| found.ends_with(&format!("] {line}"))),
        "{board:?}"
    );
    until("the mail is there", || site.mail.received().len() == 1);
    let [mail] = &site.mail.received()[..] else {
        panic!()
    };
    assert_eq!(
        (&*mail.from, &mail.to[..]),
        (
            "peal@peers.test",
            &["ops@peers.test".to_owned(), "dev@peers.test".to_owned()][..]
        )
    );
    assert_eq!(
        (mail.tls, mail.user.as_deref(), &*mail.subject),
        (true, Some("peal"), "Grüße — 你好")
    );
    assert!(mail.text.contains("one\n<13>1 - forged"), "{}", mail.text);
    assert!(mail.text.contains("\n.\nSubject: three"), "{}", mail.text);

    // The admin chooses what requesters may set. An invalid value is refused with an error.
    let subject = [
        "--channel",
        "email",
        "--mail-to",
        "a@peers.test",
        "--subject",
        "x\r\nBcc: y@peers.test",
        "text",
    ];
    for (args, status, says) in [
        (
            &[
                "--channel",
                "email",
                "--mail-to",
                "a@b",
                "--directive",
                "PMIX_LOG_EMAIL_SERVER=other",
                "x",
            ][..],
            1,
            "PMIX_ERROR",
        ),
        (&subject, 1, "PMIX_ERROR"),
        (
            &[
                "--channel",
                "email",
                "--channel",
                "site.log.board",
                "to nobody",
            ],
            1,
            "PMIX_ERR_PARTIAL_SUCCESS",
        ),
        (
            &[
                "--channel",
                "email",
                "--required",
                "email",
                "--channel",
                "site.log.board",
                "to nobody",
            ],
            1,
            "PMIX_ERROR",
        ),
        (
            &["--channel", "job_record", "who is no proc has no record"],
            1,
            "PMIX_ERROR",
        ),
        (
            &["--channel", "board", "x"],
            2,
            "there is no channel \"board\"",
        ),
        (
            &["--channel", "stderr", "--subject", "s", "x"],
            2,
            "require a mail channel",
        ),
        (
            &["--channel", "site.log.board", "--priority", "loud", "x"],
            2,
            "there is no priority \"loud\"",
        ),
    ] {
        let done = site.log(pid, args).expect_status(status);
        assert!(done.stderr.contains(says), "{args:?}: {}", done.stderr);
    }
    // The result of each channel is reported if not all succeeded.
    let partly = site
        .log(
            pid,
            &[
                "-o",
                "json",
                "--channel",
                "email",
                "--channel",
                "site.log.board",
                "to nobody",
            ],
        )
        .expect_status(1);
    assert!(
        partly.stderr.contains("site.log.board: PMIX_SUCCESS"),
        "{}",
        partly.stderr
    );
    let told: serde_json::Value = serde_json::from_str(&partly.stdout).unwrap();
    assert_eq!(told["channels"]["site.log.board"], 0);
    assert!(
        told["channels"]["pmix.log.email"].as_i64().unwrap() < 0,
        "{told}"
    );
    site.log(
        pid,
        &[
            "--channel",
            "global_syslog",
            "--channel",
            "email",
            "--once",
            "once",
        ],
    )
    .expect_status(0);
    until("the last one is there", || {
        site.syslog.lines("tls").len() == 5
    });
    assert_eq!(site.mail.received().len(), 1);
    // Sinks are opened once.
    let config = fs::read_to_string(site.place.path("peal.toml")).unwrap();
    assert!(!daemon.tell(&["reload"]).contains("sink"));
    site.place
        .configure(&config.replacen("file.path", "file.max_rotated_files = 9\nfile.path", 1));
    assert!(
        daemon.tell(&["reload"]).contains("[[sink]]"),
        "only the next start takes it"
    );
    let stats = daemon.tell(&["stats", "-o", "json"]);
    assert!(
        stats.contains("peal_sink_delivered") && stats.contains("\"sink\": \"mail\""),
        "{stats}"
    );
}

#[needs(prepared, rsyslog, smtp)]
#[test]
fn mail_and_syslog_pending_at_server_kill_arrive_once() {
    let mut site = Site::new();
    site.syslog.stop();
    let daemon = site.place.start();
    let pid = daemon.pid();
    for number in 0..5 {
        let text = format!("message {number}");
        let subject = format!("subject {number}");
        let mail = [
            "--channel",
            "email",
            "--mail-to",
            "ops@peers.test",
            "--subject",
            &subject,
        ];
        site.log(
            pid,
            &[
                &mail[..],
                &[
                    "--channel",
                    "global_syslog",
                    "--channel",
                    "site.log.board",
                    &text,
                ],
            ]
            .concat(),
        )
        .expect_status(0);
    }
    // Neither sink is running, and no request waited for them.
    assert_eq!(site.board().len(), 5);
    daemon.signal(Signal::KILL);
    daemon.ends();
    site.mail.start();
    site.syslog.start();
    let daemon = site.place.start();
    until("all parts are present", || {
        site.mail.received().len() >= 5 && site.syslog.lines("tls").len() >= 5
    });
    site.log(
        daemon.pid(),
        &[
            "--channel",
            "global_syslog",
            "--channel",
            "email",
            "--mail-to",
            "a@peers.test",
            "last",
        ],
    )
    .expect_status(0);
    // An orderly stop delivers all queued messages.
    daemon.tell(&["stop"]);
    assert_eq!(daemon.ends().status, Some(0));
    let mut subjects = site.mail.subjects();
    subjects.sort();
    let wanted: Vec<String> = (0..5).map(|number| format!("subject {number}")).collect();
    assert_eq!(
        subjects,
        [&["Message from a job".to_owned()][..], &wanted].concat()
    );
    let texts: Vec<String> = site
        .syslog
        .lines("tls")
        .iter()
        .map(|line| ends(line).1)
        .collect();
    let wanted: Vec<String> = (0..5)
        .map(|number| format!("message {number}"))
        .chain(["last".to_owned()])
        .collect();
    assert_eq!(texts, wanted);
}

/// Runs `peal run` with a program of the C library at this site.
fn at(site: &Site, how: &str) -> Done {
    let program = c_program("logs");
    let mut command = peal(["run", "--config"]);
    command
        .arg(site.place.path("peal.toml"))
        .arg("--")
        .arg(program)
        .arg(how);
    run(&mut command).expect_status(0)
}

#[needs(prepared, libpmix, rsyslog, smtp)]
#[test]
fn libpmix_program_logs_to_every_channel_with_every_directive() {
    for how in ["all", "later"] {
        let mut site = Site::new();
        site.mail.start();
        let done = at(&site, how);
        let told: Vec<&str> = done
            .stdout
            .lines()
            .filter(|line| line.contains(": ") && line.ends_with(')'))
            .collect();
        let fine = "SUCCESS (0)";
        let missing = "NOT_AVAILABLE (-64)";
        let failed = "ERROR (-1)";
        let partly = "PARTIAL SUCCESS (-52)";
        let wanted = [
            ("pmix.log.stdout", fine),
            ("pmix.log.stderr", fine),
            ("pmix.log.lsys", fine),
            ("pmix.log.gsys", fine),
            ("pmix.log.syslog", fine),
            ("pmix.log.jrec", fine),
            ("pmix.log.gstore", fine),
            ("site.log.board", fine),
            ("priority", fine),
            ("time", fine),
            ("own time", fine),
            ("time output", fine),
            ("tag", fine),
            ("xml", fine),
            ("xml on syslog", failed),
            ("mail", fine),
            ("mail from an allowed sender", fine),
            ("mail from anybody", failed),
            ("mail by another server", failed),
            ("mail to another port", failed),
            ("mail by directives", fine),
            ("both", fine),
            ("once", fine),
            ("once, and one required", fine),
            ("one is missing", partly),
            ("a required one is missing", failed),
            ("neither is there", missing),
            ("a blob", fine),
            ("duplicate", fine),
            ("duplicate", fine),
            ("duplicate", fine),
        ];
        let wanted: Vec<String> = wanted
            .iter()
            .map(|(what, status)| format!("{what}: {status}"))
            .collect();
        assert_eq!(told, wanted, "{how}");
        assert_eq!(done.stderr, "pmix.log.stderr, in C\n");
        for line in [
            "pmix.log.stdout, in C",
            "<stdout>: tag, in C",
            "xml, in C&#010;</stdout>",
        ] {
            assert!(
                done.stdout.lines().any(|found| found.ends_with(line)),
                "{line}: {}",
                done.stdout
            );
        }
        until("rsyslog has written all", || {
            site.syslog.lines("tls").len() >= 9
        });
        let global = |text: &str| {
            site.syslog
                .lines("tls")
                .iter()
                .filter(|line| ends(line).1 == text)
                .count()
        };
        assert_eq!(
            ["both", "once", "once, and one required"].map(global),
            [1, 1, 1]
        );
        let priority = site
            .syslog
            .lines("tls")
            .iter()
            .map(|line| ends(line))
            .find(|line| line.1 == "priority, in C");
        assert_eq!(priority.unwrap().0, "131");
        let time = site
            .syslog
            .lines("tls")
            .into_iter()
            .find(|line| line.ends_with("time, in C"))
            .unwrap();
        assert!(time.contains("|2026-01-05T09:00:00"), "{time}");
        let board: Vec<String> = site
            .board()
            .iter()
            .map(|line| line.split_once("] ").unwrap().1.to_owned())
            .collect();
        let texts = [
            "site.log.board, in C",
            "time output, in C",
            "both",
            "once, and one required",
            "a blob, in C",
            "a fan has failed",
            "2 more of the same: fan / failed",
        ];
        assert_eq!(board, texts);
        let mut subjects = site.mail.subjects();
        subjects.sort();
        assert_eq!(
            subjects,
            ["by directives", "mail", "mail from an allowed sender"]
        );
        assert!(
            site.mail
                .received()
                .iter()
                .all(|mail| mail.text.starts_with("A line.\n.\nAnd one behind a dot."))
        );
    }
}

/// Returns the name of a job as `peal run --events` prints it.
fn job_of(done: &Done) -> String {
    let line = done
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("peal: job "))
        .unwrap();
    line.split(' ').next().unwrap().to_owned()
}

/// Returns the time and the text of each entry.
fn record(site: &Site, job: &str) -> Vec<(String, String)> {
    let mut command = peal(["job", "record", job, "--config"]);
    let printed = run(command.arg(site.place.path("peal.toml")))
        .expect_status(0)
        .stdout;
    let split = |line: &str| (line[..24].trim().to_owned(), line[24..].trim().to_owned());
    printed.lines().map(split).collect()
}

#[needs(prepared, libpmix, rsyslog, smtp)]
#[test]
fn job_record_lists_events_and_logs_in_time_order() {
    let mut site = Site::new();
    site.mail.start();
    let config = site.place.path("peal.toml");
    let program = c_program("logs");
    let mut command = peal(["run", "--events", "-n", "2", "--config"]);
    let script = format!(
        "{} all; test $PMIX_RANK = 1 && kill -9 $$; sleep 1000",
        program.display()
    );
    let done = run(command.arg(&config).args(["--", "sh", "-c", &script]));
    assert_eq!(done.status, Some(137), "{}", done.stderr);
    let job = job_of(&done);
    let entries = record(&site, &job);
    let times: Vec<&String> = entries
        .iter()
        .map(|entry| &entry.0)
        .filter(|time| !time.is_empty())
        .collect();
    // The start and end of a job are known to the second.
    let inner = &times[1..times.len() - 1];
    assert!(inner.is_sorted(), "{times:?}");
    let texts: Vec<&str> = entries.iter().map(|entry| &*entry.1).collect();
    let at = |what: &str| {
        texts
            .iter()
            .position(|text| text.contains(what))
            .unwrap_or_else(|| panic!("{what}: {texts:#?}"))
    };
    assert!(
        texts[0].starts_with("start") && texts[0].contains(&format!("job {job} of 2 procs: sh -c")),
        "{}",
        texts[0]
    );
    assert!(texts[at("pmix.log.jrec, in C")].starts_with("log          0  "));
    let died = at("PMIX_ERR_PROC_ABORTED_BY_SIG from ");
    let ending = at("end: PMIX_ERR_PROC_ABORTED");
    assert!(
        texts[died].starts_with("event        1  ") && texts[ending].starts_with("control"),
        "{texts:#?}"
    );
    assert!(
        at("pmix.log.jrec, in C") < ending && died < ending,
        "{texts:#?}"
    );
    assert!(texts[at("was ended by signal 9")].starts_with("proc"));
    assert_eq!(texts.last(), Some(&"end             exit status 137"));
    let datastore = fs::read_to_string(site.place.path("datastore.jsonl")).unwrap();
    assert!(
        datastore.contains("\"text\":\"pmix.log.gstore, in C\""),
        "{datastore}"
    );

    let json = run(peal(["job", "record", &job, "-o", "json", "--config"]).arg(&config))
        .expect_status(0)
        .stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["size"], &json["exit_status"]),
        (&2.into(), &137.into())
    );
    let logged = json["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["kind"] == "log")
        .unwrap();
    assert_eq!(
        (&logged["rank"], &logged["body"]["text"]),
        (&0.into(), &"pmix.log.jrec, in C".into())
    );
    let missing = run(peal(["job", "record", "nobody", "--config"]).arg(&config))
        .expect_status(125)
        .stderr;
    assert!(
        missing.contains("has no record of job \"nobody\""),
        "{missing}"
    );
}

#[needs(prepared, rsyslog, smtp)]
#[test]
fn launcher_logs_of_its_job_as_requested() {
    let mut site = Site::new();
    site.mail.start();
    let run_with = |args: &[&str], script: &str| {
        let mut command = peal(["run", "--config"]);
        run(command
            .arg(site.place.path("peal.toml"))
            .args(args)
            .args(["--", "sh", "-c", script]))
    };
    let to_board = ["--log-channel", "site.log.board"];
    let kinds = [
        "--log",
        "job",
        "--log",
        "failures",
        "--log-channel",
        "job_record",
        "--events",
    ];
    let done = run_with(&[&kinds[..], &to_board].concat(), "kill -9 $$");
    assert_eq!(done.status, Some(137), "{}", done.stderr);
    let job = job_of(&done);
    let lines = [
        format!("job {job} of 1 proc starts"),
        format!("rank 0 of job {job} was ended by signal 9"),
        format!("job {job} ended with exit status 137"),
    ];
    let board = site.board();
    assert_eq!(board.len(), 3, "{board:?}");
    assert!(
        board
            .iter()
            .zip(&lines)
            .all(|(found, line)| found.ends_with(&format!("] {line}"))),
        "{board:?}"
    );
    let entries = record(&site, &job);
    assert!(
        lines.iter().all(|line| {
            entries
                .iter()
                .any(|entry| entry.1.starts_with("log") && entry.1.contains(line))
        }),
        "{entries:#?}\n{}",
        done.stderr
    );

    run_with(
        &[&["--log", "failures", "--log", "completion"][..], &to_board].concat(),
        "true",
    )
    .expect_status(0);
    assert!(
        site.board()[3].ends_with("ended with exit status 0"),
        "an orderly end is no failure"
    );
    run_with(&[&["--log", "procs"][..], &to_board].concat(), "true").expect_status(0);
    assert!(
        site.board()[4].ends_with("exited with status 0"),
        "{:?}",
        site.board()
    );
    assert_eq!(site.board().len(), 5);
    // The site chooses the recipients of mail.
    let done =
        run_with(&["--log", "completion", "--log-channel", "email"], "true").expect_status(0);
    assert!(
        done.stderr
            .contains("job report not written to all log channels"),
        "the mail has no recipients: {}",
        done.stderr
    );
    let refused = run_with(&["--log", "all"], "true").expect_status(2).stderr;
    assert!(
        refused.contains("possible values: job, completion, procs, failures"),
        "{refused}"
    );
}

#[needs(prepared, rsyslog, smtp)]
#[tokio::test(flavor = "multi_thread")]
async fn full_job_record_is_reported_to_its_writer_only() {
    let site = Site::new();
    let config = fs::read_to_string(site.place.path("peal.toml")).unwrap();
    site.place.configure(&config.replacen(
        "[store]\n",
        "[store]\nmax_bytes = 2097152\nmax_record_bytes_per_job = 262144\n",
        1,
    ));
    let daemon = site.place.start();
    daemon.tell(&["job", "register", "demo"]);
    let client = daemon.client("demo", 0).await;
    let text = "x".repeat(64 << 10);
    let log = async |key: KeyName, text: &str| {
        let data = [Info::new(key, Value::string(text))];
        soon("a request is answered", client.log(&data, &[]))
            .await
            .map(drop)
            .map_err(|error| error.status())
    };
    let mut logged = 0;
    let full = loop {
        match log(key::PMIX_LOG_JOB_RECORD, &text).await {
            Ok(()) => logged += 1,
            Err(status) => break status,
        }
        assert!(logged < 100, "it is never full");
    };
    assert_eq!((full, logged > 0), (code::PMIX_ERROR, true), "{logged}");
    assert_eq!(log(KeyName("site.log.board"), "goes on").await, Ok(()));
    assert_eq!(log(key::PMIX_LOG_LOCAL_SYSLOG, "this too").await, Ok(()));
    let entries = record(&site, "demo")
        .into_iter()
        .filter(|entry| entry.1.starts_with("log"))
        .count();
    assert_eq!(entries, logged);
}

#[needs(prepared, libpmix, rsyslog, smtp)]
#[test]
fn values_of_the_wrong_type_for_every_key_do_no_harm() {
    let mut site = Site::new();
    site.mail.start();
    let done = at(&site, "wrong");
    let requests = 33 * 15 * 2;
    let last: Vec<&str> = done.stdout.lines().rev().take(2).collect();
    assert_eq!(
        last,
        [
            "after all of it: SUCCESS (0)",
            &format!("{requests} requests were answered")
        ]
    );
    let text = fs::read_to_string(site.place.path("board.log")).unwrap();
    assert!(text.ends_with("] after all of it, in C\n"));
    assert!(!text.contains(['\x1b', '\r']));
}

#[needs(prepared, root, smtp)]
#[test]
fn mail_of_one_user_leaves_room_and_turns_for_others() {
    const USERS: [u32; 2] = [65_531, 65_532];
    let place = Place::new();
    fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    let mut mail = MailServer::plain();
    place.configure(&format!(
        "[store]\npath = {:?}\n[[sink]]\nname = \"mail\"\nmax_queue_messages = 16\n\
         first_retry_delay_ms = 20\nmax_retry_delay_ms = 100\n[sink.mail]\nserver = \"127.0.0.1:{}\"\n\
         encryption = \"none\"\nsender = \"peal@peers.test\"\n\
         [[module]]\nname = \"email\"\npath = {:?}\nchannels = [\"email\"]\nsinks = [\"mail\"]\n\
         grants = [\"sink\", \"clock\"]\n",
        place.path("store"),
        mail.port,
        guest("email"),
    ));
    let daemon = place.start();
    for uid in USERS.map(|uid| uid.to_string()) {
        let job = format!("job-of-{uid}");
        daemon.tell(&[
            "job", "register", &job, "-n", "1", "--uid", &uid, "--gid", &uid,
        ]);
    }
    let status = daemon.tell(&["status", "-o", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let uri = status["uri"].as_str().unwrap();
    let send = |uid: u32, subject: &str| {
        let mut log = peal(["log", "--channel", "email", "--mail-to", "ops@peers.test"]);
        log.args(["--subject", subject, "--uri", uri, "text"]);
        run(log.uid(uid).gid(uid).current_dir("/"))
    };
    let [attacker, victim] = USERS;
    // A quarter of the queue is the share of a user.
    for number in 0..4 {
        send(attacker, &format!("attack {number}")).expect_status(0);
    }
    let refused = send(attacker, "one too many");
    assert_ne!(refused.status, Some(0), "{refused:?}");
    assert!(
        refused.stderr.contains("PMIX_ERR_OUT_OF_RESOURCE"),
        "{refused:?}"
    );
    send(victim, "in time").expect_status(0);
    let by_user = daemon.tell(&["stats", "--by-user"]);
    let row = |uid: u32| -> Vec<String> {
        let mut rows = by_user.lines().map(str::split_whitespace);
        let row = rows.find_map(|row| {
            let row: Vec<String> = row.map(str::to_owned).collect();
            (row[..2] == [uid.to_string(), "sink_messages".to_owned()]).then_some(row)
        });
        row.unwrap_or_else(|| panic!("{by_user}"))[2..].to_vec()
    };
    let setting = "sink.max_queue_messages_per_user";
    assert_eq!(row(attacker), ["4", "4", "1", setting]);
    assert_eq!(row(victim), ["1", "4", "0", setting]);
    // A server that takes over delivers them, and charges the same users.
    daemon.signal(Signal::KILL);
    daemon.ends();
    let daemon = place.start();
    until("both users are charged again", || {
        let by_user = daemon.tell(&["stats", "--by-user"]);
        let mut rows = by_user.lines();
        let held = rows.by_ref().filter(|line| line.contains("sink_messages"));
        held.count() == 2
    });
    mail.start();
    until("all mails are there", || mail.received().len() == 5);
    let subjects = mail.subjects();
    let turn = subjects.iter().position(|subject| subject == "in time");
    assert!(turn.is_some_and(|turn| turn <= 1), "{subjects:?}");
}
