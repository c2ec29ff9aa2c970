//! Libraries and files that a lab is given.
use peal_needs::needs;
use peal_tests::labs::{
    ClientLibrary, LabLibraries, MpirunLab, NodeMount, ServerLibrary, SlurmLab, SlurmSettings,
    check_libraries, lab_program, lab_setup, run_in_lab,
};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// Copies of the installed library, to be used on both sides.
struct CopiedLibraries {
    dir: TempDir,
}

impl CopiedLibraries {
    fn new() -> CopiedLibraries {
        let dir = tempfile::tempdir().unwrap();
        let installed = format!(
            "/usr/lib/{}-linux-gnu/pmix2/lib/libpmix.so.2",
            std::env::consts::ARCH
        );
        fs::create_dir(dir.path().join("client")).unwrap();
        for name in ["server.so", "client/libpmix.so.2"] {
            fs::copy(&installed, dir.path().join(name)).unwrap();
        }
        CopiedLibraries { dir }
    }

    fn libraries(&self) -> LabLibraries {
        LabLibraries {
            server: ServerLibrary::File(self.dir.path().join("server.so")),
            client: ClientLibrary::Directory(self.client_directory()),
        }
    }

    fn client_directory(&self) -> PathBuf {
        self.dir.path().join("client")
    }

    fn client(&self) -> String {
        self.client_directory()
            .join("libpmix.so.2")
            .display()
            .to_string()
    }
}

/// Returns the path of a C program of the labs, as an argument.
pub fn path_of(program: &str) -> String {
    lab_program(program).display().to_string()
}

#[needs(slurm_lab)]
#[test]
fn slurm_and_programs_load_the_given_libraries() {
    let copies = CopiedLibraries::new();
    let setup = lab_setup(2, &copies.libraries()).share(copies.dir.path());
    let lab = SlurmLab::start(setup, &SlurmSettings::default()).unwrap();
    let servers = format!(
        "/usr/lib/{}-linux-gnu/pmix2/lib/libpmix.so",
        std::env::consts::ARCH
    );
    check_libraries(&lab, &copies.client(), &servers);
    run_in_lab(&lab, 2, "hello_pmix").expect_status(0);
}

#[needs(mpirun_lab)]
#[test]
fn mpirun_and_programs_load_the_given_libraries() {
    let copies = CopiedLibraries::new();
    let setup = lab_setup(2, &copies.libraries()).share(copies.dir.path());
    let lab = MpirunLab::start(setup).unwrap();
    check_libraries(&lab, &copies.client(), "/run/server/libpmix.so.2");
    run_in_lab(&lab, 2, "hello_mpi").expect_status(0);
}

#[needs(slurm_lab)]
#[test]
fn odd_ranks_alone_use_the_given_library() {
    let copies = CopiedLibraries::new();
    let libraries = LabLibraries {
        server: ServerLibrary::Stock,
        client: ClientLibrary::DirectoryOnOddRanks(copies.client_directory()),
    };
    let setup = lab_setup(2, &libraries).share(copies.dir.path());
    let lab = SlurmLab::start(setup, &SlurmSettings::default()).unwrap();
    let done = run_in_lab(&lab, 2, "probe_pmix libraries").expect_status(0);
    for rank in 0..4 {
        let expected = format!("rank {rank}: own {}", copies.client());
        let is_given = done.stdout.lines().any(|line| line == expected);
        assert_eq!(is_given, rank % 2 == 1, "{}", done.stdout);
    }
}

#[needs(mpirun_lab)]
#[test]
fn node_has_its_own_files_and_those_that_it_is_given() {
    let given = tempfile::tempdir().unwrap();
    fs::write(given.path().join("peal.toml"), "given").unwrap();
    let setup = lab_setup(2, &LabLibraries::STOCK).mount(NodeMount {
        node: Some("n1".to_owned()),
        source: given.path().to_owned(),
        target: "/etc/peal".into(),
    });
    let lab = MpirunLab::start(setup).unwrap().lab;
    let [n1, n2] = ["n1", "n2"].map(|name| lab.node(name).unwrap());
    assert_eq!(n1.read("/etc/peal/peal.toml").unwrap(), "given");
    assert!(n2.read("/etc/peal/peal.toml").is_err());
    for path in [
        "/etc/labs",
        "/usr/labs",
        "/var/labs",
        "/tmp/labs",
        "/run/labs",
        "/dev/labs",
    ] {
        n1.write(path, "own").unwrap();
        assert!(n2.read(path).is_err(), "n2 has {path} of n1");
        assert!(!fs::exists(path).unwrap(), "the machine has {path} of n1");
    }
    let host = n2
        .command("cat")
        .arg("/proc/sys/kernel/hostname")
        .output()
        .unwrap();
    assert_eq!(host.stdout, b"n2\n");
}
