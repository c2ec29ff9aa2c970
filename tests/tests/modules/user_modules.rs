//! Modules of users and of jobs: modules that a user installs for all of their jobs, modules for
//! jobs of certain names, and the bounds on both.
use peal_needs::needs;
use peal_server::admin::{ChainOwner, ModuleList};
use peal_tests::{
    daemon::{Daemon, Place},
    guest, until,
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
};

/// Returns a user that is not root; without root, the user of the tests.
fn user() -> u32 {
    let me = rustix::process::geteuid();
    if me.is_root() { 1234 } else { me.as_raw() }
}

fn give(path: &Path) {
    chown(path, Some(user()), None).unwrap();
}

/// Starts a server with a directory in which users install modules. Returns that of one user, too.
fn installing(place: &Place) -> (Daemon, PathBuf) {
    let below = place.path("users");
    let own = place.path("users/own");
    fs::create_dir(&below).unwrap();
    fs::create_dir(&own).unwrap();
    fs::set_permissions(&own, Permissions::from_mode(0o755)).unwrap();
    give(&own);
    place.configure(&format!(
        "[deploy]\ndebounce_ms = 20\nuser_modules_dir = {below:?}\n[tenant]\nmax_modules = 2\n"
    ));
    (place.start(), own)
}

/// Writes a file there as its user.
fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    let new = path.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::set_permissions(&new, Permissions::from_mode(0o644)).unwrap();
    give(&new);
    fs::rename(new, path).unwrap();
}

/// Waits until this holds for the list of modules.
fn shows(place: &Place, what: &str, holds: impl Fn(&ModuleList) -> bool) -> ModuleList {
    let mut list = place.modules();
    until(what, || {
        list = place.modules();
        holds(&list)
    });
    list
}

