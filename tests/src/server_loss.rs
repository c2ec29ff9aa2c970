//! Loss of the server by its procs: `tests/c/lost.c` under a server that a test kills.
use crate::{c_program, comparison::ComparedServer, daemon::Place, finish, libpmix::Release};
use rustix::process::Signal;
use std::{
    io::Read,
    process::{Child, Command, Stdio},
};

/// Number of procs.
const PROCS: u32 = 2;

/// Runs the program on this library, kills its server, and returns the lines of both procs after
/// that.
#[track_caller]
pub fn lose(server: ComparedServer, library: &Release) -> Vec<String> {
    match server {
        ComparedServer::Peal => lose_peal(library),
        ComparedServer::CLibrary => lose_the_c_server(library),
    }
}

/// Waits until this number of procs have printed on this output that they are ready.
#[track_caller]
fn wait_until_ready(process: &mut Child, procs: usize) {
    let mut lines = vec![0; "rank 0: ready\n".len() * procs];
    process
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut lines)
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&lines).matches(": ready\n").count(),
        procs
    );
}

/// Starts the procs itself: `peal run` reads the output of procs, so that nothing of it is seen
/// when `peal run` is gone.
#[track_caller]
fn lose_peal(library: &Release) -> Vec<String> {
    let program = c_program("lost");
    let place = Place::new();
    let daemon = place.start();
    daemon.tell(&["job", "register", "lost", "-n", "2"]);
    let procs = (0..PROCS).map(|rank| {
        let mut proc = daemon.proc("lost", rank, &program);
        library.of(&mut proc).spawn().unwrap()
    });
    let mut procs: Vec<Child> = procs.collect();
    procs.iter_mut().for_each(|proc| wait_until_ready(proc, 1));
    daemon.signal(Signal::KILL);
    procs
        .into_iter()
        .flat_map(|proc| finish(proc).expect_status(0).by_rank())
        .collect()
}

#[track_caller]
fn lose_the_c_server(library: &Release) -> Vec<String> {
    let mut command = Command::new(c_program("host"));
    command
        .arg(PROCS.to_string())
        .arg("env")
        .args(library.variable())
        .arg(c_program("lost"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();
    wait_until_ready(&mut server, 2);
    server.kill().unwrap();
    finish(server).by_rank()
}
