//! Changes that a module requests of its own registrations. A module has returned before they are
//! made, since a registration must not wait for the chain in which it was requested.
use crate::{Info, Status};
use serde::{Deserialize, Serialize};

/// A registration that a module requests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModuleRegistration {
    /// Tag chosen by the module; it comes back in each call for this registration.
    pub tag: u32,
    /// Name under which the results of the handler appear in chain results.
    pub name: Option<String>,
    /// Event codes; an empty list makes a default registration.
    pub codes: Vec<Status>,
    /// Placement and source filter, as directives.
    pub directives: Vec<Info>,
}

/// A change of its registrations that a module requests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum RegistrationChange {
    /// Adds a registration.
    Register(ModuleRegistration),
    /// Removes the registration of this number, if the module owns it.
    Deregister(u64),
}
