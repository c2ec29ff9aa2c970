//! Content of the pages in a browser, compared with what the commands say.
use crate::{
    browser::Browser,
    site::{ADMIN, ConsoleSite, REPORT_GRANTS, VIEWER, module},
};
use peal_needs::needs;
use peal_tests::{guest, run};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Code of the events.
pub const CODE: i32 = -3001;

fn told(site: &ConsoleSite, args: &[&str]) -> Value {
    let text = site.daemon.tell(&[args, &["-o", "json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Raises an event as a tool.
pub fn raise(site: &ConsoleSite, code: i32) {
    // A supervisor has no clients.
    let pid = told(site, &["status"])["pid"].to_string();
    let mut command = site.daemon.verb(&["event", "notify", &code.to_string()]);
    command.args(["--range", "namespace", "--pid", &pid]);
    command
        .env("PMIX_SYSTEM_TMPDIR", site.place.path(""))
        .env_remove("PMIX_SERVER_URI");
    run(&mut command).expect_status(0);
}

pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[needs(prepared, browser)]
#[test]
fn overview_shows_live_what_top_says() {
    let site = ConsoleSite::start("");
    site.daemon.tell(&["job", "register", "solver", "-n", "3"]);
    let mut browser = Browser::start(site.address);
    browser.log_in(VIEWER);
    browser.wait_for_row("Jobs", &["solver"]);
    // Without a load of the page.
    site.daemon.tell(&["job", "register", "viewer", "-n", "2"]);
    browser.wait_for_row("Jobs", &["viewer"]);
    browser.wait_until("document.getElementById('live-state').textContent === 'Live'");
    let top = told(&site, &["top", "--once"]);
    let rows = browser.rows("Jobs");
    let jobs = top["jobs"].as_array().unwrap();
    assert_eq!(rows.len(), jobs.len(), "{rows:?}");
    for (row, job) in rows.iter().zip(jobs) {
        let keys = ["size", "connected", "expected", "finalized", "lost"];
        let numbers: Vec<String> = keys.iter().map(|key| text(&job[key])).collect();
        assert_eq!((&row[0], &row[2..7]), (&text(&job["nspace"]), &numbers[..]));
    }
    let server = browser.evaluate("document.querySelector('[data-fragment=server]').textContent");
    let pid = top["server"]["pid"].to_string();
    assert!(
        text(&server).contains(&format!("process {pid}")),
        "{server}"
    );
    // What is held changes from report to report; the resources and their shares do not.
    let users = browser.rows("Users and their quotas");
    let shown: Vec<(&str, &str)> = users.iter().map(|row| (&*row[1], &*row[3])).collect();
    let uses = top["users"]["users"].as_array().unwrap().iter();
    let uses = uses.flat_map(|user| user["resources"].as_array().unwrap());
    let wanted: Vec<(String, String)> = uses
        .map(|of| match &of["share"] {
            Value::Null => (text(&of["resource"]), "no limit".to_owned()),
            share => (text(&of["resource"]), text(share)),
        })
        .collect();
    let wanted: Vec<(&str, &str)> = wanted.iter().map(|(of, share)| (&**of, &**share)).collect();
    assert!(!wanted.is_empty());
    assert_eq!(shown, wanted);
    assert_eq!(browser.problems(), json!([]));
}

#[needs(prepared, browser)]
#[test]
fn event_is_counted_and_its_way_is_drawn() {
    let site = ConsoleSite::start("");
    let mut browser = Browser::start(site.address);
    browser.log_in(VIEWER);
    browser.open("/events");
    let code = CODE.to_string();
    let counted = format!(
        "[...document.querySelectorAll('tbody th')].some((cell) => cell.textContent === '{code}')"
    );
    let began = Instant::now();
    while browser.evaluate(&counted) != json!(true) {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "no event is shown"
        );
        raise(&site, CODE);
    }
    let link = "document.querySelector('[data-fragment=events] a[href^=\"/events/\"]').click()";
    browser.evaluate(link);
    browser.wait_until(
        "location.pathname.startsWith('/events/') && document.readyState === 'complete'",
    );
    let steps = browser.rows("Handlers in the order in which they ran");
    let shown: Vec<(&str, &str)> = steps.iter().map(|row| (&*row[3], &*row[4])).collect();
    assert_eq!(shown[0].0, "report");
    assert!(
        shown[1].0 == "ends" && shown[1].1.starts_with("PMIX_EVENT_ACTION_COMPLETE"),
        "{shown:?}"
    );
    let boxes =
        browser.evaluate("[...document.querySelectorAll('svg text')].map((of) => of.textContent)");
    let boxes: Vec<String> = serde_json::from_value(boxes).unwrap();
    for wanted in ["-3001", "report", "ends"] {
        assert!(
            boxes.iter().any(|text| text == wanted),
            "{wanted}: {boxes:?}"
        );
    }
    assert_eq!(browser.problems(), json!([]));
}

#[needs(prepared, browser)]
#[test]
fn chain_of_a_code_is_what_chain_show_says() {
    let site = ConsoleSite::start_with(
        "",
        &module(
            "aborts",
            &guest("report"),
            "grants = [\"logging\"]\ncodes = [\"PMIX_ERR_PROC_ABORTED\"]",
        ),
    );
    let mut browser = Browser::start(site.address);
    browser.log_in(VIEWER);
    for (code, caption) in [
        ("", "Handlers of all chains"),
        ("-3001", "Way of -3001"),
        ("PMIX_ERR_PROC_ABORTED", ""),
    ] {
        browser.open("/chains");
        browser.evaluate(&format!("document.getElementById('code').value = {code:?}"));
        browser.evaluate("document.querySelector('form[role=search] button').click()");
        browser.wait_until(&format!(
            "location.search === '?code={code}' && document.readyState === 'complete'"
        ));
        let args: &[&str] = if code.is_empty() {
            &["chain", "show"]
        } else {
            &["chain", "show", code]
        };
        let shown = told(&site, args);
        let caption = match caption {
            "" => text(&browser.evaluate("document.querySelector('svg title').textContent")),
            caption => caption.to_owned(),
        };
        let rows = browser.rows(&caption);
        let wanted: Vec<[String; 3]> = shown
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                let position = match &row["position"] {
                    Value::Null => "-".to_owned(),
                    at => at.to_string(),
                };
                [position, text(&row["module"]), text(&row["stands"])]
            })
            .collect();
        let found: Vec<[String; 3]> = rows
            .iter()
            .map(|row| [row[0].clone(), row[3].clone(), row[4].clone()])
            .collect();
        assert_eq!(found, wanted, "{code}");
        let drawn = browser.evaluate("document.querySelectorAll('svg rect').length");
        assert_eq!(drawn, json!(wanted.len() + 1));
    }
    browser.open("/chains?code=PMIX_NO_SUCH_CODE");
    let problem = text(&browser.evaluate("document.querySelector('[role=alert]').textContent"));
    assert!(problem.contains("no such code"), "{problem}");
}

#[needs(prepared, browser)]
#[test]
fn admin_disables_deploys_and_rolls_back_by_keyboard() {
    let site = ConsoleSite::start_with("", "[deploy]\nwatch = false\n");
    let mut browser = Browser::start(site.address);
    browser.log_in(ADMIN);
    let states = |site: &ConsoleSite| -> Vec<(String, String)> {
        let list = told(site, &["module", "list"]);
        let modules = list["modules"].as_array().unwrap();
        modules
            .iter()
            .map(|of| (text(&of["name"]), text(&of["state"])))
            .collect()
    };
    let compare = |browser: &mut Browser| {
        browser.open("/modules");
        let rows = browser.rows("Modules");
        let shown: Vec<_> = rows
            .iter()
            .map(|row| (row[0].clone(), row[3].clone()))
            .collect();
        assert_eq!(shown, states(&site));
        rows
    };
    let rows = compare(&mut browser);
    let reach = |name: &str| {
        rows.iter()
            .find(|row| row[0] == name)
            .map(|row| row[4].clone())
    };
    assert_eq!(
        (reach("report"), reach("ends")),
        (Some("logging".into()), Some("nothing".into()))
    );
    let press = |browser: &mut Browser, button: &str| {
        let focus = format!(
            "(() => {{ const found = [...document.querySelectorAll('button')].find((of) => of.textContent === {button:?}); found.focus(); return true; }})()"
        );
        browser.evaluate(&focus);
        browser.press("Enter", 13);
    };
    press(&mut browser, "Disable ends");
    browser.wait_until("location.pathname === '/modules/change' && document.body.textContent.includes('Nothing was changed yet')");
    assert!(states(&site).contains(&("ends".into(), "active".into())));
    press(&mut browser, "Disable ends");
    browser.wait_until("document.body.textContent.includes('Done.')");
    assert!(states(&site).contains(&("ends".into(), "disabled".into())));
    compare(&mut browser);
    site.place.configure(
        &site
            .configured
            .replace(&module("report", &guest("report"), REPORT_GRANTS), ""),
    );
    let carry_out = |browser: &mut Browser, button: &str| {
        browser.open("/modules");
        press(browser, button);
        browser.wait_until("location.pathname === '/modules/change' && document.body.textContent.includes('Nothing was changed yet')");
        press(browser, button);
        browser.wait_until("document.body.textContent.includes('Done.')");
    };
    let has_report = || states(&site).iter().any(|(name, _)| name == "report");
    carry_out(
        &mut browser,
        "Deploy the modules of the configuration files",
    );
    assert!(!has_report());
    carry_out(&mut browser, "Roll back to version 1");
    assert!(has_report());
    compare(&mut browser);
    let versions = told(&site, &["module", "list"])["versions"].clone();
    let shown = browser.rows("Versions of the module set");
    let wanted: Vec<String> = versions
        .as_array()
        .unwrap()
        .iter()
        .map(|of| text(&of["version"]))
        .collect();
    assert_eq!(
        shown.iter().map(|row| row[0].clone()).collect::<Vec<_>>(),
        wanted
    );
    assert_eq!(browser.problems(), json!([]));
}

#[needs(prepared, browser)]
#[test]
fn denial_appears_as_it_happens() {
    let site = ConsoleSite::start_with("", "[policy]\nmonitor.default = \"deny\"\n");
    let mut browser = Browser::start(site.address);
    browser.log_in(VIEWER);
    browser.open("/denials");
    browser.wait_until("document.getElementById('live-state').textContent === 'Live'");
    let pid = site.daemon.pid().to_string();
    let mut denied = site.daemon.verb(&[
        "monitor",
        "file",
        "peal.toml",
        "--time",
        "1h",
        "--pid",
        &pid,
    ]);
    denied
        .env("PMIX_SYSTEM_TMPDIR", site.place.path(""))
        .env_remove("PMIX_SERVER_URI");
    run(&mut denied).expect_status(1);
    browser.wait_until("document.querySelectorAll('tbody td:nth-child(2)').length === 1");
    let rows = browser.rows("Latest denials");
    assert_eq!(
        (&*rows[0][1], &*rows[0][5]),
        ("monitor", "the default"),
        "{rows:?}"
    );
}

#[needs(prepared, browser)]
#[test]
fn audit_search_finds_what_audit_list_says() {
    let site = ConsoleSite::start("");
    raise(&site, CODE);
    let mut browser = Browser::start(site.address);
    browser.log_in(VIEWER);
    for (query, args) in [
        ("", &[][..]),
        (
            "?kind=call&module=report",
            &["--kind", "call", "--module", "report"],
        ),
    ] {
        let mut list = Vec::new();
        let mut same = || {
            let config = site.place.path("peal.toml");
            let list_all = ["audit", "list", "-o", "json", "--config"];
            let config = [config.to_str().unwrap()];
            let lines = site.daemon.tell(&[&list_all[..], &config, args].concat());
            list = lines
                .lines()
                .map(|line| text(&serde_json::from_str::<Value>(line).unwrap()["seq"]))
                .rev()
                .take(100)
                .collect();
            browser.open(&format!("/audit{query}"));
            let rows = browser.rows("Records, the latest first");
            let shown: Vec<String> = rows.iter().map(|row| row[0].clone()).collect();
            // A record may come between the two.
            shown == list
        };
        peal_tests::until("both show the same records", &mut same);
        assert!(!list.is_empty(), "{query}");
    }
    browser.evaluate("document.querySelector('tbody a').click()");
    browser.wait_until(
        "location.pathname.startsWith('/audit/') && document.readyState === 'complete'",
    );
    let record = text(&browser.evaluate("document.querySelector('pre').textContent"));
    let record: Value = serde_json::from_str(&record).unwrap();
    assert!(record.is_object(), "{record}");
}

#[needs(prepared, browser, root)]
#[test]
fn admin_replays_a_call_and_sees_no_difference() {
    let site = ConsoleSite::start_supervised();
    raise(&site, CODE);
    let mut browser = Browser::start(site.address);
    for (token, may) in [(VIEWER, false), (ADMIN, true)] {
        browser.log_in(token);
        let calls = "document.querySelectorAll('tbody a').length > 0";
        peal_tests::until("the call is recorded", || {
            browser.open("/audit?kind=call&module=report");
            browser.evaluate(calls) == json!(true)
        });
        browser.evaluate("document.querySelector('tbody a').click()");
        browser.wait_until(
            "location.pathname.startsWith('/audit/') && document.readyState === 'complete'",
        );
        let button = browser.evaluate("[...document.querySelectorAll('button')].some((of) => of.textContent === 'Replay the call')");
        assert_eq!(button, json!(may));
        if may {
            browser.evaluate("document.querySelector('main form button').click()");
            browser.wait_until("document.body.textContent.includes('The replay is the same')");
        } else {
            browser.evaluate("document.querySelector('header form button').click()");
            browser.wait_until("location.pathname === '/login'");
        }
    }
}
