//! A process of a user that a component has taken over: what it sends to the server, and what it asks
//! for. And a process to which something else than a server speaks.
use peal_frames::{MessageDecoder, MessageStream, encode};
use peal_model::{Event, Range, Status, code};
use peal_needs::needs;
use peal_sandbox::{
    CallUsage, FailureKind, FuelCount, Grants, HandlerResult, ModuleLimits, Services, StateStore,
    TenantLimits, inspect,
};
use peal_tenant::{
    ChainCall, ChainNumber, ChainOrder, ChainReply, FROM_RUNTIME, HandlerOrder, HandlerReply,
    LineLevel, ModuleAnswer, ModuleNumber, ModuleOrder, ModuleReply, ModuleRequest,
    OfferedServices, PROTOCOL, RuntimeHello, RuntimeSettings, ServiceAnswer, ServiceCall,
    ServiceRequest, SideEffects, StartedRuntime, TO_RUNTIME, TenantModule, TenantRuntimes,
    TraceLine, serve_tenant,
};
use peal_tests::guest;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::{
    fs,
    io::{IoSliceMut, Write},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const UID: u32 = 4321;

/// Process that keeps to no protocol.
struct RogueProcess {
    modules: UnixStream,
    services: UnixStream,
    chain: UnixStream,
}

impl RogueProcess {
    /// Takes the first message and its connections.
    fn greeted(modules: UnixStream) -> RogueProcess {
        let mut bytes = [0; 8196];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &modules,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
        .unwrap();
        let mut ends: Vec<OwnedFd> = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                ends.extend(descriptors);
            }
        }
        let mut decoder = MessageDecoder::new(TO_RUNTIME);
        decoder.push(&bytes[..received.bytes]);
        let hello: RuntimeHello = decoder.next_message().unwrap().unwrap();
        assert_eq!(hello.protocol, PROTOCOL);
        let [services, chain] = <[OwnedFd; 2]>::try_from(ends)
            .unwrap()
            .map(UnixStream::from);
        RogueProcess {
            modules,
            services,
            chain,
        }
    }

    fn say(stream: &mut UnixStream, message: &impl serde::Serialize) {
        stream
            .write_all(&encode(message, FROM_RUNTIME).unwrap())
            .unwrap();
    }

    /// Says that it is ready, and that it has loaded one module. Returns the number of that.
    fn load_one(&mut self) -> ModuleNumber {
        let reply = |answer| ModuleReply {
            answer: Ok(answer),
            side_effects: SideEffects::default(),
        };
        RogueProcess::say(&mut self.modules, &reply(ModuleAnswer::Done));
        let mut reader = MessageStream::new(self.modules.try_clone().unwrap(), TO_RUNTIME);
        let request: ModuleRequest = reader.next_message().unwrap().unwrap();
        let ModuleRequest::Load { module, .. } = request else {
            panic!("{request:?}");
        };
        let loaded = ModuleAnswer::Loaded {
            registrations: Vec::new(),
            memory: 1,
        };
        RogueProcess::say(&mut self.modules, &reply(loaded));
        module
    }

    fn next_call(&mut self) -> ChainCall {
        let mut reader = MessageStream::new(self.chain.try_clone().unwrap(), TO_RUNTIME);
        reader.next_message().unwrap().unwrap()
    }
}

/// Starts processes that do this.
fn runtimes(act: impl Fn(RogueProcess) + Send + Sync + 'static) -> TenantRuntimes {
    let act = Arc::new(act);
    let start = move |_uid| {
        let (ours, theirs) = UnixStream::pair()?;
        let act = act.clone();
        thread::spawn(move || act(RogueProcess::greeted(theirs)));
        Ok(StartedRuntime {
            connection: ours,
            pid: std::process::id(),
        })
    };
    TenantRuntimes::new(Arc::new(start), settings())
}

