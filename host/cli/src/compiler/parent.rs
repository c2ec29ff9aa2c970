//! `peal compiler`: starts a process for each component, one after the other, and kills it at its
//! time-out.
use super::{CompileOrder, CompileReply, MAX_LINE, line};
use crate::{args::CompilerArgs, node};
use anyhow::{Context, Result};
use std::{
    io,
    os::fd::AsFd,
    process::{ExitCode, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    process::{Child, ChildStdin, Command},
    time::{Instant, sleep_until},
};

/// Carries out orders from standard input until that is closed.
pub fn work(args: CompilerArgs) -> Result<ExitCode> {
    let orders = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .context("orders come on standard input")?;
    let orders = std::os::unix::net::UnixStream::from(orders);
    // `UnixStream::from_std` leaves the mode to its caller, and a blocking stream stops the
    // runtime.
    orders.set_nonblocking(true)?;
    node::runtime()?.block_on(async {
        let mut orders = BufReader::new(UnixStream::from_std(orders)?);
        while let Some(order) = next(&mut orders).await? {
            let Some(reply) = compile(&mut orders, order, &args).await? else {
                break;
            };
            orders.get_mut().write_all(&line(&reply)?).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
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
) -> Result<Option<CompileReply>> {
    let deadline = Instant::now() + Duration::from_millis(args.timeout_ms);
    let mut child = start(&order, args)?;
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
    // The running program, even if its file was replaced by another release.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("compile")
        .arg("--cache-dir")
        .arg(&args.cache_dir);
    command.args([
        "--timeout-ms",
        &args.timeout_ms.to_string(),
        "--memory-bytes",
        &args.memory_bytes.to_string(),
    ]);
    command.args(args.confined.then_some("--confined"));
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
