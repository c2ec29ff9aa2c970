//! Continuation of a job after the abnormal end of a proc: the termination requests of the
//! handlers, and `run.on_abort` if there are none.
use peal_core::{
    owner::Owner,
    registration::{EventCodes, HandlerRegistration},
    termination::TerminationRequest,
};
use peal_launcher::EmbeddedHostEnvironment;
use peal_model::code;
use peal_needs::needs;
use peal_sandbox::{Engine, EngineSettings, Grants, Module, ModuleLimits, Services};
use peal_server::{
    ChainSettings, Hosted, HostedChains, HostedHandler, InProcessNetwork, Notice, Notices,
    ServerSettings,
};
use peal_tests::{
    Done, finish, guest,
    in_process::{Modules, Node, soon},
    peal, run,
    text_form::assemble,
};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

const SPARED: &str = "requests no termination";
const WANTED: &str = "requests termination";
const KILLED: &str = "is being ended: PMIX_ERR_PROC_ABORTED_BY_SIG (-402)";

/// Script of procs that stay until the flag exists. Without a running proc there would be nothing
/// to decide.
const WAIT: &str = "until test -e $FLAG; do :; done";

/// Options of a job, and a flag that its procs can wait for.
struct Place {
    dir: tempfile::TempDir,
    config: String,
    arguments: Vec<String>,
}

