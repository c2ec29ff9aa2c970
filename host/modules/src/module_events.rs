//! Events about changes of the module set, for handlers that register for their codes.
use peal_model::{Event, Info, KeyName, Status, Value};
use peal_sandbox::Quarantined;
use peal_server::{admin::ModuleChange, own_event};

/// Key of the number of the running version.
const VERSION: KeyName = KeyName("peal.modules.version");
/// Key of the changes from the previous version, as text.
const CHANGES: KeyName = KeyName("peal.modules.changes");

/// Key of the name of a module.
const NAME: KeyName = KeyName("peal.module.name");
/// Key of the number of failures.
const FAILURES: KeyName = KeyName("peal.module.failures");
/// Key of the status of the last failure.
const STATUS: KeyName = KeyName("peal.module.status");

/// Change of the module set.
pub(crate) enum ModuleEvent<'a> {
    /// A new set was deployed.
    Deployed {
        version: u64,
        changes: &'a [ModuleChange],
    },
    /// A set was refused. The reason is for admins only, since it names files.
    Refused,
    /// A module was quarantined.
    Quarantined(&'a Quarantined),
}

/// Builds the event of a change.
pub(crate) fn event(news: &ModuleEvent<'_>) -> Event {
    let (code, infos) = match news {
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
    own_event(code, infos)
}
