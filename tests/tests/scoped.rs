//! Modules of the configuration that belong to a user or a job: whose events they see, and as whom they act.
use peal_client::{Client, Environment};
use peal_model::{Range, Status, rank};
use peal_tests::{
    daemon::{Daemon, Place},
    guest,
    in_process::{listener, next, soon},
    peal, program, run, text_form,
};

const ASKED: Status = Status(-3001);
const RAISED: Status = Status(-4000);

/// A component in text form that raises two events for each that it handles, as a file.
fn raiser(place: &Place) -> std::path::PathBuf {
    let file = place.path("raiser.wasm");
    std::fs::write(&file, text_form::of_sandbox("notify.wat")).unwrap();
    file
}

/// The only proc of a job, connected.
async fn proc(daemon: &Daemon, job: &str) -> Client {
    let variables = daemon.environment(job, 0);
    let found = |name: &str| variables.iter().find(|pair| pair.0 == name).map(|pair| pair.1.clone().into());
    soon("a client connects", Client::connect(&Environment::from(found).unwrap())).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_of_a_job_sees_the_events_of_its_job_alone_and_raises_events_as_that_job() {
    let place = Place::new();
    place.configure(&format!(
        "[[module]]\nname = \"raiser\"\npath = {:?}\nscope = \"namespace:mine\"\ncodes = [-3001]\ngrants = [\"notify\"]\n",
        raiser(&place)
    ));
    let daemon = place.start();
    // The job comes after its handler.
    for job in ["other", "mine"] {
        daemon.tell(&["job", "register", job, "-n", "1"]);
    }
    let (other, mine) = (proc(&daemon, "other").await, proc(&daemon, "mine").await);
    let (handler, mut heard) = listener();
    mine.register(&[RAISED], &[], handler).await.unwrap();
    other.notify(ASKED, Range::Namespace, Vec::new()).await.unwrap();
    mine.notify(ASKED, Range::Namespace, Vec::new()).await.unwrap();
    for _ in 0..2 {
        let source = next(&mut heard).await.source.unwrap();
        assert_eq!((source.nspace.as_str(), source.rank), ("mine", rank::PMIX_RANK_UNDEF));
    }
    let stats = daemon.tell(&["stats"]);
    let line = stats.lines().find(|line| line.contains("module_calls")).unwrap();
    assert!(line.trim_start().starts_with("1 ") && line.contains("owner=\"namespace mine\""), "{line}");
}

#[test]
fn a_handler_of_a_user_has_a_chain_between_those_of_the_site_and_of_the_job() {
    let place = Place::new();
    let (uid, report) = (rustix::process::geteuid().as_raw(), guest("report"));
    let module = |name: &str, scope: &str| {
        format!(
            "[[module]]\nname = {name:?}\npath = {report:?}\ngrants = [\"logging\"]\nscope = {scope:?}\nplace = \"first\"\n"
        )
    };
    let text = [
        module("elsewhere", "namespace:elsewhere"),
        module("users", &format!("user:{uid}")),
        module("others", "user:4000000"),
        module("sites", "site"),
    ];
    place.configure(&text.concat());
    let mut command = peal(["run", "--events", "--config"]);
    command.arg(place.path("peal.toml")).arg("--handler").arg(&report).arg("--").arg(program("peal-example"));
    let done = run(&mut command).expect_status(0);
    let told: Vec<&str> =
        done.stderr.lines().filter(|line| line.contains("chain:") || line.contains("answers")).collect();
    let [site, sites, user, users, job, jobs] = &told[..] else { panic!("{}", done.stderr) };
    assert!(site.ends_with("through the site's chain:") && sites.contains("sites answers"), "{told:?}");
    assert!(user.ends_with("through the user's chain:") && users.contains("users answers"), "{told:?}");
    assert!(job.ends_with("through the job's chain:") && jobs.contains("report answers"), "{told:?}");
}

#[test]
fn what_belongs_to_the_site_is_refused_for_others() {
    let place = Place::new();
    let said = |text: String| {
        place.configure(&text);
        run(peal(["config", "check"]).arg(place.path("peal.toml"))).expect_status(1).stderr
    };
    let module = |name: &str, more: &str| format!("[[module]]\nname = \"m\"\npath = {:?}\n{more}", guest(name));
    let policy = said(module("same-user", "scope = \"user:0\"\n"));
    let wanted = "4:1: module m is a connection-policy, which belongs to the site: leave out module.scope";
    assert!(policy.contains(wanted), "{policy}");
    let channel = module(
        "stdio",
        "scope = \"namespace:a\"\nchannels = [\"stdout\"]\nsinks = [\"stdout\"]\ngrants = [\"sink\"]\n",
    );
    let channel = said(channel);
    assert!(channel.contains("module m is a log-channel, which belongs to the site"), "{channel}");
    assert!(channel.contains("7:1: module m is of namespace a and cannot be granted \"sink\""), "{channel}");
    let nobody = said(module("report", "scope = \"user:nobody-of-this-name\"\ngrants = [\"logging\"]\n"));
    assert!(nobody.contains("4:1: module.scope: there is no user \"nobody-of-this-name\" here"), "{nobody}");
}
