//! Use of the pages without a script, by keyboard, by screen readers, on phones, and under load.
use crate::{
    browser::Browser,
    http::{connect, get},
    pages::{CODE, raise, text},
    site::{ADMIN, ConsoleSite, VIEWER},
};
use peal_model::{Range, Status};
use peal_needs::needs;
use peal_tests::{provided, test_servers};
use serde_json::json;
use std::{
    fs,
    io::{Read, Write},
    time::{Duration, Instant},
};

/// Addresses of all pages that any server has.
const PAGES: [&str; 6] = ["/", "/events", "/chains", "/modules", "/denials", "/audit"];

#[needs(prepared, browser)]
#[test]
fn paused_page_stays_until_it_goes_on() {
    let site = ConsoleSite::start("");
    let mut browser = Browser::start(site.address);
    browser.log_in(VIEWER);
    browser.wait_until("document.getElementById('live-state').textContent === 'Live'");
    browser.evaluate("document.getElementById('pause').click()");
    site.daemon.tell(&["job", "register", "solver", "-n", "3"]);
    // The stream has told it, and the page does not show it.
    raise(&site, CODE);
    let seen = "new Promise((seen) => {
        const stream = new EventSource('/live/overview');
        stream.addEventListener('fragments', (event) => {
            if (event.data.includes('solver')) { stream.close(); seen(true); }
        });
    })";
    assert_eq!(browser.evaluate(seen), json!(true));
    assert!(browser.rows("Jobs").iter().all(|row| row[0] != "solver"));
    browser.evaluate("document.getElementById('pause').click()");
    browser.wait_for_row("Jobs", &["solver"]);
}

#[needs(prepared, browser)]
#[test]
fn page_beyond_the_watchers_says_so_and_tries_again() {
    const STATE: &str = "document.getElementById('live-state').textContent";
    let site = ConsoleSite::start("max_watchers = 1\n");
    let request = get("/live/overview").with("authorization", format!("Bearer {VIEWER}"));
    let mut other = connect(site.address);
    other.write_all(&request.bytes(site.address)).unwrap();
    other.read_exact(&mut [0; 12]).unwrap();
    let mut browser = Browser::start(site.address);
    browser.log_in(VIEWER);
    browser.wait_until(&format!("{STATE}.startsWith('Not live: 1 page')"));
    for _ in 0..2 {
        browser.evaluate("document.getElementById('pause').click()");
        let state = text(&browser.evaluate(STATE));
        assert!(state.starts_with("Not live: "), "{state}");
    }
    drop(other);
    browser.wait_until(&format!("{STATE} === 'Live'"));
}

#[needs(prepared, browser)]
#[test]
fn page_that_nobody_sees_opens_no_stream() {
    let site = ConsoleSite::start("");
    let mut browser = Browser::start(site.address);
    let source = "window.isHidden = true; window.opened = 0;
        Object.defineProperty(Document.prototype, 'hidden', { get: () => isHidden });
        window.EventSource = class extends EventSource { constructor(of) { super(of); opened += 1; } };";
    let watch = json!({ "source": source });
    browser.call("Page.addScriptToEvaluateOnNewDocument", watch);
    browser.log_in(VIEWER);
    assert_eq!(browser.evaluate("opened"), json!(0));
    browser.evaluate("isHidden = false; document.dispatchEvent(new Event('visibilitychange'))");
    browser.wait_until("document.getElementById('live-state').textContent === 'Live'");
    assert_eq!(browser.evaluate("opened"), json!(1));
}

#[needs(prepared, browser)]
#[test]
fn pages_work_without_script() {
    let site = ConsoleSite::start("");
    site.daemon.tell(&["job", "register", "solver", "-n", "3"]);
    let mut browser = Browser::start(site.address);
    browser.log_in(VIEWER);
    let off = json!({ "value": true });
    browser.call("Emulation.setScriptExecutionDisabled", off);
    browser.open("/");
    assert_eq!(browser.rows("Jobs")[0][0], "solver");
    let hidden = browser.evaluate("document.getElementById('pause').hidden");
    assert_eq!(hidden, json!(true), "a button that does nothing is shown");
}

