//! Tests of refusals: problems are reported all at once, with file, line, column and valid values.
mod support;

use peal_config::{C_NAMES, Config, Module, Setting, SettingsTable, Sink, docs};
use std::collections::BTreeSet;
use support::{load, problem, with_option, with_variable};

/// Returns a word with each letter dropped, doubled, and swapped with the next one.
fn misspellings(word: &str) -> BTreeSet<String> {
    let letters: Vec<char> = word.chars().collect();
    let mut all = BTreeSet::new();
    for at in 0..letters.len() {
        let (before, after) = letters.split_at(at);
        let text = |parts: [&[char]; 3]| parts.concat().into_iter().collect::<String>();
        if let [letter, rest @ ..] = after {
            all.insert(text([before, &[], rest]));
            all.insert(text([before, &[*letter], after]));
        }
        if let [first, second, rest @ ..] = after {
            all.insert(text([before, &[*second, *first], rest]));
        }
    }
    all.remove(word);
    all.remove("");
    all
}

/// Returns a key with each part misspelt in each way, and the part itself. The name of a table is
/// misspelt in the first of its keys only: `tables` has those before.
fn misspelt_keys(key: &str, tables: &mut BTreeSet<String>) -> Vec<(String, String, String)> {
    let parts: Vec<&str> = key.split('.').collect();
    let mut all = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let table = parts.iter().take(at + 1).copied().collect::<Vec<_>>();
        if at + 1 < parts.len() && !tables.insert(table.join(".")) {
            continue;
        }
        for wrong in misspellings(part)
            .into_iter()
            .filter(|wrong| !wrong.starts_with('-') && !wrong.ends_with('-'))
        {
            let changed = parts
                .iter()
                .enumerate()
                .map(|(other, part)| if other == at { wrong.as_str() } else { part });
            let changed = changed.collect::<Vec<_>>().join(".");
            all.push((changed, wrong, (*part).to_owned()));
        }
    }
    all
}

#[test]
fn every_misspelled_key_is_refused_with_nearest_name() {
    let mut tried = 0;
    let mut tables = BTreeSet::new();
    for setting in Config::ALL {
        for (key, wrong, right) in misspelt_keys(setting.key, &mut tables) {
            let told = problem(&format!("# first line\n  {key} = {}\n", setting.example));
            let column = 3 + key.find(&wrong).unwrap();
            assert!(told.starts_with("peal.toml:2:"), "{told}");
            assert!(
                told.contains(&format!("did you mean `{right}`?")),
                "{key}: {told}"
            );
            if !key.contains('.') || key.matches(&wrong).count() == 1 {
                assert!(
                    told.starts_with(&format!("peal.toml:2:{column}: unknown key ")),
                    "{key}: {told}"
                );
            }
            let option = with_option(&format!("{key}={}", setting.example))
                .load()
                .unwrap_err()
                .to_string();
            assert_eq!(
                option,
                format!(
                    "--set {key}: unknown key {key:?}; did you mean `{}`?",
                    setting.key
                )
            );
            tried += 1;
        }
        let name = setting.variable();
        // The names of variables are long, and found by the same code: some are enough.
        let all = misspellings(name.strip_prefix("PEAL_").unwrap());
        for wrong in all.into_iter().step_by(7) {
            let wrong = format!("PEAL_{wrong}");
            let told = with_variable(&wrong, setting.example)
                .load()
                .unwrap_err()
                .to_string();
            assert_eq!(
                told,
                format!("{wrong}: unknown setting; did you mean `{name}`?")
            );
        }
    }
    for setting in Module::ALL {
        for (key, _, right) in
            misspelt_keys(setting.key.strip_prefix("module.").unwrap(), &mut tables)
        {
            let told = load(&format!(
                "[[module]]\n{key} = {}\nname = \"n\"\npath = \"p\"\n",
                setting.example
            ))
            .unwrap_err();
            let told = told
                .iter()
                .find(|line| line.contains("unknown key"))
                .unwrap();
            assert!(
                told.starts_with("peal.toml:2:")
                    && told.contains(&format!("did you mean `{right}`?")),
                "{told}"
            );
            tried += 1;
        }
    }
    assert!(tried > 1500, "{tried}");
}

