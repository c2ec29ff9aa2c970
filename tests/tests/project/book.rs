//! The commands of the book's pages, run as they are written. Those of README.md are in
//! `readme.rs`.
//!
//! A page's blocks (```` ```sh ````) run in one shell, in the order of the page. Two comments are
//! for tests alone. `<!-- test: COMMANDS -->` adds commands that readers do not see. `<!-- test
//! ignores: REASON -->` leaves out the next block.
use peal_needs::needs;
use peal_tests::{root, run_within, shell::Shell};
use std::{fs, path::Path, time::Duration};

/// Time limit of a page on which a module is compiled for the first time.
const LONGEST_PAGE: Duration = Duration::from_secs(600);

const HIDDEN: &str = "<!-- test: ";
const IGNORES: &str = "<!-- test ignores: ";

/// Returns the commands of a page, and their number of blocks.
fn commands(page: &str) -> (String, usize) {
    let mut commands = String::new();
    let mut blocks = 0;
    let mut is_ignored = false;
    let mut is_inside = false;
    let mut is_run = false;
    for line in page.lines() {
        if is_inside {
            is_inside = line != "```";
            if is_inside && is_run {
                commands += &format!("{line}\n");
            }
        } else if let Some(rest) = line.strip_prefix(HIDDEN) {
            let hidden = rest
                .strip_suffix(" -->")
                .expect("a comment ends on its line");
            commands += &format!("{hidden}\n");
        } else if let Some(rest) = line.strip_prefix(IGNORES) {
            assert!(rest.len() > 10, "a reason stands here: {line}");
            is_ignored = true;
        } else if let Some(language) = line.strip_prefix("```") {
            is_inside = true;
            is_run = language == "sh" && !std::mem::take(&mut is_ignored);
            blocks += usize::from(is_run);
        }
    }
    (commands, blocks)
}

fn page(name: &str) -> String {
    let file = root().join("docs/src").join(name);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[track_caller]
fn run_page(name: &str) {
    let (commands, blocks) = commands(&page(name));
    assert!(blocks > 0, "{name} has no commands to run");
    let shell = Shell::new();
    let done = run_within(LONGEST_PAGE, &mut shell.script(&commands));
    assert_eq!(
        done.status,
        Some(0),
        "{name}\n{commands}\n{}\n{}",
        done.stdout,
        done.stderr
    );
}

/// Defines a test for each page, and the list of all pages.
macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        $(
            #[needs(prepared)]
            #[test]
            fn $test() {
                run_page($page);
            }
        )*

        const PAGES: &[&str] = &[$($page),*];
    };
}

pages! {
    commands_about_jobs_run: "run/jobs.md",
    commands_about_events_run: "run/events.md",
    commands_about_control_run: "run/control.md",
    commands_about_groups_run: "run/groups.md",
    commands_about_other_servers_run: "run/foreign-servers.md",
    commands_about_the_command_line_run: "run/command-line.md",
    commands_about_installations_run: "admin/install.md",
    commands_about_servers_run: "admin/server.md",
    commands_about_live_view_run: "admin/live-view.md",
    commands_about_configuration_run: "admin/configuration.md",
    commands_about_policies_run: "admin/policies.md",
    commands_about_logging_run: "admin/logging.md",
    commands_about_deployment_run: "admin/modules.md",
    commands_about_clusters_run: "admin/cluster.md",
    commands_about_trouble_run: "admin/troubleshooting.md",
    commands_about_first_module_run: "modules/first-module.md",
    commands_about_inspection_run: "audit/inspect.md",
    commands_about_audit_run: "audit/trail.md",
}

/// Pages with needs of their own: a program that is linked with the C library, and modules.
const PAGES_WITH_NEEDS: [&str; 4] = [
    "modules/cpp.md",
    "modules/go.md",
    "modules/typescript.md",
    "run/libpmix.md",
];

#[needs(prepared, cpp_tools)]
#[test]
fn commands_about_cpp_run() {
    run_page("modules/cpp.md");
}

#[needs(prepared, go_tools)]
#[test]
fn commands_about_go_run() {
    run_page("modules/go.md");
}

#[needs(prepared, ts_tools)]
#[test]
fn commands_about_typescript_run() {
    run_page("modules/typescript.md");
}

#[needs(prepared, libpmix)]
#[test]
fn commands_about_libpmix_run() {
    run_page("run/libpmix.md");
}

/// Returns the pages below a directory, relative to the sources of the book.
fn pages_below(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let page = path.strip_prefix(root().join("docs/src")).unwrap();
            found.push(page.to_str().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn each_page_with_commands_is_run() {
    let mut with_commands = pages_below(&root().join("docs/src"));
    with_commands.retain(|name| commands(&page(name)).1 > 0);
    with_commands.sort();
    let mut run = PAGES.to_vec();
    run.extend(PAGES_WITH_NEEDS);
    run.sort_unstable();
    assert_eq!(with_commands, run, "a page with commands needs a test here");
}

#[test]
fn ignored_blocks_are_left_out_and_hidden_commands_are_run() {
    let text = "<!-- test: one -->\n```sh\ntwo\n```\n```text\nno\n```\n<!-- test ignores: needs a cluster -->\n```sh\nno\n```\n```sh\nthree\n```\n";
    assert_eq!(commands(text), ("one\ntwo\nthree\n".to_owned(), 2));
}
