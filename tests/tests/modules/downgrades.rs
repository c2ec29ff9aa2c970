//! Versions in signatures: servers refuse a version that is older than the one that ran, unless an
//! admin says so.
use crate::artifacts::signed;
use peal_needs::needs;
use peal_tests::daemon::{Daemon, Place};

/// Writes the configuration of a server that requires signatures by this key.
fn configure(place: &Place, public: &str, more: &str) {
    place.configure(&format!(
        "[deploy]\nwatch = false\n[store]\npath = {store:?}\n[modules]\nrequire_signature = [\"site\"]\ntrusted_keys = [{public:?}]\n\
         [[module]]\nname = \"report\"\npath = {component:?}\ngrants = [\"logging\"]\n{more}\n",
        store = place.path("store.db"),
        component = place.path("echo.wasm"),
    ));
}

fn refusal(daemon: &Daemon) -> String {
    daemon.ask(&["reload"]).expect_status(125).stderr
}

#[needs(prepared)]
#[test]
fn older_version_is_refused_unless_admin_allows_it() {
    let place = Place::new();
    let (public, _) = signed(&place, &["--version", "1.2.0"]);
    configure(&place, &public, "");
    let daemon = place.start();
    // The same component, which counts as what the signature says.
    signed(&place, &["--version", "1.1.0"]);
    let older = refusal(&daemon);
    assert!(
        older.contains("module report is version 1.1.0, and version 1.2.0 ran")
            && older.contains("min_version = \"1.1.0\""),
        "{older}"
    );
    signed(&place, &[]);
    let none = refusal(&daemon);
    assert!(
        none.contains("is signed without a version, and version 1.2.0 ran"),
        "{none}"
    );
    // Across a restart: the version that ran is in the store.
    daemon.tell(&["stop", "--wait"]);
    drop(daemon);
    signed(&place, &["--version", "1.1.0"]);
    let daemon = place.start();
    let troubles = daemon.ask(&["status"]).expect_status(1).stdout;
    assert!(troubles.contains("version 1.2.0 ran"), "{troubles}");
    configure(&place, &public, "min_version = \"1.1.0\"");
    daemon.tell(&["reload"]);
    configure(&place, &public, "min_version = \"1.1.1\"");
    let least = refusal(&daemon);
    assert!(
        least.contains("module report is version 1.1.0; the minimum is 1.1.1"),
        "{least}"
    );
    signed(&place, &["--version", "1.3.0"]);
    daemon.tell(&["reload"]);
}