fn settings() -> RuntimeSettings {
    RuntimeSettings {
        code_dir: PathBuf::from("/nowhere"),
        code_owner: 0,
        fuel: FuelCount::WhereLimited,
        max_instances: 4,
        threads: 1,
        owner_limits: TenantLimits::default(),
    }
}

fn load(runtimes: &TenantRuntimes, services: Services) -> Arc<TenantModule> {
    let component = fs::read(guest("echo")).unwrap();
    let inspection = inspect(&component).unwrap();
    let order = ModuleOrder {
        name: "echo".to_owned(),
        owner: format!("user {UID}"),
        component: component.into(),
        grants: Grants::tenant(),
        limits: ModuleLimits {
            call_time: Duration::from_millis(1),
            host_call_time: Duration::from_millis(1),
            ..ModuleLimits::default()
        },
        settings: Vec::new(),
        services: OfferedServices::default(),
    };
    runtimes.load(UID, order, inspection, services).unwrap().0
}

async fn run(module: &Arc<TenantModule>, handlers: usize) -> Vec<HandlerReply> {
    let handler = |registration: usize| HandlerOrder {
        module: module.number(),
        registration: registration as u64,
        tag: 0,
        name: "echo".into(),
        object: None,
    };
    let order = ChainOrder {
        event_number: 1,
        event: Arc::new(Event {
            code: Status(-77),
            source: None,
            range: Range::Session,
            infos: Vec::new(),
        }),
        identity: None,
        steps: Arc::default(),
        handlers: (0..handlers).map(handler).collect(),
        time: Duration::from_secs(60),
    };
    module.runtime().run_chain(order).await
}

fn returned(status: Status) -> HandlerReply {
    HandlerReply {
        result: HandlerResult {
            status,
            infos: Vec::new(),
            notifications: Vec::new(),
            changes: Vec::new(),
            controls: Vec::new(),
            reports: Vec::new(),
            failure: None,
            usage: CallUsage::default(),
        },
        time: Duration::ZERO,
        memory: 0,
        health: None,
    }
}

fn reply(number: ChainNumber, status: Status) -> ChainReply {
    ChainReply {
        number,
        results: vec![returned(status)],
        side_effects: SideEffects::default(),
    }
}

#[needs(prepared)]
#[tokio::test]
async fn malformed_early_or_repeated_results_cost_only_their_calls() {
    type Act = fn(&mut RogueProcess);
    let acts: [(&str, Act); 6] = [
        ("no message", |rogue| {
            rogue.next_call();
            rogue
                .chain
                .write_all(&[8, 0, 0, 0, 0xc1, 1, 2, 3, 4, 5, 6, 7])
                .unwrap();
        }),
        ("a length beyond the limit", |rogue| {
            rogue.next_call();
            rogue.chain.write_all(&u32::MAX.to_le_bytes()).unwrap();
        }),
        ("a result before any call", |rogue| {
            RogueProcess::say(&mut rogue.chain, &reply(ChainNumber(7), code::PMIX_SUCCESS));
        }),
        ("a result of another call", |rogue| {
            let call = rogue.next_call();
            let other = ChainNumber(call.number.0 + 1);
            RogueProcess::say(&mut rogue.chain, &reply(other, code::PMIX_SUCCESS));
        }),
        ("half a message", |rogue| {
            let call = rogue.next_call();
            let frame = encode(&reply(call.number, code::PMIX_SUCCESS), FROM_RUNTIME).unwrap();
            rogue.chain.write_all(&frame[..frame.len() / 2]).unwrap();
            rogue.chain.shutdown(std::net::Shutdown::Write).unwrap();
        }),
        ("nothing", |rogue| {
            rogue.next_call();
            rogue.chain.shutdown(std::net::Shutdown::Both).unwrap();
        }),
    ];
    for (what, act) in acts {
        let runtimes = runtimes(move |mut rogue| {
            rogue.load_one();
            act(&mut rogue);
            // Nothing that it does later matters: it stays while the test looks.
            let _ = MessageStream::new(rogue.modules, TO_RUNTIME).next_message::<ModuleRequest>();
        });
        let module = load(&runtimes, Services::default());
        let replies = run(&module, 2).await;
        assert_eq!(replies.len(), 2, "{what}");
        for reply in replies {
            assert_eq!(
                reply.result.failure.unwrap().kind,
                FailureKind::Unavailable,
                "{what}"
            );
        }
    }
}

