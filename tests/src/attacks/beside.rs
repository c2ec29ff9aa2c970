//! Work of a user and of a launcher, measured beside attacks of another user: events from one proc to
//! another, launches of procs, and calls of the admin socket.
use anyhow::{Context, Result, bail, ensure};
use peal_client::{ClassFilter, Client, Environment, Handler, HandlerOutcome};
use peal_model::{Info, Infos, KeyName, Range, Status, Value, code};
use peal_server::admin::{AdminReply, AdminRequest, JobRegistration, NewJob, request};
use std::{
    env,
    ffi::OsString,
    os::unix::process::CommandExt,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};
use tokio::{runtime::Runtime, sync::mpsc};

/// Code of the measured events.
const NEWS: Status = Status(-3101);

/// Key of the number of an event.
const NUMBER: KeyName = KeyName("bench.number");

/// Number of repetitions before the measured ones.
const WARM: usize = 20;

/// Raises events as rank 0 of the job of this environment, one after the other, and prints the times
/// until the handler of rank 1 runs.
pub fn events(count: usize) -> Result<()> {
    runtime()?.block_on(async {
        let from = Client::connect(&environment("0")?).await?;
        let to = Client::connect(&environment("1")?).await?;
        let (tell, mut told) = mpsc::unbounded_channel();
        let arrive = Handler::non_blocking(move |call| {
            let number = call.event().infos.value_of(NUMBER).and_then(Value::as_u64);
            // The measuring task may have ended already.
            let _ = tell.send((number, Instant::now()));
            HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
        });
        to.register(&[NEWS], &ClassFilter::Both.directives(), arrive)
            .await?;
        let mut times = Vec::new();
        // Events of an earlier run may come first: the server has cached them.
        let first = u64::from(std::process::id()) << 32;
        for number in (first..).take(WARM + count) {
            let infos = vec![Info::new(NUMBER, Value::Uint64(number))];
            let start = Instant::now();
            from.notify(NEWS, Range::Local, infos).await?;
            let arrived = loop {
                let (seen, at) = told.recv().await.context("the handler has gone")?;
                if seen == Some(number) {
                    break at;
                }
            };
            times.push(arrived.saturating_duration_since(start));
        }
        print("event", &times[WARM..]);
        to.finalize().await?;
        Ok(from.finalize().await?)
    })
}

/// Asks for the state of the server as an administrator, one call after the other, and prints the
/// times.
pub fn calls(socket: &Path, count: usize) -> Result<()> {
    let times = measure(count, |_| match ask(socket, &AdminRequest::Status)? {
        AdminReply::Status(_) => Ok(()),
        reply => bail!("{reply:?}"),
    })?;
    print("call", &times);
    Ok(())
}

/// Launches jobs of one proc of a user, one after the other: each is registered, connects, fences,
/// finalizes, ends and is deregistered. Prints the times. Only for root.
pub fn launches(socket: &Path, uid: u32, count: usize) -> Result<()> {
    let program = env::current_exe()?;
    let times = measure(count, |number| {
        let job = register(socket, &format!("launch-{uid}-{number}"), uid)?;
        let status = Command::new(&program)
            .arg("proc")
            .envs(job.of_rank(0))
            .current_dir("/")
            .uid(uid)
            .gid(uid)
            .status()?;
        ensure!(status.success(), "the proc ended with {status}");
        let nspace = job.nspace;
        match ask(socket, &AdminRequest::Deregister { nspace })? {
            AdminReply::Deregistered => Ok(()),
            reply => bail!("{reply:?}"),
        }
    })?;
    print("launch", &times);
    Ok(())
}

/// Connects as the proc of this environment, and waits for an event with this code. Prints the code.
pub fn receive(code: Status) -> Result<()> {
    runtime()?.block_on(async {
        let client = Client::init().await?;
        let (tell, mut told) = mpsc::unbounded_channel();
        let arrive = Handler::non_blocking(move |call| {
            // The receiving task may have ended already.
            let _ = tell.send(call.event().code);
            HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
        });
        client
            .register(&[code], &ClassFilter::Both.directives(), arrive)
            .await?;
        println!("{}", told.recv().await.context("the handler has gone")?);
        Ok(client.finalize().await?)
    })
}

/// Connects as the proc of this environment, fences and finalizes.
pub fn proc() -> Result<()> {
    runtime()?.block_on(async {
        let client = Client::init().await?;
        client.fence(&[], &[]).await?;
        Ok(client.finalize().await?)
    })
}

fn register(socket: &Path, nspace: &str, uid: u32) -> Result<JobRegistration> {
    let job = NewJob {
        nspace: nspace.to_owned(),
        size: 1,
        uid: Some(uid),
        gid: Some(uid),
    };
    match ask(socket, &AdminRequest::Register(job))? {
        AdminReply::Registered(job) => Ok(job),
        reply => bail!("{reply:?}"),
    }
}

fn ask(socket: &Path, call: &AdminRequest) -> Result<AdminReply> {
    Ok(request(socket, call)?.reply()?)
}

fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime)
}

/// Returns the environment of this process as that of another rank of its job.
fn environment(rank: &str) -> Result<Environment> {
    let found = |name: &'static str| match name {
        "PMIX_RANK" => Some(OsString::from(rank)),
        _ => env::var_os(name),
    };
    Ok(Environment::from(found)?)
}

fn measure(count: usize, work: impl Fn(usize) -> Result<()>) -> Result<Vec<Duration>> {
    (0..WARM).try_for_each(&work)?;
    let timed = |number| {
        let start = Instant::now();
        work(WARM + number).map(|()| start.elapsed())
    };
    (0..count).map(timed).collect()
}

/// Prints the median and the 99th percentile in microseconds.
fn print(name: &str, times: &[Duration]) {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = |per_cent: usize| times[(times.len() * per_cent / 100).min(times.len() - 1)];
    println!(
        "{name}_us {}\n{name}_us_p99 {}",
        at(50).as_micros(),
        at(99).as_micros()
    );
}
