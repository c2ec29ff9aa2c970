//! Processes of a server that root starts and that runs as a user of its own: time of their start,
//! their memory, and the handlers of a user in a process of their own.
use super::{
    arm::{HANDLES, Values, section},
    attacking::as_user,
    launch::{self, Scratch},
    memory,
    module_costs::IdleModules,
    programs::Programs,
    served::ServerDirectory,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

/// User of a job and its modules.
const USER: u32 = 65_531;

/// Number of the user's modules that do nothing. One more raises the reply.
const MODULES: u32 = 15;

/// Process that runs the modules of a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserProcess {
    /// Process of the user alone.
    Own,
    /// Process of the server.
    Servers,
}

impl UserProcess {
    /// Returns the name in names of arms.
    pub fn name(self) -> &'static str {
        match self {
            UserProcess::Own => "own",
            UserProcess::Servers => "servers",
        }
    }

    /// Returns the value of `tenant.process`.
    fn setting(self) -> &'static str {
        match self {
            UserProcess::Own => "own",
            UserProcess::Servers => "shared",
        }
    }
}

/// Returns the configuration of a usual server: a policy, an audit trail and a store.
fn usual(programs: &Programs, directory: &ServerDirectory<'_>) -> String {
    let policy = section("same-user", &programs.component("same-user"), "");
    let [trail, store] = ["files/audit.db", "files/peal.db"].map(|name| directory.path(name));
    format!("[audit]\npath = {trail:?}\non_failure = \"deny\"\n[store]\npath = {store:?}\n{policy}")
}

/// Measures the median time of this number of starts in milliseconds, to the line that says that the
/// server with these modules is ready.
pub fn start_time(programs: &Programs, modules: IdleModules, count: u32) -> Result<Values> {
    let scratch = Scratch::new()?;
    let directory = ServerDirectory::new(programs, &scratch);
    let config = usual(programs, &directory) + &modules.sections(programs, &directory)?;
    // The first server compiles the modules.
    directory.stop(directory.start_supervised(&config)?)?;
    let mut times = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        let server = directory.start_supervised(&config)?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
        directory.stop(server)?;
    }
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).context("nothing was started")?;
    Ok(vec![("ms".to_owned(), *median)])
}

/// Measures the proportional memory of all processes of a server with these modules and without clients, in MiB.
pub fn idle_memory(programs: &Programs, modules: IdleModules) -> Result<Values> {
    let scratch = Scratch::new()?;
    let directory = ServerDirectory::new(programs, &scratch);
    let config = usual(programs, &directory) + &modules.sections(programs, &directory)?;
    let server = directory.start_supervised(&config)?;
    let memory = memory::of_family_at_rest(server.pid())?;
    ensure!(
        memory.processes > 2,
        "a supervised server has more processes than {}",
        memory.processes
    );
    directory.stop(server)?;
    let processes = f64::from(u32::try_from(memory.processes)?);
    Ok(vec![
        ("pss_mib".to_owned(), memory.pss_kib / 1024.0),
        ("processes".to_owned(), processes),
    ])
}

/// Measures an event through 16 modules of a user, of which the last raises an event that comes back.
pub fn user_chain(
    programs: &Programs,
    process: UserProcess,
    count: u32,
    warm: u32,
) -> Result<Values> {
    let scratch = Scratch::new()?;
    let directory = ServerDirectory::new(programs, &scratch);
    let users = directory.path("users");
    install(programs, &users.join("own"))?;
    let setting = process.setting();
    let mut server = directory.start_supervised(&format!(
        "[deploy]\nuser_modules_dir = {users:?}\n[tenant]\nprocess = {setting:?}\n"
    ))?;
    server.until("all modules of the user are active", || {
        let list = directory.ask(&["module", "list"])?;
        let active = list.lines().filter(|line| line.contains(" active")).count();
        Ok((active > MODULES as usize).then_some(()))
    })?;
    let user = USER.to_string();
    directory.ask(&[
        "job", "register", "job", "-n", "1", "--uid", &user, "--gid", &user,
    ])?;
    let environment = directory.ask(&["job", "environment", "job", "--rank", "0"])?;
    let files = Scratch::new()?;
    give(files.path())?;
    for file in fs::read_dir(files.path())? {
        give(&file?.path())?;
    }
    let mut client: Command = as_user(USER, &programs.bench);
    client
        .args(["proc", "pingpong", &count.to_string(), &warm.to_string()])
        .arg(files.path())
        .envs(environment.lines().filter_map(|line| line.split_once('=')));
    let measured = launch::values(&launch::finish(client, &files)?)?;
    let has_own = directory
        .children(&server)?
        .iter()
        .any(|line| line == "tenant");
    ensure!(
        has_own == (process == UserProcess::Own),
        "the modules did not run in the process that {setting:?} means"
    );
    directory.stop(server)?;
    Ok(measured)
}

/// Installs the user's modules.
fn install(programs: &Programs, own: &Path) -> Result<()> {
    fs::create_dir_all(own)?;
    fs::set_permissions(own, fs::Permissions::from_mode(0o755))?;
    give(own)?;
    for number in 0..MODULES {
        let name = format!("noop-{number:02}");
        put(programs, own, "noop", &name, HANDLES)?;
    }
    let raises = format!("{HANDLES}\ngrants = [\"notify\"]");
    put(programs, own, "event-echo", "raises", &raises)
}

fn put(programs: &Programs, own: &Path, component: &str, name: &str, settings: &str) -> Result<()> {
    let from = programs.component(component);
    let file = |extension: &str| -> PathBuf { own.join(name).with_extension(extension) };
    fs::copy(&from, file("wasm")).with_context(|| format!("copying {}", from.display()))?;
    let text = format!("name = {name:?}\npath = \"{name}.wasm\"\n{settings}\n");
    fs::write(file("toml"), text)?;
    ["wasm", "toml"].iter().try_for_each(|extension| {
        let file = file(extension);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
        give(&file)
    })
}

/// Gives a file to the user.
pub fn give(path: &Path) -> Result<()> {
    chown(path, Some(USER), Some(USER)).with_context(|| path.display().to_string())
}