#[needs(prepared)]
#[tokio::test]
async fn second_result_of_a_call_ends_the_process() {
    let runtimes = runtimes(|mut rogue| {
        rogue.load_one();
        let call = rogue.next_call();
        let twice = reply(call.number, code::PMIX_EVENT_NO_ACTION_TAKEN);
        RogueProcess::say(&mut rogue.chain, &twice);
        RogueProcess::say(&mut rogue.chain, &twice);
        let _ = MessageStream::new(rogue.modules, TO_RUNTIME).next_message::<ModuleRequest>();
    });
    let module = load(&runtimes, Services::default());
    let replies = run(&module, 1).await;
    assert_eq!(replies[0].result.status, code::PMIX_EVENT_NO_ACTION_TAKEN);
    // The second one counts for no later call.
    let replies = run(&module, 1).await;
    let failure = replies[0].result.failure.as_ref().unwrap();
    assert!(
        failure.reason.contains("answered another request"),
        "{failure}"
    );
}

#[needs(prepared)]
#[tokio::test]
async fn module_is_loaded_again_if_its_process_ends_meanwhile() {
    let starts = AtomicUsize::new(0);
    let runtimes = runtimes(move |mut rogue| {
        let ready = ModuleReply {
            answer: Ok(ModuleAnswer::Done),
            side_effects: SideEffects::default(),
        };
        if starts.fetch_add(1, Ordering::Relaxed) == 0 {
            RogueProcess::say(&mut rogue.modules, &ready);
        } else {
            rogue.load_one();
            let call = rogue.next_call();
            let result = reply(call.number, code::PMIX_EVENT_NO_ACTION_TAKEN);
            RogueProcess::say(&mut rogue.chain, &result);
        }
        // The first process ends when it is asked to load the module.
        let _ = MessageStream::new(rogue.modules, TO_RUNTIME).next_message::<ModuleRequest>();
    });
    let module = load(&runtimes, Services::default());
    let replies = run(&module, 1).await;
    assert_eq!(replies[0].result.status, code::PMIX_EVENT_NO_ACTION_TAKEN);
}

/// State of one module.
#[derive(Default)]
struct OwnState(Mutex<Vec<String>>);

impl StateStore for OwnState {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Status> {
        self.0.lock().unwrap().push(key.to_owned());
        Ok(Some(b"its own".to_vec()))
    }

    fn set(&self, _key: &str, _value: &[u8]) -> Result<(), Status> {
        Err(code::PMIX_ERR_OUT_OF_RESOURCE)
    }

    fn delete(&self, _key: &str) -> Result<(), Status> {
        Ok(())
    }

    fn keys(&self, _prefix: &str) -> Result<Vec<String>, Status> {
        Ok(Vec::new())
    }
}

