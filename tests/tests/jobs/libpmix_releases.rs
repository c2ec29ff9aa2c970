//! One job whose procs use different client libraries: the C library of two releases, and Peal's.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_needs::needs;
use peal_tests::{c_program, launchers::Launcher, libpmix::Release, run};

/// Setting of the C library that keeps it from compressing texts at their put. Debian's 4.2.2 is built
/// without zlib, and crashes when it gets a text that the newer release has compressed.
const UNCOMPRESSED: &str = "PMIX_MCA_pcompress_base_limit=1000000";

/// Returns a script that runs a program with the library of its rank, each in turn, and with this
/// setting.
fn by_rank(libraries: &[Release], program: &str, setting: &str) -> String {
    let program = c_program(program).display().to_string();
    let cases = libraries.iter().enumerate().map(|(rest, library)| {
        let variable = library.variable().unwrap_or_default();
        format!("{rest}) exec env {setting} {variable} {program} \"$@\";;")
    });
    let cases: Vec<String> = cases.collect();
    let count = libraries.len();
    format!("case $((PMIX_RANK % {count})) in {} esac", cases.join(" "))
}

/// Returns the lines of a job by rank.
fn lines(
    launcher: &Launcher,
    procs: u32,
    libraries: &[Release],
    words: &[&str],
    exit_status: i32,
) -> Vec<String> {
    let (program, arguments) = words.split_first().unwrap();
    let script = by_rank(libraries, program, UNCOMPRESSED);
    let shell = ["/bin/sh", "-c", &script, program];
    let options: &[&str] = match launcher {
        Launcher::Peal => &["--on-abort", "continue", "--"],
        _ => &[],
    };
    let mut command = launcher.job(procs, options, shell.iter().chain(arguments));
    // Releases before 5.0 name statuses without their prefix.
    let lines = run(&mut command).expect_status(exit_status).by_rank();
    let plain = lines.iter().map(|line| {
        line.replace("PMIX_ERR_", "")
            .replace("PMIX_", "")
            .replace('_', "-")
    });
    plain.collect()
}

/// Each proc of a mixed job prints what it prints in a job of its library alone.
#[track_caller]
fn compare(launcher: &Launcher, procs: u32, words: &[&str], exit_status: i32) {
    let libraries = Release::all();
    let mixed = lines(launcher, procs, &libraries, words, exit_status);
    for (rest, library) in libraries.iter().enumerate() {
        let alone = lines(
            launcher,
            procs,
            std::slice::from_ref(library),
            words,
            exit_status,
        );
        let ranks = (0..procs).filter(|rank| *rank as usize % libraries.len() == rest);
        for rank in ranks {
            let prefix = format!("rank {rank}: ");
            let of_rank = |lines: &[String]| -> Vec<String> {
                let lines = lines.iter().filter(|line| line.starts_with(&prefix));
                lines.cloned().collect()
            };
            let (mixed, alone) = (of_rank(&mixed), of_rank(&alone));
            assert!(!alone.is_empty(), "rank {rank} prints nothing");
            assert_eq!(
                mixed, alone,
                "{words:?} under {launcher:?}, rank {rank} on {}",
                library.name
            );
        }
    }
}

#[needs(prepared, libpmix, openmpi5)]
#[test]
fn procs_of_three_libraries_do_everything_of_job() {
    compare(&Launcher::Peal, 6, &["job"], 0);
    compare(&Launcher::Peal, 6, &["job", "--die", "4"], 137);
}

#[needs(prepared, libpmix, openmpi5)]
#[test]
fn three_libraries_share_a_job_of_the_c_server() {
    compare(&Launcher::c_server(), 6, &["job"], 0);
}

#[needs(prepared, libpmix, openmpi5)]
#[test]
fn procs_of_three_libraries_form_groups() {
    for words in [["group", "whole"], ["group", "part"], ["group", "several"]] {
        compare(&Launcher::Peal, 6, &words, 0);
    }
}

/// The newer release compresses long texts when they are put, and its own get returns them so.
#[needs(prepared, openmpi5)]
#[test]
fn texts_compressed_by_another_library_are_read_as_put() {
    let libraries = [Release::newer(), Release::peal()];
    let script = by_rank(&libraries, "job", "");
    let shell = ["/bin/sh", "-c", &script, "job"];
    let mut command = Launcher::Peal.job(2, &["--on-abort", "continue", "--"], shell);
    let lines = run(&mut command).by_rank();
    let read = "rank 1: get job.long of 0: 6000 characters bcd451cf";
    assert!(lines.iter().any(|line| line == read), "{lines:#?}");
}
