//! Access to the console by tokens and sessions, and what each of them may do.
use crate::{
    http::{Answer, connect, get, post},
    site::{ADMIN, ConsoleSite, VIEWER, settings, write_secret},
};
use peal_needs::needs;
use peal_store::{Store, StoreSettings};
use peal_tests::{daemon::Place, finish};
use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    time::{Duration, Instant},
};

/// Pages that need rights.
const PAGES: [&str; 9] = [
    "/",
    "/events",
    "/events/0",
    "/chains",
    "/modules",
    "/modules/change?verb=deploy",
    "/denials",
    "/audit",
    "/live/overview",
];

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Returns the token in the forms of a page.
#[track_caller]
fn form_token(page: &Answer) -> String {
    let (_, after) = page
        .body
        .split_once("name=\"form_token\" value=\"")
        .unwrap();
    after.split('"').next().unwrap().to_owned()
}

#[needs(prepared)]
#[test]
fn nothing_is_shown_without_right_token() {
    let site = ConsoleSite::start("");
    for page in PAGES {
        let answer = get(page).send(site.address).expect(401);
        assert!(!answer.body.contains("report"), "{page}: {answer:?}");
        let browser = get(page).with("accept", "text/html,*/*");
        let answer = browser.send(site.address).expect(303);
        assert_eq!(answer.field("location"), Some("/login"), "{page}");
    }
    let cookie = get("/").with("cookie", "peal-console=0123");
    cookie.send(site.address).expect(401);
    for wrong in ["Bearer nonsense", "Bearer ", "Basic abc", VIEWER] {
        let answer = get("/").with("authorization", wrong);
        answer.send(site.address).expect(401);
    }
    let answer = post("/login", "token=nonsense").send(site.address);
    let answer = answer.expect(401);
    assert!(answer.body.contains("The token is wrong.") && answer.field("set-cookie").is_none());
    for page in ["/login", "/console.css", "/console.js"] {
        get(page).send(site.address).expect(200);
    }
    site.daemon.tell(&["stop", "--wait"]);
    let trace = site.daemon.ends().stderr;
    let wrong = trace.lines().filter(|line| line.contains("wrong token"));
    let senders: Vec<bool> = wrong.map(|line| line.contains("127.0.0.1")).collect();
    assert_eq!(senders, [true; 5], "{trace}");
}

#[needs(prepared)]
#[test]
fn token_opens_pages_and_session_ends_at_logout() {
    let site = ConsoleSite::start("");
    let answer = get("/modules").with("authorization", bearer(VIEWER));
    let answer = answer.send(site.address).expect(200);
    assert!(answer.body.contains("report"), "{answer:?}");
    let answer = post("/login", &format!("token={VIEWER}")).send(site.address);
    let answer = answer.expect(303);
    let field = answer.field("set-cookie").unwrap();
    assert!(field.contains("; HttpOnly; SameSite=Strict"), "{field}");
    let cookie = answer.cookie();
    let page = get("/").with("cookie", &*cookie).send(site.address);
    let page = page.expect(200);
    let own = format!("http://{}", site.address);
    let log_out = |form: &str| {
        let out = post("/logout", form).with("cookie", &*cookie);
        out.with("origin", &*own).send(site.address)
    };
    log_out("form_token=wrong").expect(403);
    log_out(&format!("form_token={}", form_token(&page))).expect(303);
    get("/")
        .with("cookie", &*cookie)
        .send(site.address)
        .expect(401);
}

#[needs(prepared)]
#[test]
fn answers_forbid_foreign_content_frames_and_copies() {
    let site = ConsoleSite::start("");
    for (page, kept) in [
        ("/", "no-store"),
        ("/login", "no-store"),
        ("/console.js", "no-cache"),
    ] {
        let answer = get(page).with("authorization", bearer(VIEWER));
        let answer = answer.send(site.address).expect(200);
        let policy = answer.field("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"));
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.field("referrer-policy"), Some("same-origin"));
        assert_eq!(answer.field("cache-control"), Some(kept), "{page}");
        for inline in ["<style", " style=", " onclick=", "http://", "https://"] {
            assert!(!answer.body.contains(inline), "{page}: {inline}");
        }
    }
    let script = get("/console.js").send(site.address);
    let tag = script.field("etag").unwrap();
    let again = get("/console.js").with("if-none-match", tag);
    again.send(site.address).expect(304);
}

