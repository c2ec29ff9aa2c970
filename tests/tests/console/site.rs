//! Server with a console.
use crate::http::{Answer, post};
use peal_tests::{
    daemon::{Daemon, Place},
    guest,
};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
};

/// Tokens of viewers and administrators.
pub const VIEWER: &str = "0123456789abcdef-viewer";
pub const ADMIN: &str = "0123456789abcdef-admin";

/// Grants of the first module.
pub const REPORT_GRANTS: &str = "grants = [\"logging\"]";

/// Server with a console, two handlers and an audit trail.
pub struct ConsoleSite {
    pub place: Place,
    pub daemon: Daemon,
    pub address: SocketAddr,
    /// Text of its configuration.
    pub configured: String,
}

/// Returns the address at which the console of a server listens, once after each start of the console.
#[track_caller]
pub fn console_address(daemon: &mut Daemon) -> SocketAddr {
    daemon
        .printed("the web console listens at ")
        .parse()
        .unwrap()
}

/// Writes a file that only its owner may read. Its owner is that of the directory, as the server's user is.
pub fn write_secret(place: &Place, name: &str, text: &str) {
    use std::os::unix::fs::MetadataExt;
    let path = place.path(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let dir = fs::metadata(place.path(".")).unwrap();
    chown(&path, Some(dir.uid()), Some(dir.gid())).unwrap();
}

/// Returns the settings of a console with tokens in a directory. The system chooses its port.
pub fn settings(place: &Place) -> String {
    settings_at(place, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

/// Returns the settings of such a console at this address.
pub fn settings_at(place: &Place, address: SocketAddr) -> String {
    write_secret(place, "token", &format!("{VIEWER}\n"));
    write_secret(place, "admin-token", &format!("{ADMIN}\n"));
    format!(
        "[console]\nlisten = \"{address}\"\ntoken_file = {:?}\nadmin_token_file = {:?}\n",
        place.path("token"),
        place.path("admin-token"),
    )
}

/// Returns a `[[module]]`.
pub fn module(name: &str, component: &Path, more: &str) -> String {
    format!("[[module]]\nname = {name:?}\npath = {component:?}\n{more}\n")
}

/// Returns the modules of the site.
pub fn modules() -> String {
    let report = module("report", &guest("report"), REPORT_GRANTS);
    report + &module("ends", &guest("complete"), "")
}

impl ConsoleSite {
    /// Starts a server with further settings of the console.
    pub fn start(console: &str) -> ConsoleSite {
        ConsoleSite::start_with(console, "")
    }

    /// Starts a server with further settings of the console, and others.
    pub fn start_with(console: &str, others: &str) -> ConsoleSite {
        ConsoleSite::start_at(Place::new(), console, others, Place::configure)
    }

    fn start_at(
        place: Place,
        console: &str,
        others: &str,
        configure: impl Fn(&Place, &str),
    ) -> ConsoleSite {
        let console = settings(&place) + console;
        let audit = place.path("audit.db");
        let store = place.path("store.db");
        let configured = format!(
            "{console}\n[audit]\npath = {audit:?}\non_failure = \"deny\"\n[store]\npath = {store:?}\n{others}\n{}",
            modules()
        );
        configure(&place, &configured);
        let mut daemon = place.start();
        let address = console_address(&mut daemon);
        ConsoleSite {
            configured,
            place,
            daemon,
            address,
        }
    }

    /// Starts a supervised server, which can have calls replayed.
    pub fn start_supervised() -> ConsoleSite {
        let place = Place::of_server_user();
        ConsoleSite::start_at(place, "", "", Place::configure_supervised)
    }

    /// Logs in, and returns the cookie.
    #[track_caller]
    pub fn log_in(&self, token: &str) -> String {
        let form = format!("token={token}");
        let answer: Answer = post("/login", &form).send(self.address).expect(303);
        answer.cookie()
    }
}