impl Place {
    fn new() -> Place {
        Place {
            dir: tempfile::tempdir().unwrap(),
            config: String::new(),
            arguments: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a component that requests the termination of every job.
    fn wants_termination(&self) -> PathBuf {
        let file = self.path("wants.wasm");
        fs::write(
            &file,
            assemble(include_str!("../../wat/wants-termination.wat")),
        )
        .unwrap();
        file
    }

    /// Adds this text to the configuration.
    fn configured(mut self, text: &str) -> Place {
        self.config.push_str(text);
        self
    }

    /// Adds a module of the site.
    fn site(self, name: &str, path: PathBuf, more: &str) -> Place {
        self.configured(&format!(
            "[[module]]\nname = \"{name}\"\npath = {path:?}\n{more}\n"
        ))
    }

    /// Adds handlers of the job, in this order.
    fn handlers(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Place {
        for path in paths {
            self.arguments
                .extend(["--handler".to_owned(), path.to_str().unwrap().to_owned()]);
        }
        self
    }

    fn on_abort(mut self, word: &str) -> Place {
        self.arguments
            .extend(["--on-abort".to_owned(), word.to_owned()]);
        self
    }

    /// Runs three procs: the first kills itself, the others run `script`. The flag is created when
    /// the transcript contains `until`.
    fn run(self, script: &str, until: &str) -> Done {
        let config = self.path("peal.toml");
        let flag = self.path("flag");
        fs::write(&config, &self.config).unwrap();
        let mut command = peal([
            "run",
            "-n",
            "3",
            "--events",
            "--config",
            config.to_str().unwrap(),
        ]);
        let script = format!("test $PMIX_RANK = 0 && kill -KILL $$\n{script}");
        command
            .args(&self.arguments)
            .args(["--", "sh", "-c", &script])
            .env("FLAG", &flag);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut stderr = String::new();
        while said.read_line(&mut stderr).unwrap() > 0 && !stderr.contains(until) {}
        fs::write(&flag, "").unwrap();
        said.read_to_string(&mut stderr).unwrap();
        Done {
            stderr,
            ..finish(child)
        }
    }

    /// Runs the job. The other procs live until the flag exists, which shows that they were not
    /// ended.
    fn goes_on(self, until: &str) -> Done {
        let done = self.run(WAIT, until).expect_status(137);
        assert!(done.stderr.contains(until), "{}", done.stderr);
        for rank in [1, 2] {
            assert!(
                done.stderr
                    .contains(&format!("rank {rank} exited with status 0")),
                "{}",
                done.stderr
            );
        }
        done
    }

    /// Runs the job. The other procs live until they are ended.
    fn ends(self) -> Done {
        let done = self.run("exec sleep 1000", KILLED).expect_status(137);
        assert!(done.stderr.contains(KILLED), "{}", done.stderr);
        assert_eq!(
            done.stderr.matches("was ended by signal 15").count(),
            2,
            "{}",
            done.stderr
        );
        done
    }
}

#[needs(prepared)]
#[test]
fn handler_against_termination_lets_the_job_continue() {
    let done = Place::new()
        .handlers([guest("continue-on-abort")])
        .goes_on("handler \"continue-on-abort\" of the job requests no termination");
    assert!(!done.stderr.contains("is being ended"), "{}", done.stderr);
}

#[needs(prepared)]
#[test]
fn a_handler_has_a_proc_started_again_as_often_as_it_may_be() {
    let grants = "grants = [\"job-control\"]\nconfig = { times = 2 }";
    let done = Place::new()
        .site("restart", guest("restart"), grants)
        .ends();
    assert_eq!(
        done.stderr.matches("rank 0 started as process").count(),
        3,
        "{}",
        done.stderr
    );
}

#[needs(prepared)]
#[test]
fn restarted_proc_is_no_failure_and_sees_its_restart() {
    let place = Place::new();
    let config = place.path("peal.toml");
    let flag = place.path("flag");
    let module = format!(
        "[[module]]\nname = \"restart\"\npath = {:?}\ngrants = [\"job-control\"]\n",
        guest("restart")
    );
    fs::write(&config, module + "config = { checkpoint = \"step-5\" }\n").unwrap();
    // The other procs live until rank 1 is back.
    let script = format!(
        "case $PMIX_RANK,$PEAL_CHECKPOINT in 1,) kill -KILL $$ ;; 1,*) echo $PEAL_CHECKPOINT >$FLAG ;; *) {WAIT} ;; esac"
    );
    let mut command = peal([
        "run",
        "-n",
        "3",
        "--config",
        config.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        &script,
    ]);
    run(command.env("FLAG", &flag)).expect_status(0);
    assert_eq!(fs::read_to_string(flag).unwrap(), "step-5\n");
}

#[needs(prepared)]
#[test]
fn handler_for_termination_ends_a_job_that_would_continue() {
    let place = Place::new().on_abort("continue");
    let wants = place.wants_termination();
    let done = place.handlers([wants]).ends();
    assert!(
        done.stderr
            .contains("will end: handler \"wants\" of the job requests termination"),
        "{}",
        done.stderr
    );
}

#[needs(prepared)]
#[test]
fn the_site_outranks_the_job() {
    let place = Place::new().site("spares", guest("continue-on-abort"), "");
    let wants = place.wants_termination();
    let done = place
        .handlers([wants])
        .goes_on("continues: handler \"spares\" of the site requests no termination");
    assert!(!done.stderr.contains(WANTED), "{}", done.stderr);
    let place = Place::new().on_abort("continue");
    let wants = place.wants_termination();
    let done = place
        .site("ends", wants, "")
        .handlers([guest("continue-on-abort")])
        .ends();
    assert!(
        done.stderr
            .contains("handler \"ends\" of the site requests termination"),
        "{}",
        done.stderr
    );
    assert!(!done.stderr.contains(SPARED), "{}", done.stderr);
}

#[needs(prepared)]
#[test]
fn last_termination_request_of_a_chain_counts() {
    let place = Place::new();
    let wants = place.wants_termination();
    place
        .handlers([wants, guest("continue-on-abort"), guest("report")])
        .goes_on("handler \"continue-on-abort\" of the job");
    let place = Place::new();
    let wants = place.wants_termination();
    place
        .handlers([guest("continue-on-abort"), wants, guest("report")])
        .ends();
}

#[needs(prepared)]
#[test]
fn failed_handler_makes_no_termination_request() {
    let spun = "loop-forever answers PEAL_ERR_MODULE_TIMEOUT";
    Place::new()
        .on_abort("continue")
        .handlers([guest("loop-forever")])
        .goes_on(spun);
    let done = Place::new().handlers([guest("loop-forever")]).ends();
    assert!(!done.stderr.contains(WANTED), "{}", done.stderr);
    // The handlers after it run, and their requests count.
    Place::new()
        .site("loop-forever", guest("loop-forever"), "")
        .handlers([guest("continue-on-abort")])
        .goes_on(SPARED);
}

#[needs(prepared)]
#[test]
fn handlers_that_take_too_long_are_not_waited_for() {
    let text = "[run]\naction_timeout_ms = 50\n[server]\nchain_drain_timeout_ms = 0\n";
    let place = Place::new().configured(text).site(
        "loop-forever",
        guest("loop-forever"),
        "limits = { call_time_ms = 2000 }",
    );
    let done = place.handlers([guest("continue-on-abort")]).ends();
    assert!(
        done.stderr.contains("handlers exceeded the action timeout"),
        "{}",
        done.stderr
    );
    assert!(!done.stderr.contains("continues"), "{}", done.stderr);
}

#[needs(prepared)]
#[test]
fn job_without_handlers_waits_for_none() {
    let day = "[run]\naction_timeout_ms = 86400000\n";
    Place::new().configured(day).ends();
    Place::new()
        .configured(day)
        .site("other", guest("continue-on-abort"), "codes = [-3999]")
        .ends();
    Place::new()
        .configured(day)
        .on_abort("continue")
        .goes_on("no handler is registered for it");
}

#[needs(prepared)]
#[test]
fn each_abnormal_end_is_a_question_of_its_own() {
    let codes = "codes = [\"PMIX_ERR_PROC_ABORTED_BY_SIG\"]";
    let script = "test $PMIX_RANK = 1 || exec sleep 1000\nuntil test -e $FLAG; do :; done; exit 3";
    let done = Place::new()
        .site("spares", guest("continue-on-abort"), codes)
        .run(script, SPARED)
        .expect_status(137);
    assert!(
        done.stderr
            .contains("is being ended: PMIX_ERR_EXIT_NONZERO_TERM"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.contains("rank 2 was ended by signal 15"),
        "{}",
        done.stderr
    );
}

#[needs(prepared)]
#[test]
fn event_shows_intended_action_and_waiting_time() {
    let said = |place: Place| {
        let place = place.configured(
            "[trace]\nfilter = \"warn,peal::guest=info\"\n[run]\naction_timeout_ms = 1001\n",
        );
        let done = place
            .handlers([guest("report")])
            .run(WAIT, "through the job's chain")
            .expect_status(137);
        done.stderr
            .lines()
            .find(|line| line.contains("event -402 from the resource manager"))
            .unwrap()
            .to_owned()
    };
    let ended = said(Place::new());
    let goes_on = said(Place::new().on_abort("continue"));
    for line in [&ended, &goes_on] {
        assert!(
            line.contains("pmix.evtimeout = 2") && line.contains("pmix.evtstamp = 2"),
            "{line}"
        );
    }
    assert!(
        ended.contains("pmix.evterm.job = true") && !goes_on.contains("pmix.evterm.job"),
        "{goes_on}"
    );
}

/// Returns a handler with a time limit of two seconds for a call.
fn hosted(name: &str) -> HostedHandler {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let limits = ModuleLimits {
        call_time: Duration::from_secs(2),
        ..ModuleLimits::default()
    };
    let bytes = fs::read(guest(name)).unwrap();
    let module = Module::load(
        &engine,
        name,
        &bytes,
        &Grants::tenant(),
        limits,
        Services::default(),
    );
    HostedHandler::new(Arc::new(module.unwrap()))
}

/// Starts a server with these handlers, each of its owner and for all events.
async fn node(handlers: &[(Owner, &str)], settings: ServerSettings, notices: &Notices) -> Node {
    let mut chains = HostedChains::default();
    for (owner, name) in handlers {
        chains
            .register(
                owner.clone(),
                HandlerRegistration::new(name, EventCodes::Default),
                hosted(name),
            )
            .unwrap();
    }
    let modules = Modules {
        hosted: Hosted {
            chains,
            ..Hosted::default()
        },
        notices: notices.clone(),
    };
    let host = Arc::new(EmbeddedHostEnvironment::new(Notices::default()));
    Node::with(modules, host, settings, &InProcessNetwork::new(), "job", 3).await
}

const SIGNAL: peal_model::Status = code::PMIX_ERR_PROC_ABORTED_BY_SIG;

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn site_request_is_known_before_chains_of_others_end() {
    let user = Owner::User(rustix::process::geteuid().as_raw());
    let notices = Notices::default();
    let mut passed = notices.listen(Notice::is_passed);
    let node = node(
        &[(Owner::Site, "continue-on-abort"), (user, "loop-forever")],
        ServerSettings::default(),
        &notices,
    )
    .await;
    let wished = node
        .server
        .handle()
        .proc_ended_abnormally(node.proc(0), SIGNAL, Vec::new());
    let wished = soon("the site's verdict has been given", wished)
        .await
        .unwrap();
    assert_eq!(
        (wished.request, wished.owner, &*wished.handler),
        (
            TerminationRequest::NoTermination,
            Owner::Site,
            "continue-on-abort"
        )
    );
    assert_eq!(passed.try_recv(), None, "the user's handler still runs");
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn lagging_chain_makes_no_termination_request() {
    let no_room = ChainSettings {
        queue_bytes: 1,
        ..ChainSettings::default()
    };
    let settings = ServerSettings {
        chains: no_room,
        ..ServerSettings::default()
    };
    let node = node(
        &[(Owner::Site, "continue-on-abort")],
        settings,
        &Notices::default(),
    )
    .await;
    let wished = node
        .server
        .handle()
        .proc_ended_abnormally(node.proc(0), SIGNAL, Vec::new());
    assert_eq!(
        soon("the job continues without a decision", wished).await,
        None
    );
    assert_eq!(node.server.counters().chain_events_dropped.get(), 1);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn stopping_server_delays_no_one() {
    let node = node(
        &[(Owner::Site, "continue-on-abort")],
        ServerSettings::default(),
        &Notices::default(),
    )
    .await;
    let handle = node.server.handle();
    let proc = node.proc(0);
    soon("the server stops", node.server.shutdown()).await;
    let wished = handle.proc_ended_abnormally(proc, SIGNAL, Vec::new());
    assert_eq!(
        soon("the job continues without a decision", wished).await,
        None
    );
}