#[needs(prepared)]
#[test]
fn names_that_lead_to_loopback_are_refused() {
    let site = ConsoleSite::start("");
    for host in [
        "evil.example",
        "evil.example:80",
        "192.0.2.1",
        "localhost.evil.example",
    ] {
        let rebound = get("/")
            .with("host", host)
            .with("authorization", bearer(VIEWER));
        rebound.send(site.address).expect(421);
        let form = post("/login", &format!("token={VIEWER}")).with("host", host);
        form.send(site.address).expect(421);
    }
    let named = get("/")
        .with("host", "localhost:1")
        .with("authorization", bearer(VIEWER));
    named.send(site.address).expect(200);
}

#[needs(prepared)]
#[test]
fn change_needs_admin_token_own_form_and_own_origin() {
    let site = ConsoleSite::start("");
    let disable = "verb=disable&name=ends";
    let state = || {
        let list = site.place.modules();
        let found = list.modules.iter().find(|module| module.name == "ends");
        found.unwrap().state.to_string()
    };
    for change in [disable, "verb=deploy", "verb=rollback&to=1"] {
        let viewer = post("/modules/change", change).with("authorization", bearer(VIEWER));
        viewer.send(site.address).expect(403);
        let page = get(&format!("/modules/change?{change}"));
        let page = page.with("authorization", bearer(VIEWER));
        page.send(site.address).expect(403);
    }
    let cookie = site.log_in(ADMIN);
    let page = get(&format!("/modules/change?{disable}")).with("cookie", &*cookie);
    let page = page.send(site.address).expect(200);
    assert!(
        page.body
            .contains("module &quot;ends&quot; would be disabled"),
        "{page:?}"
    );
    let form = format!("{disable}&form_token={}", form_token(&page));
    let own = format!("http://{}", site.address);
    for (form, origin) in [
        (disable, &*own),
        ("verb=disable&name=ends&form_token=wrong", &*own),
        (&*form, "http://evil.example"),
        (&*form, "null"),
        (&*form, "http://127.0.0.1:1"),
    ] {
        let forged = post("/modules/change", form).with("cookie", &*cookie);
        let answer = forged.with("origin", origin).send(site.address);
        assert_eq!(answer.status, 403, "{form} {origin}");
    }
    let other = site.log_in(ADMIN);
    let forged = post("/modules/change", &form).with("cookie", &*other);
    forged.with("origin", &*own).send(site.address).expect(403);
    let unknown = post("/modules/change", &form).with("cookie", &*cookie);
    unknown.send(site.address).expect(403);
    assert_eq!(state(), "active");
    let real = post("/modules/change", &form).with("cookie", &*cookie);
    real.with("origin", &*own).send(site.address).expect(200);
    assert_eq!(state(), "disabled");
    // The server has recorded on whose behalf it was, and nothing of what was only read.
    site.daemon.tell(&["stop", "--wait"]);
    let store = Store::open(&site.place.path("store.db"), StoreSettings::default()).unwrap();
    let calls = store.admin_calls(100).unwrap();
    let verbs: Vec<&str> = calls.iter().map(|record| &*record.call.verb).collect();
    assert_eq!(
        verbs,
        [
            "stop",
            "disable module \"ends\" (for \"the web console: the token of administrators, from 127.0.0.1\")"
        ]
    );
}

#[needs(prepared)]
#[test]
fn more_live_pages_than_allowed_are_refused_with_reason() {
    let site = ConsoleSite::start("max_watchers = 3\n");
    let open = || {
        let mut stream = connect(site.address);
        let request = get("/live/overview").with("authorization", bearer(VIEWER));
        stream.write_all(&request.bytes(site.address)).unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).unwrap();
        (String::from_utf8_lossy(&begin).into_owned(), stream)
    };
    let live: Vec<_> = (0..3).map(|_| open()).collect();
    assert!(live.iter().all(|(begin, _)| begin == "HTTP/1.1 200"));
    let answer = get("/live/events").with("authorization", bearer(VIEWER));
    let answer = answer.send(site.address).expect(503);
    assert!(answer.body.contains("(console.max_watchers)"), "{answer:?}");
    // The page itself is shown all the same, and the server has one watcher.
    let page = get("/events").with("authorization", bearer(VIEWER));
    page.send(site.address).expect(200);
    let quotas = site.daemon.tell(&["stats", "--by-user", "-o", "json"]);
    let quotas: serde_json::Value = serde_json::from_str(&quotas).unwrap();
    let users = quotas["users"].as_array().unwrap().iter();
    let uses = users.flat_map(|user| user["resources"].as_array().unwrap());
    let watchers: u64 = uses
        .filter(|of| of["resource"] == "watchers")
        .map(|of| of["held"].as_u64().unwrap())
        .sum();
    assert_eq!(watchers, 1, "{quotas}");
    drop(live);
    peal_tests::until("a place is free", || {
        let (begin, _) = open();
        begin == "HTTP/1.1 200"
    });
}

