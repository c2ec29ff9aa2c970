//! Options of a group construct, and the directives that encode them.
use crate::control::signed;
use peal_model::{Info, KeyName, Proc, Value, key};
use std::time::Duration;

/// Options of a proc for a group construct. Those of the leaders hold for all participants.
///
/// ```no_run
/// # async fn example(client: peal_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use peal_client::ConstructOptions;
/// use std::time::Duration;
///
/// let all = [&client.peers()[..], &[client.me().clone()]].concat();
/// let construct = ConstructOptions::of(&all).context_id().timeout(Duration::from_secs(30));
/// let group = client.group_construct("crew", construct).await?;
/// println!("{:?} has number {:?}", group.members, group.context_id);
/// client.fence(&[group.all()?], &[]).await?;
/// Ok(client.group_destruct("crew", &[]).await?)
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct ConstructOptions {
    pub(super) procs: Vec<Proc>,
    pub(super) directives: Vec<Info>,
    pub(super) contributed: Vec<Info>,
}

impl ConstructOptions {
    /// Options of a leader that names all leaders. Each of them calls with the same procs, in any
    /// order.
    pub fn of(procs: &[Proc]) -> ConstructOptions {
        ConstructOptions {
            procs: procs.to_vec(),
            directives: Vec::new(),
            contributed: Vec::new(),
        }
    }

    /// Options of a leader that knows the number of the leaders, itself included, but not their
    /// names (`PMIX_GROUP_BOOTSTRAP`).
    pub fn bootstrap(leaders: usize) -> ConstructOptions {
        ConstructOptions::added().with(Info::new(
            key::PMIX_GROUP_BOOTSTRAP,
            Value::Size(leaders as u64),
        ))
    }

    /// Options of a proc that a leader adds by [`ConstructOptions::adding`].
    pub fn added() -> ConstructOptions {
        ConstructOptions::of(&[])
    }

    /// Adds procs to the group; they call with [`ConstructOptions::added`]
    /// (`PMIX_GROUP_ADD_MEMBERS`).
    pub fn adding(self, procs: &[Proc]) -> ConstructOptions {
        self.with(Info::new(
            key::PMIX_GROUP_ADD_MEMBERS,
            Value::procs(procs.iter().cloned()),
        ))
    }

    /// Requests a context id that no other group has (`PMIX_GROUP_ASSIGN_CONTEXT_ID`).
    pub fn context_id(self) -> ConstructOptions {
        self.flag(key::PMIX_GROUP_ASSIGN_CONTEXT_ID)
    }

    /// Sets the time limit, in whole seconds (`PMIX_TIMEOUT`); the default is that of the server.
    pub fn timeout(self, timeout: Duration) -> ConstructOptions {
        self.with(Info::new(key::PMIX_TIMEOUT, Value::Int(signed(timeout))))
    }

    /// Forms the group without procs that end before their call (`PMIX_GROUP_OPTIONAL`).
    pub fn optional(self) -> ConstructOptions {
        self.flag(key::PMIX_GROUP_OPTIONAL)
    }

    /// Forms the group without procs that end after their call (`PMIX_GROUP_FT_COLLECTIVE`).
    pub fn fault_tolerant(self) -> ConstructOptions {
        self.flag(key::PMIX_GROUP_FT_COLLECTIVE)
    }

    /// Notifies the members when one of them ends (`PMIX_GROUP_NOTIFY_TERMINATION`).
    pub fn notify_termination(self) -> ConstructOptions {
        self.flag(key::PMIX_GROUP_NOTIFY_TERMINATION)
    }

    /// Lets the caller decide how the construct continues after a failure (`PMIX_GROUP_LEADER`).
    pub fn leading(self) -> ConstructOptions {
        self.flag(key::PMIX_GROUP_LEADER)
    }

    /// States that all members are on one node (`PMIX_GROUP_LOCAL_ONLY`).
    pub fn local_only(self) -> ConstructOptions {
        self.flag(key::PMIX_GROUP_LOCAL_ONLY)
    }

    /// Sets the order of the members (`PMIX_GROUP_FINAL_MEMBERSHIP_ORDER`).
    pub fn ordered(self, members: &[Proc]) -> ConstructOptions {
        self.with(Info::new(
            key::PMIX_GROUP_FINAL_MEMBERSHIP_ORDER,
            Value::procs(members.iter().cloned()),
        ))
    }

    /// Adds infos about the caller for the other members (`PMIX_GROUP_INFO`).
    pub fn saying(mut self, infos: impl IntoIterator<Item = Info>) -> ConstructOptions {
        self.contributed.extend(infos);
        self
    }

    /// Adds a directive for which there is no method.
    pub fn with(mut self, directive: Info) -> ConstructOptions {
        self.directives.push(directive);
        self
    }

    fn flag(self, key: KeyName) -> ConstructOptions {
        self.with(Info::new(key, Value::Bool(true)))
    }
}
