//! `peal audit report`: the page for a real server's trail, as a browser shows it.
use peal_model::{Info, Nspace, Proc, Range, Rank, Status, Value, key};
use peal_needs::needs;
use peal_tests::{
    browser,
    daemon::{Daemon, Place},
    guest, peal, run,
};
use std::{path::Path, process::Command};

const NEWS: Status = Status(-3101);
/// Name of a job whose owner attacks readers of the page.
const JOB: &str = "\"><script>document.title='taken'<img>'";

/// Runs a server with at least one entry of each kind in its trail, until it has ended.
async fn served(place: &Place) -> Daemon {
    let dir = place.path("").display().to_string();
    let module = |name: &str, rest: &str| {
        format!(
            "[[module]]\nname = \"{name}\"\npath = \"{}\"\n{rest}\n",
            guest(name).display()
        )
    };
    place.configure(&format!(
        "[audit]\npath = \"{dir}audit.db\"\non_failure = \"deny\"\n{}{}",
        module("same-user", ""),
        module("trap", "codes = [-3101]\ngrants = [\"logging\"]"),
    ));
    let server = place.start();
    server.tell(&["job", "register", JOB, "-n", "1", "-o", "json"]);
    server
}

/// Returns the page for this trail, in a file.
fn report(place: &Place, name: &str, args: &[&str]) -> String {
    let html = place.path(name).display().to_string();
    let config = place.path("peal.toml").display().to_string();
    let report = |args: &[&str]| {
        run(peal(["audit", "report", "--config", &config, "--html", &html]).args(args))
    };
    report(args).expect_status(0);
    // An existing file is not overwritten.
    report(args).expect_status(125);
    html
}

#[needs(prepared, browser)]
#[tokio::test]
async fn report_page_shows_server_activity_and_runs_none_of_it() {
    let place = Place::new();
    let server = served(&place).await;
    let client = server.client(JOB, 0).await;
    client
        .notify(NEWS, Range::Namespace, Vec::new())
        .await
        .unwrap();
    let stranger = Proc::new(Nspace::new("elsewhere").unwrap(), Rank(0));
    let kill = Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true));
    assert!(
        client.job_control(&[stranger], &[kill]).await.is_err(),
        "that is denied"
    );
    drop(client);
    server.tell(&["stop", "--wait"]);
    server.ends();
    let file = report(&place, "report.html", &[]);
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(
        page.contains("same-user")
            && page.contains("failed:")
            && page.contains("&lt;script&gt;document.title"),
        "{page}"
    );
    assert!(
        !page.contains("<script") && !page.contains("<img"),
        "{page}"
    );
    let none = report(&place, "none.html", &["--since", "2999-01-01T00:00:00Z"]);
    assert!(std::fs::read_to_string(none).unwrap().contains("0 records"));
    let browser = browser();
    let net = place.path("net.json");
    let shown = shown(&browser, &file, &net, place.path("profile").as_path());
    // This is the resulting document, as the browser parsed it, not the source text.
    assert!(
        shown.stdout.contains("<title>Audit report</title>"),
        "{}",
        shown.stdout
    );
    assert!(
        !shown.stdout.contains("<script") && !shown.stdout.contains("<img"),
        "{}",
        shown.stdout
    );
    assert_eq!(
        shown.stdout.matches("<table>").count(),
        6,
        "{}",
        shown.stdout
    );
    assert_eq!(
        shown.stdout.matches("<svg").count(),
        shown.stdout.matches("</svg>").count()
    );
    for said in [
        "CONSOLE",
        "Refused to",
        "Content Security Policy",
        "Uncaught",
    ] {
        assert!(!shown.stderr.contains(said), "{}", shown.stderr);
    }
    let log = std::fs::read_to_string(net).unwrap();
    assert!(
        log.contains("\"events\""),
        "this is no network log of a browser"
    );
    assert!(!log.contains("\"url\":\"http"), "{log}");
}

fn shown(browser: &Path, file: &str, net: &Path, profile: &Path) -> peal_tests::Done {
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
    ]);
    command.args([
        "--disable-background-networking",
        "--enable-logging=stderr",
        "--dump-dom",
    ]);
    command
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--log-net-log={}", net.display()));
    run(command.arg(format!("file://{file}"))).expect_status(0)
}
