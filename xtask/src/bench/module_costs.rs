//! Costs of modules: the first call after a start and the memory of an instance, by the language of the component;
//! and servers with many modules.
use super::{
    arm::{HANDLES, Hosts, JobMeasurement, Side, Values, handler_modules, modules, section},
    launch::{self, Scratch},
    memory,
    programs::Programs,
    samples::Spread,
    served::ServerDirectory,
};
use anyhow::{Context, Result};
use peal_declaration::add_custom_section;
use std::fs;

/// Language of a handler that returns what it gets (`echo`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuestLanguage {
    /// Rust.
    Rust,
    /// C.
    C,
    /// C++.
    Cpp,
    /// Go.
    Go,
    /// JavaScript.
    JavaScript,
    /// TypeScript.
    TypeScript,
    /// Python.
    Python,
}

impl GuestLanguage {
    /// All languages.
    pub const ALL: [GuestLanguage; 7] = [
        GuestLanguage::Rust,
        GuestLanguage::C,
        GuestLanguage::Cpp,
        GuestLanguage::Go,
        GuestLanguage::JavaScript,
        GuestLanguage::TypeScript,
        GuestLanguage::Python,
    ];

    /// Returns the name for readers.
    pub fn name(self) -> &'static str {
        match self {
            GuestLanguage::Rust => "Rust",
            GuestLanguage::C => "C",
            GuestLanguage::Cpp => "C++",
            GuestLanguage::Go => "Go",
            GuestLanguage::JavaScript => "JavaScript",
            GuestLanguage::TypeScript => "TypeScript",
            GuestLanguage::Python => "Python",
        }
    }

    /// Returns the name of the component, which names of arms have.
    pub fn component(self) -> &'static str {
        match self {
            GuestLanguage::Rust => "echo",
            GuestLanguage::C => "echo-c",
            GuestLanguage::Cpp => "echo-cpp",
            GuestLanguage::Go => "echo-go",
            GuestLanguage::JavaScript => "echo-js",
            GuestLanguage::TypeScript => "echo-ts",
            GuestLanguage::Python => "echo-python",
        }
    }
}

/// Measures the first event of jobs through a handler, until the event that answers it is there, in microseconds:
/// the median of this number of jobs, each with a server of its own.
pub fn first_call(programs: &Programs, language: GuestLanguage, count: u32) -> Result<Values> {
    let first = || {
        let scratch = Scratch::new()?;
        let job = JobMeasurement {
            side: Side::PealClient,
            procs: 1,
            mode: "pingpong",
            count: 1,
            warm: 0,
            extra: 0,
            hosts: Hosts::Echo(language),
        };
        let printed = launch::finish(job.command(programs, &scratch)?, &scratch)?;
        launch::value(&printed, "us")
    };
    // The first server compiles the component.
    first()?;
    let times = (0..count).map(|_| first()).collect::<Result<Vec<f64>>>()?;
    let times = Spread::of(times).context("nothing was measured")?;
    Ok(vec![("us".to_owned(), times.median)])
}

/// Measures the growth of a server from few modules of a component to many, after an event has passed all of them, in
/// KiB for each.
pub fn memory_of_instance(
    programs: &Programs,
    language: GuestLanguage,
    few: u32,
    many: u32,
) -> Result<Values> {
    let less = with_instances(programs, language, few)?;
    let more = with_instances(programs, language, many)?;
    let each = (more - less) / f64::from(many - few);
    Ok(vec![("kib_per_module".to_owned(), each)])
}

/// Returns the proportional memory in KiB of a server whose modules have each handled an event.
fn with_instances(programs: &Programs, language: GuestLanguage, modules: u32) -> Result<f64> {
    let scratch = Scratch::new()?;
    let directory = ServerDirectory::new(programs, &scratch);
    let server = directory.start(&handler_modules(programs, language.component(), modules))?;
    directory.pingpong(1, 0)?;
    let memory = memory::of_family_at_rest(server.pid())?;
    directory.stop(server)?;
    Ok(memory.pss_kib)
}

/// Modules of a server, besides its policy, that do nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdleModules {
    /// None.
    Nothing,
    /// This number of the same component.
    Same(u32),
    /// This number, each with a component of its own.
    Different(u32),
}

impl IdleModules {
    /// Returns their sections. Writes the components that differ.
    pub fn sections(self, programs: &Programs, directory: &ServerDirectory<'_>) -> Result<String> {
        match self {
            IdleModules::Nothing => Ok(String::new()),
            IdleModules::Same(count) => Ok(modules(programs, "noop", count, HANDLES)),
            IdleModules::Different(modules) => different_modules(programs, directory, modules),
        }
    }
}

fn different_modules(
    programs: &Programs,
    directory: &ServerDirectory<'_>,
    modules: u32,
) -> Result<String> {
    let own = directory.path("components");
    fs::create_dir_all(&own)?;
    let component = fs::read(programs.component("noop"))?;
    let sections = (0..modules).map(|number| {
        let name = format!("noop-{number}");
        let path = own.join(&name).with_extension("wasm");
        let mut component = component.clone();
        add_custom_section(&mut component, "bench", &number.to_le_bytes());
        fs::write(&path, component)?;
        Ok(section(&name, &path, HANDLES))
    });
    sections.collect()
}
