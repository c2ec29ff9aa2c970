//! Hosted handler components under a real job: the events that they see, their order, and the
//! effects of failures.
use peal_needs::needs;
use peal_tests::{Done, c_program, guest, peal, run};
use std::path::Path;

/// Event of the transcript, and the result of each handler of one chain.
#[derive(Debug)]
struct Handled {
    headline: String,
    answers: Vec<String>,
}

/// Returns the events that passed a chain, from the transcript on standard error.
fn handled(done: &Done) -> Vec<Handled> {
    let mut all: Vec<Handled> = Vec::new();
    for line in done
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("peal: "))
    {
        if let Some(answer) = line.strip_prefix("  ") {
            all.last_mut().unwrap().answers.push(answer.to_owned());
        } else if line.starts_with("event ") && line.ends_with("chain:") {
            all.push(Handled {
                headline: line.to_owned(),
                answers: Vec::new(),
            });
        }
    }
    all
}

fn job(program: &Path, handlers: &[&str], more: &[&str]) -> Done {
    let mut command = peal(["run", "-n", "4", "--events"]);
    for name in handlers {
        command.arg("--handler").arg(guest(name));
    }
    run(command.args(more).arg("--").arg(program))
}

#[needs(prepared, libpmix)]
#[test]
fn handlers_see_events_leaving_the_process_and_earlier_results() {
    let program = c_program("job");
    let done = job(&program, &["report", "complete", "loop-forever"], &[]).expect_status(0);
    let events = handled(&done);
    // No handler is registered for events of the environment.
    for (range, number) in [
        ("LOCAL", 0),
        ("GLOBAL", 0),
        ("SESSION", 0),
        ("CUSTOM", 4),
        ("PROC_LOCAL", 0),
    ] {
        let of_range = |event: &&Handled| {
            event
                .headline
                .contains(&format!("range PMIX_RANGE_{range},"))
        };
        assert_eq!(
            events.iter().filter(of_range).count(),
            number,
            "{range}:\n{}",
            done.stderr
        );
    }
    assert!(
        events
            .iter()
            .any(|event| event.headline.contains("range PMIX_RANGE_NAMESPACE,"))
    );
    for event in &events {
        // `loop-forever` would never return. It is not called, because the handler before it ends
        // the chain.
        let [report, complete] = &event.answers[..] else {
            panic!("{event:?}")
        };
        assert!(
            report.starts_with("report answers PMIX_EVENT_NO_ACTION_TAKEN (-331)"),
            "{event:?}"
        );
        assert!(
            complete.starts_with("complete answers PMIX_EVENT_ACTION_COMPLETE (-334)"),
            "{event:?}"
        );
        assert!(
            complete.contains("peal.complete.after=\"report\""),
            "{event:?}"
        );
        assert!(
            complete.contains("peal.complete.after.status=PMIX_EVENT_NO_ACTION_TAKEN (-331)"),
            "{event:?}"
        );
        assert!(complete.ends_with("which ends the chain"), "{event:?}");
    }
    let clients_are_not_held_back = done.by_rank();
    assert!(
        clients_are_not_held_back
            .iter()
            .any(|line| line.contains("event in default"))
    );
}

#[needs(prepared, libpmix)]
#[test]
fn looping_or_trapping_handler_is_stopped_and_job_unaffected() {
    let program = c_program("job");
    let plain = job(&program, &[], &[]).expect_status(0);
    let done = job(&program, &["trap", "loop-forever", "complete"], &[]).expect_status(0);
    assert_eq!(done.by_rank(), plain.by_rank());
    let events = handled(&done);
    assert_eq!(events.len(), 8, "{}", done.stderr);
    for event in events {
        let [trap, spin, complete] = &event.answers[..] else {
            panic!("{event:?}")
        };
        assert!(
            trap.starts_with("trap answers PEAL_ERR_MODULE_TRAPPED (-1000001)"),
            "{event:?}"
        );
        assert!(
            spin.starts_with("loop-forever answers PEAL_ERR_MODULE_TIMEOUT (-1000002)"),
            "{event:?}"
        );
        assert!(complete.contains("peal.complete.seen=2"), "{event:?}");
        assert!(
            complete.contains("peal.complete.after=\"loop-forever\""),
            "{event:?}"
        );
    }
    // The trace has the location with the guest's own function names.
    assert!(
        done.stderr.contains("asked to fail on event"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.contains("peal_trap::trap < ")
            && done.stderr.contains(" < peal:pmix/event-handler@"),
        "{}",
        done.stderr
    );
}

#[needs(prepared)]
#[test]
fn unfit_handler_of_a_job_is_refused_with_a_remedy() {
    let program = peal_tests::program("peal-example");
    let policy = job(&program, &["quota"], &[]).expect_status(125);
    let says = "exports no peal:pmix/event-handler, but connection-policy, event-policy, job-control-policy, spawn-policy, lifecycle; a job";
    assert!(policy.stderr.contains(says), "{}", policy.stderr);
    let dir = tempfile::tempdir().unwrap();
    let keeper = dir.path().join("keeper.wasm");
    std::fs::write(&keeper, peal_tests::text_form::of_sandbox("keeper.wat")).unwrap();
    let mut keeping = peal_tests::peal(["run", "--handler"]);
    let refused = peal_tests::run(keeping.arg(&keeper).arg("--").arg(&program)).expect_status(125);
    let says = "which a handler of a job does not have: name it in a [[module]] of the configuration with ";
    assert!(refused.stderr.contains(says), "{}", refused.stderr);
    let narrow = job(&program, &["report"], &["--set", "tenant.grants=[]"]).expect_status(125);
    let says = "imports peal:pmix/logging, which a handler of a job does not have: add \"logging\" to tenant.grants, or name it";
    assert!(narrow.stderr.contains(says), "{}", narrow.stderr);
}

#[needs(prepared)]
#[test]
fn site_precedes_job_and_completion_ends_own_chain_only() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    let text = format!(
        "[[module]]\nname = \"after\"\npath = {report:?}\ngrants = [\"logging\"]\nplacement = {{ after = \"ends\" }}\n\
         [[module]]\nname = \"never\"\npath = {report:?}\ngrants = [\"logging\"]\ncodes = [-3999]\n",
        report = guest("report")
    );
    // AFTER a name that does not exist is an error that names it.
    std::fs::write(&config, &text).unwrap();
    let config_arg = config.to_str().unwrap();
    let program = peal_tests::program("peal-example");
    let refused = job(&program, &["complete"], &["--config", config_arg]).expect_status(125);
    assert!(
        refused.stderr.contains("no handler is called \"ends\""),
        "{}",
        refused.stderr
    );

    let ends = format!(
        "[[module]]\nname = \"ends\"\npath = {:?}\n",
        guest("complete")
    );
    std::fs::write(&config, ends + &text).unwrap();
    let done = job(&program, &["report"], &["--config", config_arg]).expect_status(0);
    let events = handled(&done);
    let [site, jobs] = &events[..] else {
        panic!("{}", done.stderr)
    };
    assert!(
        site.headline.ends_with("through the site's chain:")
            && jobs.headline.ends_with("through the job's chain:")
    );
    assert!(
        site.answers[0].starts_with("ends answers") && site.answers.len() == 1,
        "{site:?}"
    );
    // A tenant does not see the results of the site's handlers.
    assert!(
        jobs.answers[0].starts_with("report answers")
            && jobs.answers[0].contains("peal.report.seen=0"),
        "{jobs:?}"
    );
}
