//! Tests that measure their whole process: its memory, its panics.
use std::process::Command;

/// Variable that makes a test binary run one isolated test.
const ISOLATED: &str = "PEAL_TEST_ISOLATED";

/// Runs `test` in a process of its own: this binary starts itself again with the same test alone.
/// `module` is the `module_path!()` of the test and `name` its function.
///
/// Tests of one binary share a process. A bound on its memory, or a count of its panics, would
/// include those of other tests.
#[track_caller]
pub fn isolated(module: &str, name: &str, test: impl FnOnce()) {
    if std::env::var_os(ISOLATED).is_some() {
        test();
    } else {
        let path = module
            .split_once("::")
            .map_or(name.to_owned(), |(_, module)| format!("{module}::{name}"));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([path.as_str(), "--exact", "--nocapture"]);
        let output = command.env(ISOLATED, "1").output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        print!("{stdout}");
        assert!(
            output.status.success() && stdout.contains("1 passed"),
            "{path} failed in its own process\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
