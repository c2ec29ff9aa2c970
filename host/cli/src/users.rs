//! Names of users, as this system knows them.
use nix::unistd::User;
use peal_server::admin::ChainOwner;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// Names that were looked up: a directory service may be slow, and lists repeat users.
static KNOWN: Mutex<BTreeMap<u32, Option<String>>> = Mutex::new(BTreeMap::new());

/// Returns the name of a user, if this system knows one.
pub fn name(uid: u32) -> Option<String> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let look_up = || {
        let user = User::from_uid(uid.into()).ok().flatten();
        user.map(|user| user.name)
    };
    known.entry(uid).or_insert_with(look_up).clone()
}

/// Formats a user as its name and number, or the number of a user without a name.
pub fn shown(uid: u32) -> String {
    name(uid).map_or_else(|| uid.to_string(), |name| format!("{name} ({uid})"))
}

/// Returns the id of a user: a number, or a name that the system knows.
pub fn find(text: &str) -> Result<u32, String> {
    if let Ok(uid) = text.parse() {
        return Ok(uid);
    }
    match User::from_name(text) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(format!(
            "there is no user {text:?} here; name an existing user or give a number"
        )),
        Err(error) => Err(format!("user {text:?} cannot be looked up: {error}")),
    }
}

/// Formats the owner of a chain or module.
pub fn owner(owner: &ChainOwner) -> String {
    match owner {
        ChainOwner::Site => "site".to_owned(),
        ChainOwner::User(uid) => format!("user {}", shown(*uid)),
        ChainOwner::Namespace(nspace) => format!("namespace {nspace}"),
    }
}

/// Value with the name of its user, for programs.
#[derive(Serialize)]
pub struct WithUserName<'a, T> {
    #[serde(flatten)]
    value: &'a T,
    /// Name of the user, if this system knows one.
    user: Option<String>,
}

impl<'a, T> WithUserName<'a, T> {
    pub fn new(value: &'a T, uid: u32) -> WithUserName<'a, T> {
        WithUserName {
            value,
            user: name(uid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_beside_their_numbers() {
        for _ in 0..2 {
            assert_eq!(
                (shown(0).as_str(), shown(4_000_000_000).as_str()),
                ("root (0)", "4000000000")
            );
        }
        assert_eq!(owner(&ChainOwner::User(0)), "user root (0)");
        let told = serde_json::json!({ "uid": 0 });
        let told = serde_json::to_value(WithUserName::new(&told, 0)).unwrap();
        assert_eq!(told, serde_json::json!({ "uid": 0, "user": "root" }));
    }
}
