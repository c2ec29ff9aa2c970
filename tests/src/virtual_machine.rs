//! Runs of a script on a Debian system of its own, under QEMU (`cargo xtask vm`).
use crate::{run, run_within, test_servers};
use std::{
    ffi::OsStr,
    fs::{self, File},
    path::Path,
    process::Command,
    time::Duration,
};

/// Time limit of a run. Without hardware support the machine is some ten times slower.
const PATIENCE: Duration = Duration::from_secs(900);

/// Size of the disk with the files of a test. It is sparse.
const FILES_SIZE: u64 = 2 << 30;

/// Kernel parameters. Console messages of the kernel would be among those of the script.
const PARAMETERS: &str = "root=/dev/vda rw console=ttyS0 quiet loglevel=1 systemd.show_status=no";

/// Runs the script `run.sh` of a directory as root, with the directory at `/test`, and returns what it
/// prints. Nothing that it changes is kept.
#[track_caller]
pub fn run_script(directory: &Path) -> String {
    let machine = test_servers().join("vm");
    let place = tempfile::tempdir().unwrap();
    let files = place.path().join("files");
    File::create(&files).unwrap().set_len(FILES_SIZE).unwrap();
    run(Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-d"])
        .args([directory, &files]))
    .expect_status(0);
    let drive = |path: &Path, options: &str| {
        format!("file={},if=virtio,format=raw,{options}", path.display())
    };
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max"])
        .args([
            "-smp",
            "2",
            "-m",
            "4096",
            "-nographic",
            "-no-reboot",
            "-nic",
            "none",
        ])
        .arg("-kernel")
        .arg(machine.join("kernel"))
        .arg("-initrd")
        .arg(machine.join("initrd"))
        .args(["-append", PARAMETERS])
        .args(["-drive", &drive(&machine.join("disk"), "snapshot=on")])
        .args(["-drive", &drive(&files, "readonly=on")])
        .stdin(std::process::Stdio::null());
    run_within(PATIENCE, &mut qemu).expect_status(0).stdout
}

/// Copies a program without its debug information.
#[track_caller]
pub fn copy_stripped(program: &Path, to: &Path) {
    let arguments: [&OsStr; 3] = [OsStr::new("-o"), to.as_ref(), program.as_ref()];
    run(Command::new("strip").args(arguments)).expect_status(0);
    let mode = fs::metadata(program).unwrap().permissions();
    fs::set_permissions(to, mode).unwrap();
}
