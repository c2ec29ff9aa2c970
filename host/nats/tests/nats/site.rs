//! Files of a cluster: what is made, what stays, and which requests are refused.
use crate::support::{node, prepared};
use peal_config::{ConfigSources, NatsAddress};
use peal_nats::{
    ClusterAccess, ClusterSite, NodeKey, SiteError, SiteFileChange, SiteRequest, plan_site,
    prepare_site,
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

const SERVER: &str = "tls://nats1.example.org:4222";

fn server(text: &str) -> NatsAddress {
    text.parse().unwrap()
}

fn request(directory: &Path) -> SiteRequest {
    SiteRequest {
        directory: directory.to_owned(),
        name: None,
        servers: Vec::new(),
        nodes: Vec::new(),
        deployers: Vec::new(),
    }
}

/// Returns all files below a directory with their contents.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found.sort();
    found
}

fn config(site: &ClusterSite) -> Value {
    let text = fs::read_to_string(site.server_config_file(&site.servers[0])).unwrap();
    let json: String = text.lines().filter(|line| !line.starts_with('#')).collect();
    serde_json::from_str(&json).unwrap()
}

#[test]
fn node_has_exactly_the_permissions_that_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let site = prepared(dir.path(), vec![server(SERVER)]);
    let config = config(&site);
    let users = config["accounts"]["PEAL"]["users"].as_array().unwrap();
    let keys: Vec<&str> = users
        .iter()
        .map(|user| user["nkey"].as_str().unwrap())
        .collect();
    assert_eq!(
        keys,
        [
            &site.administrator,
            &site.nodes[&node("a")],
            &site.nodes[&node("b")]
        ]
    );
    assert_eq!(
        users[1]["permissions"],
        json!({
            "publish": [
                "peal.site.from.a.all",
                "peal.site.from.a.to.*",
                "peal.site.members.a",
                "peal.site.verdicts.a",
                "peal.site.seals.a",
                "peal.site.readiness.a",
                "peal.site.objects.a.*.*",
                "peal.site.ask.*.a",
                "peal.site.inbox.*.a.*",
                "peal.site.deployments.a",
                "$JS.API.STREAM.INFO.PEAL_site_MEMBERS",
                "$JS.API.STREAM.MSG.GET.PEAL_site_MEMBERS",
                "$JS.API.STREAM.INFO.PEAL_site_SEALS",
                "$JS.API.STREAM.MSG.GET.PEAL_site_SEALS",
                "$JS.API.STREAM.INFO.PEAL_site_MODULES",
                "$JS.API.STREAM.MSG.GET.PEAL_site_MODULES",
                "$JS.API.STREAM.INFO.PEAL_site_OBJECTS",
                "$JS.API.STREAM.MSG.GET.PEAL_site_OBJECTS",
                "$JS.API.CONSUMER.INFO.PEAL_site_MEMBERS.sequenced",
            ],
            "subscribe": [
                "peal.site.from.*.all",
                "peal.site.from.*.to.a",
                "peal.site.sequenced",
                "peal.site.stored.*.*",
                "peal.site.ask.a.*",
                "peal.site.inbox.a.>",
            ],
        })
    );
    // Only a is a deployer.
    let publish = users[2]["permissions"]["publish"].as_array().unwrap();
    assert!(publish.contains(&json!("peal.site.readiness.b")));
    assert!(!publish.contains(&json!("peal.site.deployments.b")));
}

