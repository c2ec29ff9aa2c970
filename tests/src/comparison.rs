//! The same C program under Peal and under the host environment on the C library's own server
//! (`tests/c/host.c`), on the C library and on Peal's.
use crate::{Done, c_program, libpmix::Release, peal, program, run};
use std::process::Command;

/// PMIx server under which a program is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ComparedServer {
    /// `peal run`.
    Peal,
    /// The server of the C library, `tests/c/host.c`.
    CLibrary,
}

impl ComparedServer {
    /// Both servers.
    pub const ALL: [ComparedServer; 2] = [ComparedServer::Peal, ComparedServer::CLibrary];
}

/// Order in which the lines of two runs are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineOrder {
    /// The lines of a rank in the order in which it printed them.
    OfRanks,
    /// Sorted, where several threads print.
    Sorted,
}

/// Run of a program, for tests with `#[needs(libpmix)]`.
#[derive(Clone, Copy)]
pub struct ProgramComparison {
    /// Program with its arguments, as tables name it.
    pub program: &'static str,
    /// Number of its procs.
    pub procs: &'static str,
    /// Exit status under both servers.
    pub exit_status: i32,
    /// Minimum number of lines that it prints.
    pub lines: usize,
    /// Order of the lines.
    pub order: LineOrder,
    /// Further options of `peal run`.
    pub options: &'static [&'static str],
}

impl ProgramComparison {
    /// Creates a run of this program with this number of procs.
    pub const fn new(
        program: &'static str,
        procs: &'static str,
        exit_status: i32,
        lines: usize,
    ) -> ProgramComparison {
        ProgramComparison {
            program,
            procs,
            exit_status,
            lines,
            order: LineOrder::OfRanks,
            options: &[],
        }
    }

    /// Compares the lines in any order.
    pub const fn sorted(self) -> ProgramComparison {
        ProgramComparison {
            order: LineOrder::Sorted,
            ..self
        }
    }

    /// Adds options of `peal run`.
    pub const fn with_options(self, options: &'static [&'static str]) -> ProgramComparison {
        ProgramComparison { options, ..self }
    }

    /// Returns the lines that it prints under Peal.
    #[track_caller]
    pub fn under_peal(&self) -> Vec<String> {
        self.on(&Release::system(), ComparedServer::Peal)
    }

    /// Returns the lines that it prints under the C server.
    #[track_caller]
    pub fn under_the_c_server(&self) -> Vec<String> {
        self.on(&Release::system(), ComparedServer::CLibrary)
    }

    /// Returns the lines that it prints on this library under this server.
    #[track_caller]
    pub fn on(&self, library: &Release, server: ComparedServer) -> Vec<String> {
        self.lines(self.launch(library, server))
    }

    /// Returns the beginning of the command that runs it on this library under this server.
    fn launch(&self, library: &Release, server: ComparedServer) -> Command {
        let mut command = match server {
            ComparedServer::Peal => {
                let mut command = peal(["run", "-n", self.procs, "--on-abort", "continue"]);
                command.args(self.options).arg("--");
                command
            }
            ComparedServer::CLibrary => {
                let mut command = Command::new(c_program("host"));
                command.args(self.host_options()).arg(self.procs);
                command
            }
        };
        // The server itself keeps its library.
        if let Some(variable) = library.variable() {
            command.args(["env", &variable]);
        }
        command
    }

    /// Returns the options of `peal run` that `tests/c/host.c` has, too.
    fn host_options(&self) -> &'static [&'static str] {
        match self.options {
            ["--stdin", ..] => self.options,
            _ => &[],
        }
    }

    /// Returns the lines that it prints on this library in the host environment of
    /// `tests/c/host.c`, which is on Peal's library and has a server of its own.
    #[track_caller]
    pub fn in_host_on_peal(&self, library: &Release) -> Vec<String> {
        let mut command = Command::new(c_program("host"));
        Release::peal()
            .of(&mut command)
            .env("PEAL_SERVER", "embedded")
            .env("PEAL_EXECUTABLE", program("peal"))
            .env("PEAL_CONFIG", "")
            .env_remove("PEAL_LOG")
            .args(self.host_options())
            .arg(self.procs);
        match library.variable() {
            Some(variable) => command.args(["env", &variable]),
            None => command.args(["env", "-u", "LD_LIBRARY_PATH"]),
        };
        self.lines(command)
    }

    /// Returns the lines that it prints on this library in the same host environment on the C
    /// library, whatever its exit status: some programs end the C library's server.
    #[track_caller]
    pub fn in_host_on_the_c_library(&self, library: &Release) -> Vec<String> {
        self.run(self.launch(library, ComparedServer::CLibrary))
            .by_rank()
    }

    /// Returns the lines that the program prints behind this command.
    #[track_caller]
    fn lines(&self, command: Command) -> Vec<String> {
        let done = self.run(command);
        let mut lines = done.expect_status(self.exit_status).by_rank();
        if self.order == LineOrder::Sorted {
            lines.sort();
        }
        lines
    }

    /// Runs the program behind this command.
    #[track_caller]
    fn run(&self, mut command: Command) -> Done {
        // An input that ends before the program has pushed its own would end that of the procs.
        let (input, open_end) = std::io::pipe().unwrap();
        if !self.host_options().is_empty() {
            command.stdin(input);
        }
        let mut words = self.program.split(' ');
        let done = run(command
            .arg(c_program(words.next().unwrap_or_default()))
            .args(words));
        drop(open_end);
        done
    }

    /// Returns the lines under both servers, Peal's first. Fails if there are fewer than expected.
    #[track_caller]
    pub fn under_both(&self) -> (Vec<String>, Vec<String>) {
        let ours = self.under_peal();
        let theirs = self.under_the_c_server();
        assert!(
            ours.len() >= self.lines,
            "{} printed next to nothing: {ours:?}",
            self.program
        );
        (ours, theirs)
    }
}

/// Part of the output that may differ: within a line, or over several.
#[derive(Clone, Copy)]
pub struct PermittedDifference<'a> {
    /// Part as printed with the C library.
    pub libpmix: &'a str,
    /// Part as printed with Peal.
    pub peal: &'a str,
}

/// Compares two outputs of a program. Each permitted difference must occur.
#[track_caller]
pub fn compare_lines(
    program: &str,
    ours: &[String],
    theirs: &[String],
    differences: &[PermittedDifference<'_>],
) {
    let mut expected: String = theirs.iter().map(|line| format!("{line}\n")).collect();
    for difference in differences {
        assert!(
            expected.contains(difference.libpmix),
            "{program}: this permitted difference no longer occurs: {}\n{expected}",
            difference.libpmix
        );
        expected = expected.replace(difference.libpmix, difference.peal);
    }
    for (ours, expected) in ours.iter().zip(expected.lines()) {
        assert_eq!(
            ours, expected,
            "{program}: a difference that the table of differences does not allow"
        );
    }
    assert_eq!(
        ours.len(),
        expected.lines().count(),
        "{program}: one of them printed more: {ours:#?}\n{expected}"
    );
}
