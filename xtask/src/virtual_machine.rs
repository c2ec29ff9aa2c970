//! `cargo xtask vm`: a Debian system of its own, with systemd and control groups, for tests of the
//! service. It is made by debootstrap, and runs under QEMU without hardware support.
use crate::{
    command::{remove_directory, run_quietly, step},
    test_servers,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// Release of Debian.
const RELEASE: &str = "bookworm";

/// Packages beside the smallest system. `libpmix2` is what Peal's library is installed beside.
const PACKAGES: &str = "systemd,systemd-sysv,linux-image-cloud-amd64,initramfs-tools,udev,dbus,iproute2,procps,kmod,libpmix2";

/// Size of the disk. It is sparse.
const DISK: &str = "3G";

/// Unit that runs the script of a test and turns the machine off.
const UNIT: &str = "\
[Unit]
Description=Test
After=multi-user.target
[Service]
Type=oneshot
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
ExecStart=/bin/sh -c 'mkdir -p /test && mount -o ro /dev/vdb /test && bash /test/run.sh; sync; systemctl poweroff --force --force'
[Install]
WantedBy=multi-user.target
";

/// Returns the directory of the machine's disk, kernel and initial file system.
pub fn directory(root: &Path) -> PathBuf {
    test_servers::directory(root).join("vm")
}

/// Returns true if tests can run the machine.
pub fn is_here(root: &Path) -> bool {
    let has_files = ["disk", "kernel", "initrd"]
        .iter()
        .all(|name| directory(root).join(name).exists());
    has_files && Path::new("/usr/bin/qemu-system-x86_64").exists()
}

/// Makes the machine anew.
pub fn make(root: &Path) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "needs root: debootstrap creates device files"
    );
    for (program, package) in [
        ("/usr/sbin/debootstrap", "debootstrap"),
        ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ] {
        ensure!(
            Path::new(program).exists(),
            "needs {program}: `apt-get install {package}`"
        );
    }
    let directory = directory(root);
    remove_directory(&directory)?;
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let system = directory.join("system");
    step("packages", || install(&system))?;
    configure(&system).context("configuring the system of the machine")?;
    step("disk", || disk(&directory, &system))
}

fn install(system: &Path) -> Result<()> {
    run_quietly(
        Command::new("debootstrap")
            .arg("--variant=minbase")
            .arg(format!("--include={PACKAGES}"))
            .arg(RELEASE)
            .arg(system),
    )
    .map(drop)
}

fn configure(system: &Path) -> Result<()> {
    let units = system.join("etc/systemd/system");
    fs::write(units.join("test.service"), UNIT)?;
    let wanted = units.join("multi-user.target.wants");
    fs::create_dir_all(&wanted)?;
    symlink("../test.service", wanted.join("test.service"))?;
    // The script has the console.
    symlink("/dev/null", units.join("serial-getty@ttyS0.service"))?;
    fs::write(system.join("etc/fstab"), "/dev/vda / ext4 defaults 0 1\n")?;
    fs::write(system.join("etc/hostname"), "vm\n")?;
    Ok(())
}

fn disk(directory: &Path, system: &Path) -> Result<()> {
    for (name, prefix) in [("kernel", "vmlinuz-"), ("initrd", "initrd.img-")] {
        let boot = system.join("boot");
        let found = fs::read_dir(&boot)?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .find(|found| found.starts_with(prefix))
            .with_context(|| format!("no {prefix}* in {}", boot.display()))?;
        fs::copy(boot.join(found), directory.join(name))?;
    }
    // Complete only with its last file, for `is_here`.
    let made = directory.join("made");
    fs::File::create(&made)?;
    run_quietly(Command::new("truncate").args(["--size", DISK]).arg(&made))?;
    run_quietly(
        Command::new("mke2fs")
            .args(["-q", "-t", "ext4", "-d"])
            .args([system, &made]),
    )?;
    fs::remove_dir_all(system)?;
    fs::rename(&made, directory.join("disk")).map_err(Into::into)
}