#[test]
fn secrets_are_readable_by_their_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("new/site");
    prepared(&directory, vec![server(SERVER)]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    let mut secrets = 0;
    for (path, text) in files(&directory) {
        let is_secret = text.starts_with("SU") || text.contains("PRIVATE KEY");
        secrets += usize::from(is_secret);
        let expected = if is_secret { 0o600 } else { 0o644 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    // The authority, the server, the administrator, two nodes.
    assert_eq!(secrets, 5);
}

#[test]
fn later_request_adds_node_and_keeps_every_key() {
    let dir = tempfile::tempdir().unwrap();
    let site = prepared(dir.path(), vec![server(SERVER)]);
    let before = files(dir.path());
    // The same again changes nothing.
    assert_eq!(prepared(dir.path(), vec![server(SERVER)]), site);
    assert_eq!(files(dir.path()), before);
    // A seed that was moved to its node is not made anew.
    let moved = site.node_directory(&node("a"));
    fs::remove_dir_all(&moved).unwrap();
    fs::remove_file(site.administrator_seed()).unwrap();
    // So is the certificate of a NATS server, for which the authority's key is not needed then.
    let machine = site.server_directory(&site.servers[0]);
    fs::remove_dir_all(&machine).unwrap();
    fs::remove_file(dir.path().join("ca.key")).unwrap();
    let more = prepare_site(&SiteRequest {
        nodes: vec![node("a"), node("c")],
        ..request(dir.path())
    })
    .unwrap();
    assert!(!moved.exists() && !site.administrator_seed().exists());
    assert!(machine.join("nats-server.conf").exists() && !machine.join("server.key").exists());
    assert_eq!(more.administrator, site.administrator);
    let mut nodes = more.nodes.clone();
    let seed = more.node_directory(&node("c")).join("node.seed");
    let key = NodeKey::read(&seed).unwrap().public();
    assert_eq!(nodes.remove(&node("c")), Some(key.clone()));
    assert_eq!(nodes, site.nodes);
    assert_eq!(ClusterSite::read(dir.path()).unwrap(), more);
    for (path, text) in files(dir.path()) {
        let old = before.iter().find(|(old, _)| *old == path);
        if let Some((_, old)) = old
            && path
                .extension()
                .is_some_and(|kind| ["pem", "key", "seed"].iter().any(|name| kind == *name))
        {
            assert_eq!(*old, text, "{}", path.display());
        }
    }
    let users = config(&more)["accounts"]["PEAL"]["users"].take();
    assert_eq!(users.as_array().unwrap().len(), 4);
    assert_eq!(users[3]["nkey"], key.as_str());
}

#[test]
fn plan_names_the_files_that_a_request_changes() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("site");
    let first = SiteRequest {
        name: Some("site".parse().unwrap()),
        servers: vec![server(SERVER)],
        nodes: vec![node("a"), node("a")],
        ..request(&directory)
    };
    let more = SiteRequest {
        nodes: vec![node("b")],
        deployers: vec![node("b")],
        ..request(&directory)
    };
    let servers = SiteRequest {
        servers: [1, 2]
            .map(|n| server(&format!("tls://nats{n}{n}.example.org")))
            .into(),
        ..request(&directory)
    };
    let mut before = Vec::new();
    for request in [&first, &more, &more, &servers] {
        let planned = plan_site(request).unwrap();
        let found = directory.exists().then(|| files(&directory));
        assert_eq!(found.unwrap_or_default(), before);
        let made = prepare_site(request).unwrap();
        let after = files(&directory);
        let change =
            |(path, text): &(PathBuf, String)| match before.iter().find(|(old, _)| old == path) {
                None => Some(SiteFileChange::Created(path.clone())),
                Some((_, old)) if old != text => Some(SiteFileChange::Replaced(path.clone())),
                Some(_) => None,
            };
        let changes: Vec<_> = after.iter().filter_map(change).collect();
        assert_eq!(planned.changes, changes);
        assert_eq!(planned.site.servers, made.servers);
        assert!(planned.site.nodes.keys().eq(made.nodes.keys()));
        before = after;
    }
    // Files that do not belong together are refused in both.
    fs::remove_file(directory.join("ca.pem")).unwrap();
    let error = plan_site(&more).unwrap_err().to_string();
    assert!(error.contains("ca.key is there and"), "{error}");
    assert_eq!(prepare_site(&more).unwrap_err().to_string(), error);
}

#[test]
fn node_without_line_in_description_loses_access() {
    let dir = tempfile::tempdir().unwrap();
    let site = prepared(dir.path(), vec![server(SERVER)]);
    let path = dir.path().join("cluster.toml");
    let text = fs::read_to_string(&path).unwrap();
    let line = format!("a = \"{}\"\n", site.nodes[&node("a")]);
    assert!(text.contains(&line), "{text}");
    fs::write(&path, text.replace(&line, "")).unwrap();
    let less = prepare_site(&request(dir.path())).unwrap();
    assert_eq!(less.nodes.keys().collect::<Vec<_>>(), [&node("b")]);
    assert!(!config(&less).to_string().contains(&site.nodes[&node("a")]));
}

#[test]
fn section_of_a_node_is_valid_in_the_sites_file() {
    let dir = tempfile::tempdir().unwrap();
    let site = prepared(dir.path(), vec![server(SERVER)]);
    let file = dir.path().join("peal.toml");
    let section = site.node_directory(&node("a")).join("cluster.toml");
    fs::copy(&section, &file).unwrap();
    let sources = ConfigSources {
        file: Some(file),
        ..ConfigSources::default()
    };
    let config = sources.load_sections(&["cluster"]).unwrap().config;
    let access = ClusterAccess::from_settings(&config.cluster, "ignored")
        .unwrap()
        .unwrap();
    assert_eq!((&access.cluster, &access.node), (&site.name, &node("a")));
    assert_eq!(access.servers, site.servers);
    assert_eq!(access.credentials, dir.path().join("cluster/node.seed"));
    assert_eq!(access.ca, Some(dir.path().join("cluster/ca.pem")));
}

#[test]
fn incomplete_sections_are_refused_by_key() {
    let told = |text: &str, hostname: &str| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("peal.toml");
        fs::write(&file, text).unwrap();
        let sources = ConfigSources {
            file: Some(file),
            ..ConfigSources::default()
        };
        let config = sources.load_sections(&["cluster"]).unwrap().config;
        match ClusterAccess::from_settings(&config.cluster, hostname) {
            Ok(access) => access
                .map(|access| access.node.to_string())
                .unwrap_or_default(),
            Err(error) => error.to_string(),
        }
    };
    let servers = "[cluster]\nservers = [\"tls://n1\"]\n";
    let named = format!("{servers}name = \"site\"\n");
    let whole = format!("{named}credentials = \"seed\"\n");
    assert_eq!(told("", "n1"), "");
    assert!(told("cluster.name = \"site\"", "n1").starts_with("cluster.servers is not set"));
    assert!(told(servers, "n1").starts_with("cluster.name is not set"));
    assert!(told(&named, "n1").starts_with("cluster.credentials is not set"));
    assert_eq!(told(&whole, "n1.example.org"), "n1");
    assert_eq!(told(&format!("{whole}node = \"n2\"\n"), "n1"), "n2");
    assert!(told(&whole, "é").ends_with("Set cluster.node"));
}

