//! What is told of changes among the modules: events of the resource manager, to whoever asks for them by name.
use peal_model::{Event, Info, KeyName, Range, Status, Value, key};
use peal_sandbox::Quarantined;
use peal_server::admin::ModuleChange;

/// Under this key the number of the version that runs.
const VERSION: KeyName = KeyName("peal.modules.version");
/// And under this one, in words, what differs from the one before.
const CHANGES: KeyName = KeyName("peal.modules.changes");

/// Under this key the name of a module.
const NAME: KeyName = KeyName("peal.module.name");
/// How often it failed.
const FAILURES: KeyName = KeyName("peal.module.failures");
/// And how it did so at last.
const STATUS: KeyName = KeyName("peal.module.status");

/// What has happened.
pub(crate) enum ModuleEvent<'a> {
    /// Others have taken the place of those that ran.
    Deployed {
        version: u64,
        changes: &'a [ModuleChange],
    },
    /// Others were to take their place and could not. Why is for administrators: it names files.
    Refused,
    /// A module has failed too often.
    Quarantined(&'a Quarantined),
}

/// As an event that says it: of range local, and not for handlers that hear everything.
pub(crate) fn event(news: &ModuleEvent<'_>) -> Event {
    let (code, said) = match news {
        ModuleEvent::Deployed { version, changes } => {
            let changes = changes
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ");
            let version = Info::new(VERSION, Value::Uint64(*version));
            (
                Status::PEAL_MODULES_DEPLOYED,
                vec![version, Info::new(CHANGES, Value::string(&changes))],
            )
        }
        ModuleEvent::Refused => (Status::PEAL_MODULES_REFUSED, Vec::new()),
        ModuleEvent::Quarantined(Quarantined {
            module,
            failures,
            last,
            ..
        }) => {
            let status = Info::new(STATUS, Value::Status(last.kind.status()));
            let failures = Info::new(FAILURES, Value::Uint64(*failures as u64));
            (
                Status::PEAL_MODULE_QUARANTINED,
                vec![Info::new(NAME, Value::string(module)), failures, status],
            )
        }
    };
    let mut infos = vec![Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true))];
    infos.extend(said);
    Event {
        code,
        source: None,
        range: Range::Local,
        infos,
    }
}
