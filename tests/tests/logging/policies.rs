//! Policies for logging in a running server: the shipped `log-limit`, before the channel `stdio`.
use peal_client::ClientError;
use peal_core::{policy::OnFailure, registration::ChainPlacement};
use peal_launcher::EmbeddedHostEnvironment;
use peal_model::{Hook, Info, Key, KeyName, LogRequest, Status, Value, code, key};
use peal_needs::needs;
use peal_sandbox::{
    Capability, Engine, EngineSettings, Grants, Module, ModuleLimits, Services, Sink,
};
use peal_server::{
    Hosted, HostedChannels, HostedPolicies, InProcessNetwork, Notices, ServerSettings,
};
use peal_tests::{
    c_program, guest,
    in_process::{Modules, Node, soon},
    memory_state::MemoryState,
    peal, run,
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const TOKEN: KeyName = KeyName("site.token");

/// Destination of a test's channel.
#[derive(Default)]
struct Paper(Mutex<String>);

impl Paper {
    fn taken(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Sink for Paper {
    fn write(&self, _: &LogRequest, bytes: &[u8]) -> Result<(), Status> {
        self.0
            .lock()
            .unwrap()
            .push_str(&String::from_utf8_lossy(bytes));
        Ok(())
    }
}

fn load(engine: &Engine, name: &str, grants: &[Capability], services: Services) -> Arc<Module> {
    let patience = Duration::from_secs(60);
    let limits = ModuleLimits {
        call_time: patience,
        host_call_time: patience,
        ..ModuleLimits::default()
    };
    let bytes = std::fs::read(guest(name)).unwrap();
    let grants = grants.iter().copied().collect::<Grants>();
    Arc::new(Module::load(engine, name, &bytes, &grants, limits, services).unwrap())
}

/// Starts a server with this policy, the channels stdout and stderr on these destinations, and a
/// job of two procs.
async fn node(settings: &[Info]) -> (Node, Arc<Paper>, Arc<Paper>) {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let out = Arc::new(Paper::default());
    let err = Arc::new(Paper::default());
    let sinks = [("stdout", &out), ("stderr", &err)];
    let sinks = sinks
        .map(|(name, paper)| (name.to_owned(), paper.clone() as Arc<dyn Sink>))
        .into();
    let stdio = load(
        &engine,
        "stdio",
        &[Capability::Sink],
        Services {
            sinks,
            ..Services::default()
        },
    );
    let mut channels = HostedChannels::default();
    let keys = vec![
        Key::from(key::PMIX_LOG_STDOUT),
        Key::from(key::PMIX_LOG_STDERR),
    ];
    channels
        .register("stdio", keys, ChainPlacement::Append, stdio)
        .unwrap();
    let services = Services {
        state: Some(Arc::new(MemoryState::default())),
        ..Services::default()
    };
    let policy = load(
        &engine,
        "log-limit",
        &[Capability::Clock, Capability::State],
        services,
    );
    policy.init(settings).unwrap();
    let mut policies = HostedPolicies::default();
    policies
        .register(
            Hook::Log,
            "log-limit",
            ChainPlacement::Append,
            OnFailure::Deny,
            policy,
        )
        .unwrap();
    let modules = Modules {
        hosted: Hosted {
            channels,
            policies,
            ..Hosted::default()
        },
        ..Modules::default()
    };
    let host = Arc::new(EmbeddedHostEnvironment::new(Notices::default()));
    let node = Node::with(
        modules,
        host,
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "job",
        2,
    )
    .await;
    (node, out, err)
}

fn setting(name: &str, value: Value) -> Info {
    Info::new(Key::new(name).unwrap(), value)
}

fn text(key: KeyName, text: &str) -> Info {
    Info::new(key, Value::string(text))
}

fn status<T>(outcome: Result<T, ClientError>) -> Status {
    outcome.map_or_else(|error| error.status(), |_| code::PMIX_SUCCESS)
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn log_request_is_written_as_amended_by_policy() {
    let settings = [
        setting("redact", Value::string(TOKEN.0)),
        setting("divert", Value::string("job=pmix.log.stderr")),
    ];
    let (node, out, err) = node(&settings).await;
    let client = node.client(0).await;
    let log = async |data: &[Info]| status(soon("it is answered", client.log(data, &[])).await);
    let data = [text(key::PMIX_LOG_STDOUT, "hello"), text(TOKEN, "hunter2")];
    assert_eq!(log(&data).await, code::PMIX_SUCCESS);
    assert_eq!(
        (out.taken(), err.taken()),
        (String::new(), "hello\nsite.token: (redacted)\n".to_owned())
    );
    assert_eq!(
        log(&[text(key::PMIX_LOG_STDERR, "as it is")]).await,
        code::PMIX_SUCCESS
    );
    assert_eq!(
        (out.taken(), err.taken()),
        (String::new(), "as it is\n".to_owned())
    );
    assert_eq!(node.server.counters().decisions.get(), 2);
    // An invalid request is still invalid.
    assert_eq!(log(&[]).await, code::PMIX_ERR_BAD_PARAM);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn excessive_log_requests_are_denied_and_not_written() {
    let (node, out, _) = node(&[
        setting("per_minute", Value::Int64(3)),
        setting("exempt", Value::string("")),
    ])
    .await;
    let one = node.client(0).await;
    let two = node.client(1).await;
    let data = |words| [text(key::PMIX_LOG_STDOUT, words)];
    assert_eq!(
        status(soon("it is answered", one.log(&data("1\n2"), &[])).await),
        code::PMIX_SUCCESS
    );
    // Both procs have the same user.
    let denied = status(soon("it is answered", two.log(&data("3\n4\n5"), &[])).await);
    assert_eq!(denied, code::PMIX_ERR_RESOURCE_BUSY);
    assert_eq!(node.server.counters().requests_denied.get(), 1);
    assert_eq!(
        status(soon("it is answered", two.log(&data("3"), &[])).await),
        code::PMIX_SUCCESS
    );
    assert_eq!(out.taken(), "1\n2\n3\n");
}

/// This part of the test is empty without `libpmix`.
#[needs(prepared, libpmix)]
#[test]
fn libpmix_log_goes_to_destination_of_policy() {
    let program = c_program("control");
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    let text = format!(
        "store.path = {:?}\n[[module]]\nname = \"stdio\"\npath = {:?}\nchannels = [\"stdout\", \"stderr\"]\n\
         grants = [\"sink\"]\nsinks = [\"stdout\", \"stderr\"]\n\
         [[module]]\nname = \"log-limit\"\npath = {:?}\ngrants = [\"clock\", \"state\"]\n\
         config = {{ divert = \"*=pmix.log.stderr\" }}\n",
        dir.path().join("store.db"),
        guest("stdio"),
        guest("log-limit"),
    );
    std::fs::write(&config, text).unwrap();
    let mut command = peal(["run", "-n", "1"]);
    let done = run(command
        .arg("--config")
        .arg(&config)
        .arg("--")
        .arg(program)
        .arg("log"))
    .expect_status(0);
    assert_eq!(done.stdout, "rank 0: log: SUCCESS (0)\n");
    // On a busy machine `peal` says first that it compiles the modules.
    let logged = "rank 0 logs to stdout\nrank 0 logs to stderr\n";
    assert!(done.stderr.ends_with(logged), "{}", done.stderr);
}
