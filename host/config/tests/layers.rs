//! Tests of the layers: every key is read from every layer, each layer overrides those before it,
//! and the origin of a value is known.
mod support;

use peal_config::{
    Config, ConfigSources, Module, ProblemOrigin, Setting, SettingOverride, SettingsTable, Sink,
    docs,
};
use peal_core::choice::OnAbort;
use peal_sinks::SinkKind;
use std::collections::BTreeSet;
use support::{Site, line, load, with_option, with_variable};

/// Returns the example of a string without its quotes, as in a shell.
fn unquoted(setting: &Setting<Config>) -> &str {
    setting.example.trim_matches('"')
}

/// Returns the column of the last part of a dotted key in a line that begins with it.
fn column(key: &str) -> usize {
    key.rfind('.').map_or(1, |dot| dot + 2)
}

#[test]
fn every_key_is_read_from_file_environment_and_command_line() {
    for setting in Config::ALL {
        let default = setting.value(&Config::default());
        let (section, name) = setting.key.split_once('.').unwrap();
        let file = load(&format!("[{section}]\n{name} = {}\n", setting.example)).unwrap();
        let value = setting.value(&file.config);
        assert_ne!(
            value, default,
            "{}: the example is the default",
            setting.key
        );
        assert_eq!(
            line(file.origin(setting.key)),
            (2, column(name)),
            "{}",
            setting.key
        );

        for text in [setting.example, unquoted(setting)] {
            let variable = setting.variable();
            let environment = with_variable(&variable, text).load().unwrap();
            assert_eq!(
                setting.value(&environment.config),
                value,
                "{variable}={text}"
            );
            assert_eq!(
                environment.origin(setting.key),
                &ProblemOrigin::Environment { variable }
            );
            let option = with_option(&format!("{}={text}", setting.key))
                .load()
                .unwrap();
            assert_eq!(
                setting.value(&option.config),
                value,
                "--set {}={text}",
                setting.key
            );
            let origin = ProblemOrigin::CommandLine {
                option: format!("--set {}", setting.key),
            };
            assert_eq!(option.origin(setting.key), &origin);
        }
        let others = Config::ALL.iter().filter(|other| other.key != setting.key);
        for other in others {
            assert_eq!(
                other.value(&file.config),
                other.value(&Config::default()),
                "{} sets {}",
                setting.key,
                other.key
            );
            assert_eq!(file.origin(other.key), &ProblemOrigin::BuiltIn);
        }
    }
}

#[test]
fn every_key_of_a_module_is_read() {
    for setting in Module::ALL {
        let name = setting.key.strip_prefix("module.").unwrap();
        let needed: String = ["name = \"n\"\n", "path = \"p\"\n"]
            .into_iter()
            .filter(|line| !line.starts_with(&format!("{name} ")))
            .collect();
        let loaded = load(&format!(
            "[[module]]\n{name} = {}\n{needed}",
            setting.example
        ))
        .unwrap();
        let module = &loaded.modules[0];
        // There is one mode so far.
        if setting.key != "module.mode" {
            assert_ne!(
                setting.value(&module.settings),
                setting.value(&Module::default()),
                "{}",
                setting.key
            );
        }
        assert_eq!(
            line(module.at(setting.key)),
            (2, column(name)),
            "{}",
            setting.key
        );
        let unset = Module::ALL
            .iter()
            .filter(|other| module.origin_of(other.key).is_none())
            .count();
        assert!(
            unset >= Module::ALL.len() - 3,
            "{} sets others",
            setting.key
        );
    }
}