#[needs(prepared, browser, axe)]
#[test]
fn pages_have_no_barriers_in_both_schemes_and_on_phones() {
    let axe = test_servers().join("axe/package/axe.min.js");
    let axe = fs::read_to_string(provided(axe)).unwrap();
    let site = ConsoleSite::start("");
    site.daemon.tell(&["job", "register", "solver", "-n", "3"]);
    let mut browser = Browser::start(site.address);
    let check = |browser: &mut Browser, page: &str, scheme: &str| {
        browser.open(page);
        browser.evaluate(&format!("{axe}; true"));
        let found = browser.evaluate(
            "axe.run().then((run) => run.violations.map((of) => `${of.id}: ${of.nodes[0].html} ${of.nodes[0].failureSummary}`))",
        );
        assert_eq!(found, json!([]), "{page} {scheme}");
    };
    for scheme in ["light", "dark"] {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.call("Emulation.setEmulatedMedia", media);
        check(&mut browser, "/login", scheme);
        browser.log_in(ADMIN);
        raise(&site, CODE);
        for page in PAGES.into_iter().chain([
            "/chains?code=-3001",
            "/modules/change?verb=deploy",
            "/audit/1",
        ]) {
            check(&mut browser, page, scheme);
        }
    }
    let phone = json!({ "width": 360, "height": 640, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", phone);
    for page in PAGES {
        browser.open(page);
        let width = browser.evaluate("document.documentElement.scrollWidth");
        assert!(width.as_u64().unwrap() <= 360, "{page} is {width} wide");
    }
}

#[needs(prepared, browser)]
#[test]
fn tab_key_reaches_links_with_visible_focus() {
    let site = ConsoleSite::start("");
    let mut browser = Browser::start(site.address);
    browser.log_in(VIEWER);
    let mut reached = Vec::new();
    for _ in 0..8 {
        browser.press("Tab", 9);
        let at = browser.evaluate(
            "[document.activeElement.textContent, getComputedStyle(document.activeElement).outlineStyle, document.activeElement.getBoundingClientRect().left >= 0]",
        );
        assert_eq!((&at[1], &at[2]), (&json!("solid"), &json!(true)), "{at}");
        reached.push(text(&at[0]));
    }
    let wanted = [
        "Skip to the content",
        "Overview",
        "Events",
        "Chains",
        "Modules",
        "Denials",
        "Audit trail",
        "Log out",
    ];
    assert_eq!(reached, wanted);
}

#[needs(prepared, browser)]
#[test]
fn two_thousand_events_a_second_do_not_freeze_the_page() {
    /// Events a second, and seconds.
    const RATE: u32 = 2000;
    const SECONDS: u32 = 5;
    let site = ConsoleSite::start("");
    site.daemon.tell(&["job", "register", "solver", "-n", "1"]);
    let mut browser = Browser::start(site.address);
    browser.log_in(VIEWER);
    browser.open("/events");
    browser.wait_until("document.getElementById('live-state').textContent === 'Live'");
    browser.evaluate(
        "(() => { window.longest = 0; window.changes = 0; let last = performance.now();
            const frame = (now) => { longest = Math.max(longest, now - last); last = now; requestAnimationFrame(frame); };
            requestAnimationFrame(frame);
            new MutationObserver(() => { changes += 1; }).observe(document.querySelector('[data-fragment=events]'), { childList: true });
        })()",
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let raised = runtime.block_on(async {
        let client = site.daemon.client("solver", 0).await;
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        let began = Instant::now();
        let mut raised = 0;
        while raised < RATE * SECONDS {
            tick.tick().await;
            let due = u32::try_from(began.elapsed().as_millis()).unwrap() * RATE / 1000;
            for _ in raised..due.min(RATE * SECONDS) {
                client
                    .raise(Status(CODE), Range::Namespace, Vec::new())
                    .await
                    .unwrap();
            }
            raised = due.min(RATE * SECONDS);
        }
        let took = began.elapsed();
        client.finalize().await.unwrap();
        assert!(
            took < Duration::from_secs(2 * u64::from(SECONDS)),
            "{took:?}"
        );
        raised
    });
    let count = format!(
        "[...document.querySelectorAll('[data-fragment=codes] tr')].some((row) => row.cells[0].textContent === '{CODE}' && row.cells[2].textContent === '{raised}')"
    );
    browser.wait_until(&count);
    let seen = browser.evaluate("[longest, changes]");
    let (longest, changes) = (seen[0].as_f64().unwrap(), seen[1].as_u64().unwrap());
    assert!(longest < 1000.0, "a frame took {longest} ms");
    assert!(
        (2..=u64::from(12 * SECONDS)).contains(&changes),
        "{changes} changes"
    );
    assert_eq!(browser.problems(), json!([]));
}