#[test]
fn a_key_in_the_wrong_place_is_shown_the_right_one() {
    assert_eq!(
        problem("[run]\nring_size = 3\n"),
        "peal.toml:2:1: unknown key \"run.ring_size\"; did you mean `events.ring_size`?"
    );
    assert!(
        problem("[server]\ncolour = 3\n")
            .contains("unknown key \"server.colour\"; known are `user`, `priority`")
    );
    assert!(
        problem("server = 3\n")
            .starts_with("peal.toml:1:10: server is 3; it is a section: write [server]")
    );
    assert!(problem("[module]\nname = \"m\"\n").contains("module is a table; write [[module]]"));
    assert!(problem("module = [1]\n").contains("a module is 1; write [[module]]"));
    let option = with_option("module.name=x").load().unwrap_err().to_string();
    assert!(
        option.contains("a setting of modules; it belongs into a [[module]] table of a file"),
        "{option}"
    );
    let mine = with_variable("PEAL_SITE_PALETTE", "x").load();
    assert!(
        mine.is_ok(),
        "a variable that is nobody's setting is left alone"
    );
    let section = with_variable("PEAL_SERVER_COLOUR", "x")
        .load()
        .unwrap_err()
        .to_string();
    assert_eq!(
        section,
        "PEAL_SERVER_COLOUR: unknown setting; `peal config show` lists all keys"
    );
}