#[needs(prepared)]
#[test]
fn silent_connections_shut_nobody_out() {
    let site = ConsoleSite::start("max_connections = 64\nrequest_timeout_ms = 600000\n");
    let request = get("/live/overview").with("authorization", bearer(VIEWER));
    let mut live = connect(site.address);
    live.write_all(&request.bytes(site.address)).unwrap();
    let mut begin = [0; 12];
    live.read_exact(&mut begin).unwrap();
    // More than the queue of the kernel takes: the oldest ones are ended.
    let mut silent: Vec<_> = (0..500).map(|_| connect(site.address)).collect();
    let page = get("/").with("authorization", bearer(VIEWER));
    page.send(site.address).expect(200);
    let ended = silent[0].read(&mut [0]).map_err(|error| error.kind());
    assert_ne!(ended, Err(ErrorKind::WouldBlock));
    // A page of a visitor with rights goes on.
    site.daemon.tell(&["job", "register", "solver", "-n", "3"]);
    let mut lines = BufReader::new(live).lines().take(200);
    assert!(lines.any(|line| line.unwrap().contains("solver")));
}

#[needs(prepared)]
#[test]
fn slow_or_large_requests_are_ended() {
    /// Time limit that hyper would have without a setting.
    const USUAL: Duration = Duration::from_secs(30);
    const FORM: &str = "host: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 9\r\n";
    let site = ConsoleSite::start("request_timeout_ms = 300\n");
    let began = Instant::now();
    for (part, wanted) in [
        (String::new(), ""),
        ("GET / HTTP/1.1\r\nhost: ".to_owned(), ""),
        (
            format!("POST /login HTTP/1.1\r\n{FORM}\r\ntok"),
            "HTTP/1.1 408",
        ),
        (
            format!(
                "POST /audit/1/replay HTTP/1.1\r\nauthorization: {}\r\n{FORM}\r\nform",
                bearer(ADMIN)
            ),
            "HTTP/1.1 408",
        ),
    ] {
        let mut stream = connect(site.address);
        stream.write_all(part.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(wanted), "{part}: {answer}");
    }
    assert!(began.elapsed() < USUAL, "{:?}", began.elapsed());
    let large = format!("token={}", "x".repeat(20_000));
    let answer = post("/login", &large).send(site.address);
    assert_eq!(answer.status, 413, "{answer:?}");
}

#[needs(prepared)]
#[test]
fn unsafe_settings_are_refused_with_what_would_be_right() {
    let place = Place::new();
    let usual = settings(&place);
    write_secret(&place, "short", "guess");
    let open = usual.replace("127.0.0.1", "0.0.0.0");
    let nobody = "[console]\nlisten = \"127.0.0.1:0\"\n".to_owned();
    let short = format!("{nobody}token_file = {:?}\n", place.path("short"));
    let same = usual.replace("admin-token", "token");
    let exposed = format!("{nobody}token_file = {:?}\n", place.path("exposed"));
    std::fs::write(place.path("exposed"), VIEWER).unwrap();
    let half = format!("{usual}certificate = \"/nowhere.pem\"\n");
    for (at, (settings, wanted)) in [
        (
            &open,
            "set console.certificate and console.private_key, or listen at a loopback address",
        ),
        (&nobody, "nobody could log in; set console.token_file"),
        (
            &short,
            "has less than 16 bytes; `openssl rand -hex 32` makes a good one",
        ),
        (&same, "hold the same token; they must differ"),
        (&exposed, "be readable by its owner only (mode 600 or 400)"),
        (&half, "belong together; one of them is missing"),
    ]
    .into_iter()
    .enumerate()
    {
        place.configure(settings);
        let (mut serve, _states) = place.serve(&format!("refused-{at}"));
        let done = finish(serve.spawn().unwrap());
        assert_ne!(done.status, Some(0), "{done:?}");
        assert!(done.stderr.contains(wanted), "{wanted}: {done:?}");
    }
}
