//! `peal compiler`: starts a process for each component, one after the other, and kills it at its
//! time-out.
use super::{CompileOrder, CompileReply, MAX_LINE, line};
use crate::{
    args::CompilerArgs, confinement::refused_calls, node, process_setup, supervisor::own_program,
};
use anyhow::{Context, Result};
use peal_config::Keyword;
use peal_confinement::{Confinement, OwnProgram, ProcessRole};
use peal_modules::{CodePlace, user_code_dir};
use peal_sandbox::CodeReaders;
use rustix::{fs::Mode, process::umask};
use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File},
    os::unix::fs::{DirBuilderExt, FileExt},
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    process::{Child, ChildStdin, Command},
    time::{Instant, sleep_until},
};

/// Priority of a compilation where the kernel ends a process because memory is short: it is the
/// first. This process is not, since the server needs it.
const FIRST_VICTIM: &str = "1000";

/// Carries out orders from standard input until that is closed.
pub fn work(args: CompilerArgs) -> Result<ExitCode> {
    let score = OutOfMemoryScore::open();
    // Compilations inherit it. The group may read code for users; the directory of other code is closed
    // to it.
    umask(Mode::WGRP | Mode::RWXO);
    confine(&args)?;
    let orders = process_setup::standard_input()?;
    let orders = std::os::unix::net::UnixStream::from(orders);
    // `UnixStream::from_std` leaves the mode to its caller, and a blocking stream stops the
    // runtime.
    orders.set_nonblocking(true)?;
    node::runtime()?.block_on(async {
        let mut orders = BufReader::new(UnixStream::from_std(orders)?);
        while let Some(order) = next(&mut orders).await? {
            let Some(reply) = compile(&mut orders, order, &args, score.as_ref()).await? else {
                break;
            };
            orders.get_mut().write_all(&line(&reply)?).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Confines this process and the compilations, each of which confines itself further.
fn confine(args: &CompilerArgs) -> Result<()> {
    let Some(refused) = refused_calls(args.confinement) else {
        return Ok(());
    };
    // Errors are ignored here: the engine checks the directory and reports what is wrong.
    let _ = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&args.cache_dir);
    let of_users = user_code_dir(&args.cache_dir);
    create_for_group(&of_users);
    let program = OwnProgram::find().context("cannot find the files of this program")?;
    Confinement {
        refused,
        read: ["/etc/ld.so.cache", "/proc"].map(PathBuf::from).into(),
        write: BTreeSet::from([args.cache_dir.clone(), of_users, "/dev/null".into()]),
        execute: program.execute,
        ..Confinement::of(ProcessRole::CompilerParent)
    }
    .enforce()
    .context("cannot confine the process that starts compilations")?;
    Ok(())
}

/// Creates a directory that the group of this user may enter. Errors are ignored: the engine checks the
/// directory and reports what is wrong.
fn create_for_group(dir: &Path) {
    let _ = DirBuilder::new().mode(0o750).create(dir);
}

/// Score by which the kernel chooses a process to end if memory is short. A compilation inherits it
/// from this process, and cannot write it once it is confined.
struct OutOfMemoryScore {
    file: File,
    /// Score of this process.
    own: String,
}

impl OutOfMemoryScore {
    /// Opens the score of this process; none if the process may not change it.
    fn open() -> Option<OutOfMemoryScore> {
        let path = "/proc/self/oom_score_adj";
        let own = fs::read_to_string(path).ok()?;
        let file = File::options().write(true).open(path).ok()?;
        Some(OutOfMemoryScore { file, own })
    }

    /// Makes processes that start from now on the first to end, until the returned value is
    /// dropped.
    fn raise(&self) -> RaisedScore<'_> {
        // A failure has no effect on the result of a compilation.
        let _ = self.file.write_all_at(FIRST_VICTIM.as_bytes(), 0);
        RaisedScore(self)
    }
}

/// Score that is raised.
struct RaisedScore<'a>(&'a OutOfMemoryScore);

impl Drop for RaisedScore<'_> {
    fn drop(&mut self) {
        let OutOfMemoryScore { file, own } = self.0;
        let _ = file.write_all_at(own.as_bytes(), 0);
    }
}

async fn next(orders: &mut BufReader<UnixStream>) -> Result<Option<CompileOrder>> {
    let mut text = Vec::new();
    let count = orders.take(MAX_LINE).read_until(b'\n', &mut text).await?;
    if count == 0 {
        Ok(None)
    } else {
        Ok(Some(serde_json::from_slice(&text)?))
    }
}

/// Carries out an order; `None` if the server has gone meanwhile.
async fn compile(
    orders: &mut BufReader<UnixStream>,
    order: CompileOrder,
    args: &CompilerArgs,
    score: Option<&OutOfMemoryScore>,
) -> Result<Option<CompileReply>> {
    let deadline = Instant::now() + Duration::from_millis(args.timeout_ms);
    let raised = score.map(OutOfMemoryScore::raise);
    let mut child = start(&order, args)?;
    drop(raised);
    let mut component = (&mut *orders).take(order.size);
    tokio::select! {
        fed = feed(&mut component, child.stdin.take()) => fed?,
        () = sleep_until(deadline) => {}
    }
    // Unread bytes of the component must not be taken for the next order.
    tokio::io::copy(&mut component, &mut tokio::io::sink()).await?;
    let status = tokio::select! {
        status = child.wait() => status?,
        () = sleep_until(deadline) => {
            child.kill().await?;
            return Ok(Some(CompileReply::TimedOut));
        }
        // The server sends nothing before it has the reply, so input here means that it is gone.
        // The drop of the child then kills it.
        _ = orders.fill_buf() => return Ok(None),
    };
    if !status.success() {
        return Ok(Some(CompileReply::Died(status.to_string())));
    }
    let mut reply = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(MAX_LINE).read_to_end(&mut reply).await?;
    }
    Ok(Some(serde_json::from_slice(&reply)?))
}

fn start(order: &CompileOrder, args: &CompilerArgs) -> Result<Child> {
    let mut command = Command::from(own_program());
    let (cache_dir, readers) = match order.place {
        CodePlace::Server => (args.cache_dir.clone(), CodeReaders::Owner),
        CodePlace::User(uid) => {
            let dir = user_code_dir(&args.cache_dir).join(uid.to_string());
            create_for_group(&dir);
            (dir, CodeReaders::Group)
        }
    };
    command.arg("compile").arg("--cache-dir").arg(cache_dir);
    command.args(["--readers", &serde_json::to_string(&readers)?]);
    command.args([
        "--timeout-ms",
        &args.timeout_ms.to_string(),
        "--memory-bytes",
        &args.memory_bytes.to_string(),
    ]);
    command.args(["--confinement", args.confinement.name()]);
    command.args(["--target", &serde_json::to_string(&order.target)?]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command
        .spawn()
        .context("cannot start the process that compiles a component")
}

/// Writes a component to the child. A write error is ignored: the child has ended, which the caller
/// notices.
async fn feed(component: &mut (impl AsyncRead + Unpin), child: Option<ChildStdin>) -> Result<()> {
    let mut component = BufReader::new(component);
    let Some(mut child) = child else {
        return Ok(());
    };
    loop {
        let bytes = component.fill_buf().await?;
        let count = bytes.len();
        if count == 0 || child.write_all(bytes).await.is_err() {
            return Ok(());
        }
        component.consume(count);
    }
}