/// Each row: input, position of the problem, and its message.
#[test]
fn wrong_value_is_refused_with_valid_values() {
    for (text, says) in [
        (
            "events.ring_size = 1000001",
            "1:20: events.ring_size is 1000001; it should be a whole number from 0 to 1000000",
        ),
        (
            "events.ring_size = -1",
            "1:20: events.ring_size is -1; it should be a whole number from 0 to 1000000",
        ),
        (
            "events.ring_size = 1.5",
            "1:20: events.ring_size is 1.5; it should be a whole number from 0 to 1000000",
        ),
        (
            "events.ring_size = \"many\"",
            "1:20: events.ring_size is \"many\"; it should be a whole number",
        ),
        (
            "server.max_connections = 0",
            "1:26: server.max_connections is 0; it should be a whole number from 1 to 1000000",
        ),
        (
            "run.grace_ms = 86400001",
            "1:16: run.grace_ms is 86400001; it should be a whole number of milliseconds from 0 to 86400000",
        ),
        (
            "run.on_abort = \"explode\"",
            "1:16: run.on_abort is \"explode\"; it should be \"terminate\" or \"continue\"",
        ),
        (
            "policy.event.default = \"maybe\"",
            "1:24: policy.event.default is \"maybe\"; it should be \"built-in\", \"grant\" or \"deny\"",
        ),
        (
            "cluster.servers = [\"nats://n1\"]",
            "1:20: cluster.servers is \"nats://n1\"; it should be the address of a NATS server, as in \"tls://nats1.example.org:4222\"",
        ),
        (
            "cluster.servers = [\"tls://n1\", \"tls://n1:4222\"]",
            "1:32: cluster.servers names \"tls://n1:4222\" twice",
        ),
        (
            "cluster.name = \"a.b\"",
            "1:16: cluster.name is \"a.b\"; it should be a name of 1 to 63 characters of A-Z, a-z, 0-9, _ and -",
        ),
        (
            "cluster.node = 5",
            "1:16: cluster.node is 5; it should be a name of 1 to 63 characters of A-Z, a-z, 0-9, _ and -",
        ),
        (
            "log.once = 1",
            "1:12: log.once is 1; it should be true or false",
        ),
        (
            "log.order = \"email:maybe\"",
            "1:13: log.order is \"email:maybe\"; it should be names of log channels separated by commas",
        ),
        (
            "log.order = \"email,Email\"",
            "1:13: log.order is \"email,Email\"; it should be names of log channels",
        ),
        ("log.order = \"email,,syslog\"", "1:13: log.order is"),
        (
            "metrics.listen = \"0.0.0.0:9464\"",
            "1:18: metrics.listen is \"0.0.0.0:9464\"; it should be a loopback address",
        ),
        (
            "metrics.listen = \"localhost\"",
            "1:18: metrics.listen is \"localhost\"; it should be a loopback address",
        ),
        (
            "store.path = \"\"",
            "1:14: store.path is \"\"; it should be a path",
        ),
        (
            "admin.group = \"a b\"",
            "1:15: admin.group is \"a b\"; it should be the name of a Unix group",
        ),
        (
            "tools.enable = [true]",
            "1:16: tools.enable is an array; it should be true or false",
        ),
        (
            "sandbox.threads = 0",
            "1:19: sandbox.threads is 0; it should be a whole number from 1 to 1024",
        ),
        (
            "identity.check = 1979-05-27",
            "1:18: identity.check is 1979-05-27; it should be \"process\" or \"user\"",
        ),
    ] {
        assert!(
            problem(text).starts_with(&format!("peal.toml:{says}")),
            "{text}: {}",
            problem(text)
        );
    }
    let module = |line: &str| {
        problem(&format!(
            "[[module]]\nname = \"m\"\npath = \"m.wasm\"\n{line}\n"
        ))
    };
    for (line, says) in [
        (
            "sha256 = \"00\"",
            "4:10: module.sha256 is \"00\"; it should be 64 hexadecimal digits",
        ),
        (
            "codes = [-3001, \"PMIX_ERR_PROC_ABORTED_BY_SIGG\"]",
            "4:17: module.codes: the Standard has no status \"PMIX_ERR_PROC_ABORTED_BY_SIGG\"; did you mean `PMIX_ERR_PROC_ABORTED_BY_SIG`?",
        ),
        (
            "codes = [-3001, -3001]",
            "4:17: module.codes names -3001 twice",
        ),
        (
            "codes = [99999999999]",
            "4:10: module.codes is 99999999999; it should be a number of 32 bits",
        ),
        (
            "codes = -3001",
            "4:9: module.codes is -3001; it should be an array; each element a status",
        ),
        (
            "placement = \"middle\"",
            "4:13: module.placement is \"middle\"; it should be \"first\", \"last\",",
        ),
        (
            "placement = { before = \"a\", after = \"b\" }",
            "4:13: module.placement is a table; it should be",
        ),
        (
            "placement = { beside = \"a\" }",
            "4:13: module.placement is a table; it should be",
        ),
        (
            "grants = [\"logging\", \"netwrk\"]",
            "4:22: module.grants: there is no capability \"netwrk\"; these can be granted: logging, clock, notify, registration, sink",
        ),
        (
            "grants = [\"loging\"]",
            "4:11: module.grants: there is no capability \"loging\"; these can be granted: logging, clock, notify, registration, sink, state, random, wasi (did you mean `logging`?)",
        ),
        (
            "channels = [\"stdot\"]",
            "4:13: module.channels: there is no channel \"stdot\"; did you mean `stdout`?",
        ),
        (
            "channels = [\"pmix.log.syspri\"]",
            "4:13: module.channels: there is no channel \"pmix.log.syspri\"",
        ),
        (
            "sinks = [\"a b\"]",
            "4:10: module.sinks is \"a b\"; it should be \"stdout\", \"stderr\", \"job-record\" or the name of a [[sink]]",
        ),
        (
            "sinks = [\"stdut\"]",
            "4:1: module.sinks: no [[sink]] is called \"stdut\"; did you mean `stdout`?",
        ),
        (
            "on_failure = \"retry\"",
            "4:14: module.on_failure is \"retry\"; it should be \"deny\" or \"pass\"",
        ),
        (
            "scope = \"user\"",
            "4:9: module.scope is \"user\"; it should be \"site\", \"user:NAME\" or \"user:UID\", or \"namespace:NAME\"",
        ),
        (
            "scope = \"user:\"",
            "4:9: module.scope is \"user:\"; it should be \"site\"",
        ),
        (
            "scope = \"user:a b\"",
            "4:9: module.scope is \"user:a b\"; it should be \"site\"",
        ),
        (
            "scope = \"site:here\"",
            "4:9: module.scope is \"site:here\"; it should be \"site\"",
        ),
        (
            "scope = \"namespace:\"",
            "4:9: module.scope is \"namespace:\"; it should be \"site\"",
        ),
        (
            "scope = \"namespace:a\\nb\"",
            "4:9: module.scope is \"namespace:a\\nb\"; it should be \"site\"",
        ),
        (
            "mode = \"dark\"",
            "4:8: module.mode is \"dark\"; it should be \"active\" or \"shadow\"",
        ),
        (
            "limits.memory_bytes = 10",
            "4:23: module.limits.memory_bytes is 10; it should be a whole number from 65536 to",
        ),
        (
            "config = { a = [1] }",
            "4:16: module.config is an array; it should be true, false, a number of 64 bits or a text",
        ),
        (
            "config = 3",
            "4:10: module.config is 3; it should be a table",
        ),
    ] {
        assert!(
            module(line).starts_with(&format!("peal.toml:{says}")),
            "{line}: {}",
            module(line)
        );
    }
    let sink = |lines: &str| problem(&format!("[[sink]]\nname = \"s\"\n{lines}\n"));
    let one_of = "a sink has one of `syslog.address`, `mail.server`, `webhook.url` and `file.path`";
    for (lines, says) in [
        ("", &*format!("2:1: {one_of}")),
        (
            "file.path = \"f\"\nsyslog.address = \"unix:/dev/log\"",
            &format!("3:6: {one_of}; this one has sink.syslog.address"),
        ),
        (
            "file.path = \"f\"\nmail.helo_name = \"h\"",
            "4:6: sink.mail.helo_name does not apply to a sink that has sink.file.path",
        ),
        (
            "file.path = \"f\"\nfile.mode = \"755\"",
            "4:13: sink.file.mode is \"755\"; it should be permissions in octal digits",
        ),
        (
            "syslog.address = \"log:514\"",
            "3:18: sink.syslog.address: \"log:514\" should be the address of a syslog server",
        ),
        (
            "syslog.address = \"tcp://log:514\"\nsyslog.ca = \"ca\"",
            "4:8: sink.syslog.ca is for an address that begins with tls://",
        ),
        (
            "syslog.address = \"tls://log:1\"\nsyslog.key = \"k\"",
            "4:8: a key needs its certificate: sink.syslog.certificate",
        ),
        (
            "mail.server = \"m\"",
            "3:15: sink.mail.server: \"m\" should be a mail server",
        ),
        (
            "mail.server = \"m:25\"",
            "3:6: a sink of mail needs `mail.sender`, an address",
        ),
        (
            "mail.server = \"m:25\"\nmail.sender = \"a@b.c\"\nmail.user = \"u\"",
            "5:6: a user needs a password",
        ),
        (
            "mail.allowed_senders = [\"x\"]",
            "3:25: sink.mail.allowed_senders: \"x\" should be an address",
        ),
        (
            "webhook.url = \"https://u:p@h/\"",
            "3:15: sink.webhook.url: \"https://u:p@h/\" should be the URL of a web service",
        ),
        (
            "webhook.url = \"http://127.0.0.1:8065/x\"",
            "3:9: sink.webhook.url is at \"http://127.0.0.1:8065\"; it should be a URL that begins with https://, unless `http`",
        ),
        (
            "webhook.url = \"http://localhost/x\"\nwebhook.http = \"loopback\"",
            "3:9: sink.webhook.url is at \"http://localhost\"; it should be a URL that begins with https://, or has a loopback",
        ),
        (
            "webhook.url = \"http://[::1]/\"\nwebhook.http = \"loopback\"\nwebhook.token_file = \"t\"",
            "3:9: sink.webhook.url is at \"http://[::1]\"; it should be a URL that begins with https:// if there is a token",
        ),
        (
            "webhook.url = \"http://[::1]/\"\nwebhook.http = \"loopback\"\nwebhook.ca = \"c\"",
            "5:9: sink.webhook.ca is for a URL that begins with https://",
        ),
        (
            "webhook.url = \"https://h/x\"\nwebhook.path_file = \"p\"",
            "3:9: sink.webhook.url is at \"https://h\"; it should be a URL without a path if there is a file with the path",
        ),
        (
            "webhook.url = \"https://h/x\"\nwebhook.headers = [\"Authorization: Bearer x\"]",
            "4:20: sink.webhook.headers: \"Authorization: Bearer x\" should be a header field, NAME: VALUE: secrets",
        ),
        (
            "webhook.url = \"https://h/x\"\nwebhook.format = \"xml\"",
            "4:18: sink.webhook.format is \"xml\"; it should be \"text\" or \"json\"",
        ),
        (
            "webhook.url = \"https://h/x\"\nfile.mode = \"640\"",
            "4:6: sink.file.mode does not apply to a sink that has sink.webhook.url",
        ),
        (
            "first_retry_delay_ms = 9000\nmax_retry_delay_ms = 10\nfile.path = \"f\"",
            "3:1: sink.first_retry_delay_ms is more than",
        ),
        (
            "durability = \"disk\"",
            "3:14: sink.durability is \"disk\"; it should be \"memory\" or \"store\"",
        ),
    ] {
        assert!(
            sink(lines).starts_with(&format!("peal.toml:{says}")),
            "{lines}: {}",
            sink(lines)
        );
    }
    let all = load(
        "[[sink]]\nname = \"s\"\nmail.server = \"m:25\"\nmail.user = \"u\"\nmail.encryption = \"none\"\nfile.max_rotated_files = 1\n\
         first_retry_delay_ms = 9000\nmax_retry_delay_ms = 10",
    )
    .unwrap_err();
    let kinds = [
        "mail.sender",
        "a user needs a password",
        "a password needs an encrypted connection",
        "does not apply to a sink",
        "max_retry_delay_ms",
    ];
    let is_told = |kind: &&str| all.iter().any(|problem| problem.contains(kind));
    assert!(
        all.len() == kinds.len() && kinds.iter().all(is_told),
        "{all:?}"
    );
    assert!(
        problem("[[sink]]\nname = \"stdout\"\n")
            .starts_with("peal.toml:2:8: sink.name is \"stdout\"; it should be")
    );
    let twice =
        "[[sink]]\nname = \"s\"\nfile.path = \"a\"\n[[sink]]\nname = \"s\"\nfile.path = \"b\"\n";
    assert!(
        problem(twice).starts_with("peal.toml:5:1: sink.name is \"s\", as that of peal.toml:2:1")
    );
    assert_eq!(
        problem("[[module]]\npath = \"m\"\n")
            .split("; ")
            .next()
            .unwrap(),
        "peal.toml:1:1: a module needs `name`, a name of at most 511 bytes, without control characters"
    );
    assert!(
        problem("[[module]]\nname = \"m\"\n")
            .starts_with("peal.toml:1:1: a module needs `path`, a path")
    );
    assert!(
        problem("[[module]]\nname = \"\"\npath = \"p\"\n")
            .contains("2:8: module.name is \"\"; it should be a name")
    );
    let mut no_text = with_variable("PEAL_STORE_PATH", "");
    no_text.environment.push((
        "PEAL_STORE_PATH".into(),
        std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]),
    ));
    let no_text = no_text.load().unwrap_err().to_string();
    assert!(
        no_text.ends_with("PEAL_STORE_PATH: store.path is no UTF-8; it should be a path"),
        "{no_text}"
    );
    let variable = with_variable("PEAL_EVENTS_RING_SIZE", "many")
        .load()
        .unwrap_err()
        .to_string();
    assert_eq!(
        variable,
        "PEAL_EVENTS_RING_SIZE: events.ring_size is \"many\"; it should be a whole number from 0 to 1000000"
    );
}

