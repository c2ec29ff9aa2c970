//! A slow channel under a flood delays neither other channels nor other users.
use super::{ATTACKER, MeasuredTimes, VICTIM, attack_beside, beside::stat};
use peal_needs::needs;
use peal_tests::{daemon::Place, guest, run_within};
use std::{
    io::{BufRead, BufReader},
    time::{Duration, Instant},
};

/// Number of the attacker's connections, and of the requests that each keeps open.
const CONNECTIONS: usize = 4;
const OPEN: usize = 2000;

/// Number of one user's requests that are refused per second.
const REFUSED_EACH_SECOND: u64 = 1000;

/// Time in microseconds that is no sign of an attack on a busy machine.
const FLOOR: u64 = 250_000;

/// Time limit of a victim on a busy machine.
const LOGGING: Duration = Duration::from_secs(180);

/// Times of a victim, and the number of each status.
#[derive(Debug)]
struct Figures {
    times: MeasuredTimes,
    statuses: String,
}

/// Returns the times of the only proc of one of the victim's jobs.
fn figures(address: &str, job: &str, channel: &str, count: usize) -> Figures {
    let args = ["log", address, job, channel, &count.to_string()];
    let printed = run_within(LOGGING, &mut attack_beside(VICTIM, &args))
        .expect_status(0)
        .stdout;
    let statuses = printed
        .lines()
        .filter(|line| line.starts_with("PMIX_"))
        .collect::<Vec<_>>()
        .join("\n");
    Figures {
        times: MeasuredTimes::of(&printed),
        statuses,
    }
}

#[needs(prepared, root)]
#[test]
fn flooded_slow_channel_delays_no_other_channel_or_user() {
    let place = Place::new();
    let channel = |name: &str, more: &str| {
        format!(
            "[[sink]]\nname = \"{name}\"\nfile.path = {path:?}\n{more}\n[[module]]\nname = \"{name}\"\npath = {file:?}\n\
             channels = [\"site.log.{name}\"]\nsinks = [\"{name}\"]\ngrants = [\"sink\", \"clock\"]\nconfig = {{ sink = \"{name}\" }}\n",
            path = place.path(&format!("{name}.log")),
            file = guest("file"),
        )
    };
    place.configure(
        &[
            channel("slow", "file.sync = \"each\""),
            channel("quick", ""),
        ]
        .concat(),
    );
    let daemon = place.start();
    let address = super::address(&daemon);
    ["without", "beside", "same"]
        .iter()
        .for_each(|job| super::register(&daemon, job, VICTIM));
    let slow = "site.log.slow";
    let quick = "site.log.quick";
    let without = figures(&address, "without", quick, 100);
    assert_eq!(without.statuses, "PMIX_SUCCESS (0) 100");

    let connections = CONNECTIONS.to_string();
    let open = OPEN.to_string();
    let start = Instant::now();
    let mut attacker = attack_beside(
        ATTACKER,
        &["log-flood", &address, slow, &connections, &open],
    )
    .spawn()
    .unwrap();
    let lines = BufReader::new(attacker.stdout.take().unwrap()).lines();
    // Each connection of the attacker has had a refused request, so all of them are at work.
    let refusals: Vec<String> = lines.take(CONNECTIONS).map(Result::unwrap).collect();
    let beside = figures(&address, "beside", quick, 100);
    let on_the_same = figures(&address, "same", slow, 10);
    attacker.kill().unwrap();
    attacker.wait().unwrap();
    let most = REFUSED_EACH_SECOND * (start.elapsed().as_secs() + 2);
    let refused = stat(&daemon, "peal_log_requests_refused", &[]);
    assert!(
        refused <= most,
        "{refused} requests were refused, {most} may be"
    );
    assert!(
        refusals
            .iter()
            .all(|line| line.starts_with("PMIX_ERR_OUT_OF_RESOURCE ")
                && line.ends_with(" log.max_queue_requests_per_user")),
        "{refusals:?}"
    );
    assert_eq!(
        beside.statuses, "PMIX_SUCCESS (0) 100",
        "on another channel"
    );
    assert!(
        beside.times.median <= FLOOR.max(2 * without.times.median),
        "{without:?} {beside:?}"
    );
    assert_eq!(
        on_the_same.statuses, "PMIX_SUCCESS (0) 10",
        "in turn on the same channel"
    );
}