/// Returns names, states and owners.
fn shown(list: &ModuleList) -> Vec<(String, String, ChainOwner)> {
    list.modules
        .iter()
        .map(|module| {
            (
                module.name.clone(),
                module.state.to_string(),
                module.owner.clone(),
            )
        })
        .collect()
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn user_module_belongs_to_user_within_limits_of_tenants() {
    let place = Place::new();
    let (daemon, own) = installing(&place);
    put(&own.join("report.wasm"), fs::read(guest("report")).unwrap());
    let report = "name = \"report\"\npath = \"report.wasm\"\ngrants = [\"logging\"]\n";
    put(&own.join("report.toml"), report);
    let title = format!("{}/report", user());
    let active = [(title.clone(), "active".to_owned(), ChainOwner::User(user()))];
    shows(&place, "it is compiled, and runs", |list| {
        shown(list) == active
    });

    let other = |rest: &str| {
        format!("name = \"other\"\npath = \"report.wasm\"\ngrants = [\"logging\"]\n{rest}\n")
    };
    put(
        &place.path("outside.wasm"),
        fs::read(guest("report")).unwrap(),
    );
    symlink(place.path("outside.wasm"), own.join("link.wasm")).unwrap();
    for (rest, why) in [
        (
            other("scope = \"site\""),
            "module.scope is a setting of the site; remove it",
        ),
        (
            other("files = [{ name = \"all\", path = \"/\" }]"),
            "module.files is a setting of the site",
        ),
        (
            other("limits.call_time_ms = 60000"),
            "limits.call_time_ms is more than a user's module may have, which is 100",
        ),
        (other("").replace("report.wasm", "link.wasm"), "cannot read"),
        (
            other("").replace("report.wasm", "/etc/passwd"),
            "a component of a user lies beside its .toml",
        ),
        (
            other("").replace("report.wasm", "../../outside.wasm"),
            "a component of a user lies beside its .toml",
        ),
        (
            other("").replace("[\"logging\"]", "[\"logging\", \"sink\"]"),
            "cannot be granted \"sink\"",
        ),
        (
            other("").replace("\"other\"", "\"report\""),
            "there are two modules \"report\"",
        ),
    ] {
        put(&own.join("zz.toml"), &rest);
        let told = |list: &ModuleList| {
            list.refused
                .iter()
                .any(|refused| refused.uid == user() && refused.why.contains(why))
        };
        let list = shows(&place, why, told);
        assert_eq!(list.modules.len(), 1, "the previous modules stay: {list:?}");
    }
    let shown_all = daemon.tell(&["module", "list"]);
    let refused = format!("modules of user {} refused", user());
    assert!(shown_all.contains(&refused), "{shown_all}");
    let reloaded = daemon.tell(&["module", "reload"]);
    assert!(
        reloaded.starts_with(&refused) && reloaded.contains("there are two modules"),
        "{reloaded}"
    );
    let status = daemon.ask(&["status"]).expect_status(1).stdout;
    assert!(
        status.contains(&format!("\nTROUBLE      user-modules: {refused}")),
        "{status}"
    );

    // There are no more modules than tenant.max_modules.
    put(&own.join("zz.toml"), other(""));
    shows(&place, "there are two", |list| list.modules.len() == 2);
    put(
        &own.join("zzz.toml"),
        other("").replace("\"other\"", "\"third\""),
    );
    shows(&place, "a third is refused", |list| {
        list.refused.iter().any(|refused| {
            refused
                .why
                .contains("would have more than 2 modules (tenant.max_modules)")
        })
    });
    fs::remove_file(own.join("zzz.toml")).unwrap();
    // Files that other users can write are ignored.
    fs::set_permissions(own.join("zz.toml"), Permissions::from_mode(0o666)).unwrap();
    let exposed = |list: &ModuleList| {
        list.refused
            .iter()
            .any(|refused| refused.why.contains("be writable by them alone"))
    };
    shows(
        &place,
        "files that other users can write are refused",
        exposed,
    );
    fs::remove_file(own.join("zz.toml")).unwrap();
    shows(&place, "one is left", |list| {
        list.modules.len() == 1 && list.refused.is_empty()
    });

    daemon.tell(&["module", "disable", &title]);
    assert_eq!(
        shown(&place.modules()),
        [(
            title.clone(),
            "disabled".to_owned(),
            ChainOwner::User(user())
        )]
    );
    daemon.tell(&["module", "enable", &title]);
    fs::remove_dir_all(&own).unwrap();
    shows(&place, "all is gone", |list| list.modules.is_empty());
    daemon.tell(&["stop", "--wait"]);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_some_names_have_modules_while_they_are_there() {
    let place = Place::new();
    place.configure(&format!(
        "[[module]]\nname = \"complete\"\npath = {:?}\nscope = \"namespace:render-*\"\n",
        guest("complete")
    ));
    let daemon = place.start();
    let states = || shown(&place.modules());
    let of = |job: &str, state: &str| {
        (
            "complete".to_owned(),
            state.to_owned(),
            ChainOwner::Namespace(job.to_owned()),
        )
    };
    assert_eq!(states(), [of("render-*", "waiting")]);
    daemon.tell(&["job", "register", "other", "-n", "1"]);
    assert_eq!(states(), [of("render-*", "waiting")]);
    daemon.tell(&["job", "register", "render-1", "-n", "1"]);
    assert_eq!(
        states(),
        [of("render-1", "active")],
        "it is there when the job is registered"
    );
    daemon.tell(&["job", "register", "render-2", "-n", "1"]);
    assert_eq!(
        states(),
        [of("render-1", "active"), of("render-2", "active")]
    );
    let chains = daemon.tell(&["chain", "show"]);
    assert!(
        chains.contains("namespace render-1") && chains.contains("namespace render-2"),
        "{chains}"
    );
    daemon.tell(&["job", "deregister", "render-1"]);
    assert_eq!(states(), [of("render-2", "active")]);
    daemon.tell(&["job", "deregister", "render-2"]);
    assert_eq!(states(), [of("render-*", "waiting")]);
    daemon.tell(&["stop", "--wait"]);
}