#[test]
fn every_key_of_the_example_file_is_read_as_its_default() {
    let commented = docs::example();
    let nothing = load(&commented).unwrap();
    assert_eq!(
        (&nothing.config, nothing.modules.len()),
        (&Config::default(), 0)
    );

    // Settings follow a `#`, comments follow a `#` and a space.
    let settings = commented.lines().map(|line| match line.strip_prefix('#') {
        Some(rest) if !rest.is_empty() && !rest.starts_with(' ') => rest,
        _ => line,
    });
    let all = load(&settings.collect::<Vec<_>>().join("\n")).unwrap();
    for setting in Config::ALL {
        assert!(
            matches!(all.origin(setting.key), ProblemOrigin::File(_)),
            "{} is not in the example",
            setting.key
        );
        let default = setting.value(&Config::default());
        assert!(
            default.is_none() || default == setting.value(&all.config),
            "{} has another default",
            setting.key
        );
    }
    for setting in Module::ALL {
        assert!(
            all.modules[0].origin_of(setting.key).is_some(),
            "{} is not in the example",
            setting.key
        );
    }
    for setting in Sink::ALL {
        let of_some = all
            .sinks
            .iter()
            .find(|sink| sink.origin_of(setting.key).is_some());
        let sink = of_some.unwrap_or_else(|| panic!("{} is not in the example", setting.key));
        assert_ne!(
            setting.value(&sink.settings),
            setting.value(&Sink::default()),
            "{}",
            setting.key
        );
    }
    let kinds: Vec<SinkKind> = all
        .sinks
        .iter()
        .map(|sink| sink.to_open().unwrap().kind)
        .collect();
    assert!(
        matches!(
            kinds[..],
            [
                SinkKind::Syslog(_),
                SinkKind::Mail(_),
                SinkKind::Webhook(_),
                SinkKind::File(_)
            ]
        ),
        "{kinds:?}"
    );
}

#[test]
fn names_are_distinguished_in_every_layer() {
    let keys: BTreeSet<&str> = Config::ALL
        .iter()
        .map(|setting| setting.key)
        .chain(Module::ALL.iter().map(|setting| setting.key))
        .collect();
    assert_eq!(keys.len(), Config::ALL.len() + Module::ALL.len());
    let variables: BTreeSet<String> = Config::ALL.iter().map(Setting::variable).collect();
    assert_eq!(variables.len(), Config::ALL.len());
    assert!(
        variables.contains("PEAL_POLICY_JOB_CONTROL_DEFAULT"),
        "{variables:?}"
    );
    assert!(!variables.contains("PEAL_LOG") && !variables.contains("PEAL_CONFIG"));
}

#[test]
fn each_layer_overrides_those_before_it() {
    let site = Site::new(
        "[events]\nring_size = 1\n\n[server]\nmax_outbox_messages = 11\nmax_connections_per_proc = 21\n\n[run]\non_abort = \"continue\"\n",
    );
    let mut sources = site.sources();
    let cache = |sources: &ConfigSources| {
        let loaded = sources.load().unwrap();
        (
            loaded.config.events.ring_size,
            loaded.origin("events.ring_size").to_string(),
        )
    };
    assert_eq!(
        cache(&ConfigSources::default()),
        (512, "built-in".to_owned())
    );
    assert_eq!(
        cache(&sources),
        (1, format!("{}:2:1", site.file().display()))
    );
    sources
        .environment
        .push(("PEAL_EVENTS_RING_SIZE".into(), "2".into()));
    sources
        .environment
        .push(("PEAL_SERVER_MAX_OUTBOX_MESSAGES".into(), "12".into()));
    assert_eq!(cache(&sources), (2, "PEAL_EVENTS_RING_SIZE".to_owned()));
    sources
        .overrides
        .push(SettingOverride::set("events.ring_size=3").unwrap());
    assert_eq!(cache(&sources), (3, "--set events.ring_size".to_owned()));
    sources
        .overrides
        .push(SettingOverride::set(" events.ring_size = 4 ").unwrap());
    assert_eq!(cache(&sources).0, 4, "the later one counts");
    sources.overrides.push(SettingOverride::option(
        "--on-abort",
        "run.on_abort",
        "terminate".to_owned(),
    ));
    let loaded = sources.load().unwrap();
    assert_eq!(
        (
            loaded.config.server.max_outbox_messages,
            loaded.config.server.max_connections_per_proc
        ),
        (12, 21),
        "each key by itself"
    );
    assert_eq!(
        (
            loaded.config.run.on_abort,
            loaded.origin("run.on_abort").to_string()
        ),
        (OnAbort::Terminate, "--on-abort".into())
    );
}

#[test]
fn the_file_is_found_where_it_is_named_or_where_it_usually_lies() {
    let site = Site::new("[events]\nring_size = 7\n");
    let by_variable = |file: &str| {
        ConfigSources {
            environment: vec![("PEAL_CONFIG".into(), file.into())],
            ..ConfigSources::default()
        }
        .load()
    };
    assert_eq!(
        by_variable(site.file().to_str().unwrap())
            .unwrap()
            .config
            .events
            .ring_size,
        7
    );
    let absent = by_variable("/no/such.toml").unwrap_err().to_string();
    assert!(
        absent.starts_with(
            "cannot read the configuration \"/no/such.toml\": No such file or directory"
        ),
        "{absent}"
    );
    let mut both = site.sources();
    both.environment
        .push(("PEAL_CONFIG".into(), "/no/such.toml".into()));
    assert_eq!(
        both.load().unwrap().files,
        [site.file()],
        "--config comes before PEAL_CONFIG"
    );
    assert!(by_variable("").unwrap().files.is_empty());
    let home = tempfile::tempdir().unwrap();
    let usual = ConfigSources {
        environment: vec![("XDG_CONFIG_HOME".into(), home.path().into())],
        ..ConfigSources::default()
    };
    assert_eq!(
        usual.load().unwrap().config,
        Config::default(),
        "a file that nobody named may be absent"
    );
}

