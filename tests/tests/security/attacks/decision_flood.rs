//! Users that flood the policies of the site are refused beyond their shares, and other users' requests
//! are decided about in turn.
use super::{
    ATTACKER, VICTIM, address, attack_beside,
    beside::{attackers, stat},
    register,
};
use peal_needs::needs;
use peal_tests::{daemon::Place, guest, run_within, until};
use std::{
    io::{BufRead, BufReader},
    time::Duration,
};

/// Second attacker. Two users together have used up half of the decisions each before.
const ACCOMPLICE: u32 = ATTACKER - 1;

/// Connections of each attacker, and the requests that each keeps open.
const CONNECTIONS: usize = 4;
const OPEN: usize = 500;

#[needs(prepared, root)]
#[test]
fn waiting_decisions_of_one_user_delay_no_other() {
    let place = Place::new();
    let path = guest("same-user").display().to_string();
    place.configure(&format!(
        "[policy]\nmax_pending_decisions = 64\n[[module]]\nname = \"same-user\"\npath = \"{path}\"\n"
    ));
    let daemon = place.start();
    let address = address(&daemon);
    register(&daemon, "job-of-accomplice", ACCOMPLICE);
    let flood = [
        "decision-flood",
        &address,
        &CONNECTIONS.to_string(),
        &OPEN.to_string(),
    ];
    let mut floods = [ATTACKER, ACCOMPLICE].map(|uid| attack_beside(uid, &flood).spawn().unwrap());
    for child in &mut floods {
        // The flood is at work. Some of its connections may have been refused themselves.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let refused = lines.next().unwrap().unwrap();
        assert!(
            refused.starts_with("PMIX_ERR_OUT_OF_RESOURCE "),
            "{refused}"
        );
    }
    let mut victim = attack_beside(VICTIM, &["decide-beside", &address, "300"]);
    let printed = run_within(Duration::from_secs(120), &mut victim)
        .expect_status(0)
        .stdout;
    assert!(printed.ends_with("PMIX_SUCCESS (0) 300\n"), "{printed}");
    let limit = stat(
        &daemon,
        "peal_user_limit",
        &[("resource", "pending_decisions")],
    );
    assert_eq!(limit, 16);
    assert!(attackers(&daemon, "pending_decisions") <= 16);
    let by_user = daemon.tell(&["stats", "--by-user"]);
    let row = |uid: u32| {
        let uid = uid.to_string();
        let lines = by_user.lines().map(str::split_whitespace);
        let mut rows = lines.map(|words| words.collect::<Vec<&str>>());
        rows.find(|row| row[..2] == [uid.as_str(), "pending_decisions"])
            .map(|row| row.iter().map(|word| (*word).to_owned()).collect())
            .unwrap_or_else(Vec::<String>::new)
    };
    for uid in [ATTACKER, ACCOMPLICE] {
        let row = row(uid);
        assert_eq!(
            (row[3].as_str(), row[5].as_str()),
            ("16", "policy.max_pending_decisions_per_user"),
            "{by_user}"
        );
        assert!(row[4].parse::<u64>().unwrap() > 0, "{by_user}");
    }
    let refused = row(VICTIM).get(4).cloned().unwrap_or("0".to_owned());
    assert_eq!(refused, "0", "{by_user}");
    // Each flood is beside another, and together they keep the server busy.
    until("the floods are delayed", || {
        stat(&daemon, "peal_connections_paced", &[]) > 0
    });
    for mut child in floods {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