#[test]
fn share_above_the_whole_is_refused_with_the_most_it_may_be() {
    let told = problem("[log]\nmax_queue_requests = 10\nmax_queue_requests_per_user = 11\n");
    assert_eq!(
        told,
        "peal.toml:3:1: log.max_queue_requests_per_user is 11; it should be at most 10: log.max_queue_requests is 10"
    );
    let records = "[store]\nmax_bytes = 1048576\nmax_record_bytes = 65536\nmax_record_bytes_per_user = 65537\n";
    assert_eq!(
        problem(records),
        "peal.toml:4:1: store.max_record_bytes_per_user is 65537; it should be at most 65536: store.max_record_bytes is 65536"
    );
    assert!(
        load("[store]\nmax_bytes = 1048576\n[log]\nmax_queue_requests = 1\n").is_ok(),
        "shares follow from the whole"
    );
}

#[test]
fn all_errors_are_reported_at_once_across_layers() {
    let site = support::Site::new(
        "[server]\noutbx = 1\nmax_connections_per_proc = 0\n\n[[module]]\npath = \"p\"\nplaec = \"first\"\n",
    );
    site.drop_in("m.toml", "name = \"m\"\npath = \"p\"\nsha256 = 3\n");
    let mut sources = site.sources();
    sources
        .environment
        .push(("PEAL_RUN_ON_ABORT".into(), "explode".into()));
    sources
        .overrides
        .push(peal_config::SettingOverride::set("log.onec=true").unwrap());
    let problems = sources.load().unwrap_err().0;
    assert_eq!(problems.len(), 7, "{problems:#?}");
}