#[test]
fn wrong_requests_write_nothing_and_say_what_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let whole = |directory: &Path| SiteRequest {
        name: Some("site".parse().unwrap()),
        servers: vec![server(SERVER)],
        nodes: vec![node("a")],
        ..request(directory)
    };
    let fresh = dir.path().join("fresh");
    let two = vec![server(SERVER), server("tls://nats2")];
    for (request, says) in [
        (
            SiteRequest {
                name: None,
                ..whole(&fresh)
            },
            "--name NAME",
        ),
        (
            SiteRequest {
                servers: Vec::new(),
                ..whole(&fresh)
            },
            "--server tls://HOST:4222",
        ),
        (
            SiteRequest {
                nodes: Vec::new(),
                ..whole(&fresh)
            },
            "--node NODE",
        ),
        (
            SiteRequest {
                servers: two,
                ..whole(&fresh)
            },
            "would have 2 NATS servers; 1, 3, 5, 7 or 9 are right",
        ),
        (
            SiteRequest {
                servers: vec![server("tls://nats1:65000")],
                ..whole(&fresh)
            },
            "the limit is 63535",
        ),
    ] {
        let error = prepare_site(&request).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert!(!fresh.exists(), "{error}");
    }
    let error = ClusterSite::read(&fresh).unwrap_err();
    assert!(matches!(error, SiteError::NoCluster { .. }), "{error}");
    prepare_site(&whole(&fresh)).unwrap();
    let before = files(&fresh);
    let other = SiteRequest {
        name: Some("other".parse().unwrap()),
        ..whole(&fresh)
    };
    let error = prepare_site(&other).unwrap_err().to_string();
    assert!(error.contains("holds cluster site, not other"), "{error}");
    assert_eq!(files(&fresh), before);
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let site = prepared(dir.path(), vec![server(SERVER)]);
    let again = || {
        prepare_site(&SiteRequest {
            nodes: vec![node("a")],
            ..request(dir.path())
        })
    };
    let told = || again().unwrap_err().to_string();
    let seeds = ["a", "b"].map(|name| site.node_directory(&node(name)).join("node.seed"));
    let own = fs::read(&seeds[0]).unwrap();
    fs::copy(&seeds[1], &seeds[0]).unwrap();
    assert!(
        told().contains("put the seed of that key back"),
        "{}",
        told()
    );
    fs::write(&seeds[0], own).unwrap();
    again().unwrap();
    let key = site.server_directory(&site.servers[0]).join("server.key");
    let away = dir.path().join("away");
    fs::rename(&key, &away).unwrap();
    let named = prepare_site(&SiteRequest {
        servers: vec![server(SERVER)],
        ..request(dir.path())
    });
    let told_of_pair = named.unwrap_err().to_string();
    assert!(told_of_pair.contains("server.key is not"), "{told_of_pair}");
    fs::rename(&away, &key).unwrap();
    // The authority's key may be kept elsewhere until there is something to sign.
    fs::rename(dir.path().join("ca.key"), &away).unwrap();
    again().unwrap();
    let more = prepare_site(&SiteRequest {
        servers: vec![server("tls://nats2"), server("tls://nats3")],
        ..request(dir.path())
    });
    assert!(
        more.unwrap_err()
            .to_string()
            .contains("ca.key: there is no such file")
    );
    assert_eq!(ClusterSite::read(dir.path()).unwrap().servers, site.servers);
    let path = dir.path().join("cluster.toml");
    let text = fs::read_to_string(&path).unwrap();
    for (from, to, says) in [
        ("name = \"site\"", "name = \"a.b\"", "no name of a cluster"),
        ("name = \"site\"", "nome = \"site\"", "nome"),
        ("tls://", "nats://", "no address of a NATS server"),
        (
            "administrator = \"U",
            "administrator = \"X",
            "administrator has \"X",
        ),
    ] {
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).unwrap();
        assert!(told().contains(says), "{says}: {}", told());
    }
}
