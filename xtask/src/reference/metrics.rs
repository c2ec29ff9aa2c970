//! Reference page of metrics, from `peal stats -o json` of a server that measures everything: it has
//! a store, an audit trail, sinks, a cluster, a collector, and a module that reaches a limit.
use super::cell;
use crate::command::run_quietly;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Time limit until the server answers and the module was called.
const PATIENCE: Duration = Duration::from_secs(60);

/// Collector of the server's telemetry, which does not run.
const COLLECTOR: &str = "http://127.0.0.1:1";

/// NATS server of the server's cluster, which does not run.
const NATS_SERVER: &str = "tls://127.0.0.1:1";

/// Labels of metrics of which a fresh server has no sample: the usage of users other than root and
/// the server's user.
const LABELS_WITHOUT_SAMPLE: [(&str, &str); 2] = [
    ("peal_user_usage", "`resource`, `uid`"),
    ("peal_user_refusals", "`resource`, `uid`"),
];

/// Returns the page.
pub fn page(root: &Path) -> Result<String> {
    let server = ReferenceServer::start(root)?;
    let families = server.families()?;
    ensure!(
        families.len() > 50,
        "{} metrics are too few",
        families.len()
    );
    let mut page = String::from(
        "# Metrics\n\nGenerated from a server's `peal stats -o json` by `cargo xtask docs`. `metrics.listen` serves the same numbers to Prometheus, as OpenMetrics: \
         counters end in `_total` there. Metrics of the store, the audit trail, sinks, the cluster and telemetry exist where these are configured.\n\n\
         | metric | kind | unit | labels | meaning |\n|---|---|---|---|---|\n",
    );
    for family in &families {
        let text = |key: &str| family.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = text("name");
        let labels = match LABELS_WITHOUT_SAMPLE
            .iter()
            .find(|(metric, _)| *metric == name)
        {
            Some((_, labels)) => (*labels).to_owned(),
            None => labels(family),
        };
        let kind = text("kind");
        let unit = text("unit");
        let help = cell(text("help"));
        writeln!(page, "| `{name}` | {kind} | {unit} | {labels} | {help} |")?;
    }
    Ok(page)
}

/// Returns the names of the labels of a metric's samples.
fn labels(family: &Value) -> String {
    let samples = family
        .get("samples")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let names: BTreeSet<&String> = samples
        .filter_map(|sample| sample.get("labels")?.as_object())
        .flat_map(|labels| labels.keys())
        .collect();
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Server for this page alone, in a directory of its own. It ends when this is dropped.
struct ReferenceServer {
    program: PathBuf,
    dir: PathBuf,
    child: Child,
}

impl ReferenceServer {
    fn start(root: &Path) -> Result<ReferenceServer> {
        let dir = root.join("target/reference-server");
        // Remove the directory of an earlier run.
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {}", dir.display()));
            }
            _ => fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?,
        }
        let module = root.join("target/guests/complete.wasm");
        // The first call hits the limit of host calls, so that the metrics of limits have a sample.
        let configuration = format!(
            "[store]\npath = \"store.db\"\n[audit]\npath = \"audit.db\"\non_failure = \"continue\"\n\
             [cluster]\nname = \"site\"\nnode = \"n1\"\nservers = [\"{NATS_SERVER}\"]\n\
             credentials = \"cluster/nodes/n1/node.seed\"\nca = \"cluster/ca.pem\"\n\
             [telemetry]\nendpoint = \"{COLLECTOR}\"\n\
             [[sink]]\nname = \"board\"\nfile.path = {:?}\n\
             [[module]]\nname = \"complete\"\npath = {module:?}\nevent_classes = \"both\"\nlimits.host_calls = 1\n",
            dir.join("board.log")
        );
        fs::write(dir.join("peal.toml"), configuration).context("writing peal.toml")?;
        let program = root.join("target/debug/peal");
        let init = [
            "cluster", "init", "--dir", "cluster", "--name", "site", "--node", "n1",
        ];
        let mut init = command(&program, &dir, &init);
        run_quietly(init.args(["--server", NATS_SERVER]))?;
        let child = command(&program, &dir, &["serve"])
            .stdin(Stdio::null())
            .stderr(fs::File::create(dir.join("trace"))?)
            .spawn()
            .context("starting `peal serve`")?;
        Ok(ReferenceServer {
            program,
            dir,
            child,
        })
    }

    /// Returns the metrics, when the module has been called once.
    fn families(&self) -> Result<Vec<Value>> {
        let start = Instant::now();
        let mut is_raised = false;
        loop {
            // This fails until the server listens.
            let stats = run_quietly(&mut command(
                &self.program,
                &self.dir,
                &["stats", "-o", "json"],
            ));
            let failure = match stats {
                Ok(text) => {
                    let stats: Value =
                        serde_json::from_str(&text).context("invalid output of `peal stats`")?;
                    let families = stats.get("families").and_then(Value::as_array);
                    let families = families.context("`peal stats -o json` has no `families`")?;
                    if families.iter().any(is_limit_hit) {
                        return Ok(families.clone());
                    }
                    if !is_raised {
                        let event = ["event", "notify", "-3001", "--range", "session"];
                        run_quietly(&mut command(&self.program, &self.dir, &event))?;
                        is_raised = true;
                    }
                    "no module has hit a limit".to_owned()
                }
                Err(error) => format!("{error:#}"),
            };
            if start.elapsed() > PATIENCE {
                let trace = fs::read_to_string(self.dir.join("trace")).unwrap_or_default();
                bail!("the server for the page of metrics: {failure}\n{trace}");
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for ReferenceServer {
    fn drop(&mut self) {
        // This fails if the server has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_limit_hit(family: &Value) -> bool {
    let samples = family.get("samples").and_then(Value::as_array);
    family.get("name").and_then(Value::as_str) == Some("peal_module_limit_hits")
        && samples.is_some_and(|samples| !samples.is_empty())
}

/// Returns a command about the server whose files are in this directory.
fn command(program: &Path, dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(words)
        .current_dir(dir)
        .env("PEAL_CONFIG", dir.join("peal.toml"))
        .env("PEAL_ADMIN_SOCKET", dir.join("admin.sock"))
        .env("PEAL_SANDBOX_CACHE_DIR", dir.join("cache"))
        .env("PEAL_TOOLS_SESSION_DIR", dir)
        .env("PEAL_TOOLS_SYSTEM_DIR", dir)
        .env("PMIX_SERVER_TMPDIR", dir)
        .env("PMIX_SYSTEM_TMPDIR", dir)
        .env("TMPDIR", dir);
    command
}