#[test]
fn invalid_toml_is_refused_with_its_position() {
    let told = load("[run]\non_abort = \n[server\noutbox = 1\noutbox = 2\n").unwrap_err();
    assert!(
        told.len() >= 2 && told[0].starts_with("peal.toml:2:"),
        "{told:#?}"
    );
    let twice = problem("[server]\nmax_outbox_messages = 1\nmax_outbox_messages = 2\n");
    assert!(twice.starts_with("peal.toml:3:1: duplicate key"), "{twice}");
    let deep = problem(&format!(
        "a = {}{}\n",
        "[".repeat(10_000),
        "]".repeat(10_000)
    ));
    assert!(deep.starts_with("peal.toml:1:"), "{deep}");
    let line = problem("# \u{fc}ber\nlog = { \u{22}\u{fc}\u{22} = 1 }\n");
    assert!(
        line.starts_with("peal.toml:2:9: unknown key \"log.\u{fc}\""),
        "columns count characters: {line}"
    );
    let many = load(&"[[module]]\n".repeat(500)).unwrap_err();
    assert_eq!(many.len(), 100, "there is an end to it");
    let long = support::Site::new(&"#\n".repeat(3 << 20))
        .load()
        .unwrap_err();
    assert!(long[0].contains("bytes, 4194304 are allowed"), "{long:#?}");
}