#[test]
fn drop_ins_follow_in_the_order_of_their_names() {
    let site = Site::new("[[module]]\nname = \"main\"\npath = \"main.wasm\"\n");
    site.drop_in(
        "20-two.toml",
        "[[module]]\nname = \"c\"\npath = \"c.wasm\"\n[[module]]\nname = \"d\"\npath = \"/d.wasm\"\n",
    );
    site.drop_in(
        "10-one.toml",
        "name = \"b\"\npath = \"b.wasm\"\n\n[limits]\nmemory_bytes = 65536\n",
    );
    site.drop_in("30-nothing.toml", "# to come\n");
    let loaded = site.load().unwrap();
    let dir = site.dir.path();
    let modules: Vec<_> = loaded
        .modules
        .iter()
        .map(|module| {
            (
                &*module.settings.name,
                module.settings.path.file().unwrap().to_owned(),
            )
        })
        .collect();
    let drop_ins = dir.join("modules.d");
    assert_eq!(
        modules,
        [
            ("main", dir.join("main.wasm")),
            ("b", drop_ins.join("b.wasm")),
            ("c", drop_ins.join("c.wasm")),
            ("d", "/d.wasm".into()),
        ]
    );
    assert_eq!(loaded.modules[1].settings.limits.memory_bytes, 65_536);
    assert_eq!(
        loaded.modules[1]
            .at("module.limits.memory_bytes")
            .to_string(),
        format!("{}:5:1", drop_ins.join("10-one.toml").display())
    );
    assert_eq!(loaded.files.len(), 4);

    site.drop_in(
        "40-wrong.toml",
        "[[module]]\nname = \"main\"\npath = \"x\"\n[server]\nmax_outbox_messages = 3\n",
    );
    let problems = site.load().unwrap_err();
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(
        problems[0]
            .starts_with("modules.d/40-wrong.toml:4:2: \"server\" is in a file of modules.d"),
        "{problems:#?}"
    );
    assert!(
        problems[1].starts_with(
            "modules.d/40-wrong.toml:2:1: module.name is \"main\", as that of peal.toml:2:1"
        ),
        "{problems:#?}"
    );
}

#[test]
fn shown_configuration_reads_back_equal() {
    let mut text = String::new();
    for setting in Config::ALL {
        let (section, name) = setting.key.split_once('.').unwrap();
        text.push_str(&format!("{section}.{name} = {}\n", setting.example));
    }
    text.push_str("[[module]]\n");
    for setting in Module::ALL {
        text.push_str(&format!(
            "{} = {}\n",
            setting.key.strip_prefix("module.").unwrap(),
            setting.example
        ));
    }
    for text in [text.as_str(), ""] {
        let loaded = load(text).unwrap();
        let shown = loaded.view().to_string();
        let again = load(&shown).unwrap_or_else(|problems| panic!("{shown}\n{problems:#?}"));
        assert_eq!(again.config, loaded.config, "{shown}");
        let settings = |loaded: &peal_config::Resolved| {
            loaded
                .modules
                .iter()
                .map(|module| module.settings.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(settings(&again), settings(&loaded), "{shown}");
    }
    let json = serde_json::to_value(load("[events]\nring_size = 9\n").unwrap().view()).unwrap();
    let row = |key: &str| {
        json["settings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["key"] == key)
            .unwrap()
    };
    assert_eq!(
        (
            &row("events.ring_size")["value"],
            &row("events.ring_size")["origin"]["line"]
        ),
        (&9.into(), &2.into())
    );
    assert_eq!(row("events.ring_size")["origin"]["layer"], "file");
    assert_eq!(
        row("server.max_outbox_messages")["origin"]["layer"],
        "built-in"
    );
    assert!(row("store.path")["value"].is_null() && row("store.path")["unset"] == "no store");
}