#[needs(prepared)]
#[tokio::test]
async fn requests_reach_what_their_module_has_and_no_more() {
    let (sender, answers) = std::sync::mpsc::channel();
    let runtimes = runtimes(move |mut rogue| {
        let own = rogue.load_one();
        let mut ask = |module: ModuleNumber, request: ServiceRequest| -> ServiceAnswer {
            RogueProcess::say(&mut rogue.services, &ServiceCall { module, request });
            let mut reader = MessageStream::new(rogue.services.try_clone().unwrap(), TO_RUNTIME);
            reader.next_message().unwrap().unwrap()
        };
        let get = |key: &str| ServiceRequest::GetState {
            key: key.to_owned(),
        };
        let answers = [
            ask(own, get("here")),
            ask(ModuleNumber(own.0 + 1), get("here")),
            ask(own, get("")),
            ask(own, get(&"long".repeat(1000))),
            ask(
                own,
                ServiceRequest::SetState {
                    key: "a".to_owned(),
                    value: vec![0; 1 << 20].into(),
                },
            ),
            ask(
                own,
                ServiceRequest::SetState {
                    key: "a".to_owned(),
                    value: vec![0; 10].into(),
                },
            ),
            ask(own, ServiceRequest::Usage { procs: Vec::new() }),
            ask(
                own,
                ServiceRequest::Directory {
                    directory: "etc".to_owned(),
                    path: "shadow".to_owned(),
                    work: peal_tenant::DirectoryWork::Read,
                },
            ),
        ];
        sender.send(answers).unwrap();
    });
    let state = Arc::new(OwnState::default());
    let services = Services {
        state: Some(state.clone()),
        ..Services::default()
    };
    let _module = load(&runtimes, services);
    let answers = answers.recv_timeout(Duration::from_secs(60)).unwrap();
    let refused = ServiceAnswer::Refused;
    assert_eq!(
        answers,
        [
            ServiceAnswer::Bytes(b"its own".as_slice().into()),
            refused(code::PMIX_ERR_NOT_FOUND),
            refused(code::PMIX_ERR_BAD_PARAM),
            refused(code::PMIX_ERR_BAD_PARAM),
            refused(code::PMIX_ERR_BAD_PARAM),
            refused(code::PMIX_ERR_OUT_OF_RESOURCE),
            refused(code::PMIX_ERR_NOT_SUPPORTED),
            refused(code::PMIX_ERR_NOT_FOUND),
        ]
    );
    assert_eq!(
        *state.0.lock().unwrap(),
        ["here"],
        "only what was allowed reached it"
    );
}

#[needs(prepared)]
#[tokio::test]
async fn extra_results_and_lines_change_nothing_else() {
    let runtimes = runtimes(|mut rogue| {
        rogue.load_one();
        let call = rogue.next_call();
        let line = TraceLine {
            level: LineLevel::Error,
            module: "the server\u{1b}[2J".to_owned(),
            message: "forged\nline".to_owned(),
        };
        RogueProcess::say(
            &mut rogue.chain,
            &ChainReply {
                number: call.number,
                results: vec![returned(code::PMIX_EVENT_NO_ACTION_TAKEN); 100],
                side_effects: SideEffects {
                    lines: vec![line; 1000],
                    ..SideEffects::default()
                },
            },
        );
        let _ = MessageStream::new(rogue.modules, TO_RUNTIME).next_message::<ModuleRequest>();
    });
    let module = load(&runtimes, Services::default());
    // The chain takes as many as it has handlers (`chains/worker.rs`).
    assert_eq!(
        run(&module, 1).await[0].result.status,
        code::PMIX_EVENT_NO_ACTION_TAKEN
    );
}

#[test]
fn process_refuses_what_no_server_sends() {
    let first = |bytes: &[u8]| {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(bytes).unwrap();
        let process = thread::spawn(move || serve_tenant(theirs).unwrap_err().to_string());
        process.join().unwrap()
    };
    let hello = |protocol| {
        let hello = RuntimeHello {
            protocol,
            settings: settings(),
            numbers_after: 0,
        };
        encode(&hello, TO_RUNTIME).unwrap()
    };
    let no_connections = "the first message did not bring the connections";
    assert_eq!(first(&hello(PROTOCOL)), no_connections);
    assert_eq!(
        first(&[hello(PROTOCOL), hello(PROTOCOL)].concat()),
        no_connections
    );
    assert_eq!(first(&hello(PROTOCOL)[..10]), no_connections);
    let told = first(&[255; 100]);
    assert!(told.contains("the limit is"), "{told}");
    let told = first(&[4, 0, 0, 0, 1, 2, 3, 4]);
    assert!(told.starts_with("message:"), "{told}");
}