#[test]
fn module_behind_the_last_reported_problem_is_flawed() {
    let many = "unknown = 1\n";
    let text: String = (0..100).map(|at| format!("a{at}{many}")).collect();
    let site = support::Site::new(&format!(
        "{text}[[module]]\nname = \"flawed\"\npath = 5\n[[module]]\nname = \"sound\"\npath = \"sound.wasm\"\n"
    ));
    let check = site.sources().check();
    assert_eq!(check.problems.len(), 100);
    let flawed: Vec<(&str, bool)> = check
        .resolved
        .modules
        .iter()
        .map(|module| (module.settings.name.as_str(), module.is_flawed()))
        .collect();
    assert_eq!(flawed, [("flawed", true), ("sound", false)]);
}

#[test]
fn every_setting_beside_a_name_of_openpmix_exists() {
    let rows: BTreeSet<&str> = C_NAMES.iter().map(|name| name.c).collect();
    assert_eq!(rows.len(), C_NAMES.len(), "a name stands there twice");
    for name in C_NAMES {
        if let Some(key) = name.setting {
            assert!(
                Setting::<Config>::of(key).is_some(),
                "{} names {key}, which is no setting",
                name.c
            );
        } else {
            assert!(
                !name.note.is_empty(),
                "{} does not say why there is none",
                name.c
            );
        }
        let mentioned = name
            .note
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|word| word.contains('.'));
        for key in mentioned {
            let is_of_sinks = Setting::<Sink>::of(key).is_some();
            assert!(
                is_of_sinks || Setting::<Config>::of(key).is_some(),
                "{} mentions {key}, which is no setting",
                name.c
            );
        }
    }
}

#[test]
fn generated_documents_match_settings_table() {
    let docs_dir =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference");
    for (file, verb, text) in [
        ("peal.example.toml", "example", docs::example()),
        ("settings.md", "reference", docs::reference()),
    ] {
        let there = std::fs::read_to_string(docs_dir.join(file)).unwrap_or_default();
        assert!(
            there == text,
            "{file} is stale: cargo run -p peal -- config {verb} > docs/src/reference/{file}"
        );
    }
}
