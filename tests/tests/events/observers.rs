//! Observers: the notices of a server before the first handler of an event and after its last
//! chain.
use peal_core::{
    class::ClassFilter,
    owner::Owner,
    registration::{EventCodes, HandlerRegistration},
};
use peal_launcher::EmbeddedHostEnvironment;
use peal_model::{Event, Range, Status, code};
use peal_needs::needs;
use peal_sandbox::{Engine, EngineSettings, Grants, Module, ModuleLimits, Services};
use peal_server::{
    Hosted, HostedChains, HostedHandler, InProcessNetwork, Listener, ListenerItem, Notice, Notices,
    ServerSettings,
};
use peal_tests::{
    guest,
    in_process::{Modules, Node, soon},
};
use std::{sync::Arc, time::Duration};

const HANDLED: Status = Status(-3001);
const PASSED_BY: Status = Status(-3002);

/// Returns a handler that ends its chain.
fn complete() -> HostedHandler {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let limits = ModuleLimits {
        call_time: Duration::from_secs(60),
        ..ModuleLimits::default()
    };
    let bytes = std::fs::read(guest("complete")).unwrap();
    let module = Module::load(
        &engine,
        "complete",
        &bytes,
        &Grants::tenant(),
        limits,
        Services::default(),
    );
    HostedHandler::new(Arc::new(module.unwrap()))
}

fn is_of_events(notice: &Notice) -> bool {
    matches!(notice, Notice::EventEntered(_) | Notice::Passed { .. })
}

async fn next(listener: &mut Listener) -> Notice {
    match soon("a notice comes", listener.recv()).await.unwrap() {
        ListenerItem::Notice(notice) => notice,
        ListenerItem::Missed(missed) => panic!("{missed} notices are missed"),
    }
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn event_is_observed_before_first_handler_and_after_last_chain() {
    let mut chains = HostedChains::default();
    let handler = complete();
    let user = Owner::User(rustix::process::geteuid().as_raw());
    for owner in [Owner::Site, user.clone()] {
        let registration = HandlerRegistration {
            levels: ClassFilter::Both,
            ..HandlerRegistration::new("complete", EventCodes::Single(HANDLED))
        };
        chains
            .register(owner, registration, handler.clone())
            .unwrap();
    }
    let notices = Notices::default();
    let mut first = notices.listen(is_of_events);
    let mut second = notices.listen(is_of_events);
    let modules = Modules {
        hosted: Hosted {
            chains,
            ..Hosted::default()
        },
        notices: notices.clone(),
    };
    let host = Arc::new(EmbeddedHostEnvironment::new(Notices::default()));
    let node = Node::with(
        modules,
        host,
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "job",
        1,
    )
    .await;
    for (code, owners) in [(HANDLED, vec![Owner::Site, user]), (PASSED_BY, Vec::new())] {
        node.server.handle().notify(Event {
            code,
            source: None,
            range: Range::Global,
            infos: Vec::new(),
        });
        for listener in [&mut first, &mut second] {
            let Notice::EventEntered(raised) = next(listener).await else {
                panic!("no notice before the handlers")
            };
            let Notice::Passed { event, results, .. } = next(listener).await else {
                panic!("no notice after the last chain")
            };
            assert!(Arc::ptr_eq(&raised, &event) && event.code == code);
            assert_eq!(
                results
                    .iter()
                    .map(|chain| chain.owner.clone())
                    .collect::<Vec<_>>(),
                owners
            );
            for chain in results.iter() {
                let [step] = &chain.steps[..] else {
                    panic!("{chain:?}")
                };
                assert_eq!(
                    (&*step.name, step.status),
                    ("complete", code::PMIX_EVENT_ACTION_COMPLETE)
                );
            }
        }
    }
}
