//! What is asked of a group that is to be constructed, and the directives that say so.
use crate::control::signed;
use peal_model::{Info, KeyName, Proc, Value, key};
use std::time::Duration;

/// How a proc takes part in a construct, and what it wants of the group. What those who lead want holds for all.
///
/// ```no_run
/// # async fn example(client: peal_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use peal_client::ConstructOptions;
/// use std::time::Duration;
///
/// let everybody = [&client.peers()[..], &[client.me().clone()]].concat();
/// let construct = ConstructOptions::of(&everybody).context_id().timeout(Duration::from_secs(30));
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
    pub(super) says: Vec<Info>,
}

impl ConstructOptions {
    /// The caller leads, and names all who do: each of them calls with the same procs, in whatever order.
    pub fn of(procs: &[Proc]) -> ConstructOptions {
        ConstructOptions {
            procs: procs.to_vec(),
            directives: Vec::new(),
            says: Vec::new(),
        }
    }

    /// The caller leads, and knows how many do, itself among them, but not who (`PMIX_GROUP_BOOTSTRAP`).
    pub fn bootstrap(leaders: usize) -> ConstructOptions {
        ConstructOptions::added().with(Info::new(
            key::PMIX_GROUP_BOOTSTRAP,
            Value::Size(leaders as u64),
        ))
    }

    /// The caller knows that somebody who leads adds it, and nothing else.
    pub fn added() -> ConstructOptions {
        ConstructOptions::of(&[])
    }

    /// These are to be in it, too; they call with [`ConstructOptions::added`] (`PMIX_GROUP_ADD_MEMBERS`).
    pub fn adding(self, procs: &[Proc]) -> ConstructOptions {
        self.with(Info::new(
            key::PMIX_GROUP_ADD_MEMBERS,
            Value::procs(procs.iter().cloned()),
        ))
    }

    /// The group gets a number that no other has (`PMIX_GROUP_ASSIGN_CONTEXT_ID`).
    pub fn context_id(self) -> ConstructOptions {
        self.flag(key::PMIX_GROUP_ASSIGN_CONTEXT_ID)
    }

    /// How long it may take, in whole seconds (`PMIX_TIMEOUT`); without it, as long as the server gives.
    pub fn timeout(self, timeout: Duration) -> ConstructOptions {
        self.with(Info::new(key::PMIX_TIMEOUT, Value::Int(signed(timeout))))
    }

    /// Whoever ends before it has called is not waited for (`PMIX_GROUP_OPTIONAL`).
    pub fn optional(self) -> ConstructOptions {
        self.flag(key::PMIX_GROUP_OPTIONAL)
    }

    /// Nor whoever ends after that (`PMIX_GROUP_FT_COLLECTIVE`).
    pub fn fault_tolerant(self) -> ConstructOptions {
        self.flag(key::PMIX_GROUP_FT_COLLECTIVE)
    }

    /// Members hear when one of them ends (`PMIX_GROUP_NOTIFY_TERMINATION`).
    pub fn notify_termination(self) -> ConstructOptions {
        self.flag(key::PMIX_GROUP_NOTIFY_TERMINATION)
    }

    /// The caller says what becomes of it when somebody fails (`PMIX_GROUP_LEADER`).
    pub fn leading(self) -> ConstructOptions {
        self.flag(key::PMIX_GROUP_LEADER)
    }

    /// All are on one node (`PMIX_GROUP_LOCAL_ONLY`).
    pub fn local_only(self) -> ConstructOptions {
        self.flag(key::PMIX_GROUP_LOCAL_ONLY)
    }

    /// The members stand in this order (`PMIX_GROUP_FINAL_MEMBERSHIP_ORDER`).
    pub fn ordered(self, members: &[Proc]) -> ConstructOptions {
        self.with(Info::new(
            key::PMIX_GROUP_FINAL_MEMBERSHIP_ORDER,
            Value::procs(members.iter().cloned()),
        ))
    }

    /// What the others are to know of the caller (`PMIX_GROUP_INFO`).
    pub fn saying(mut self, infos: impl IntoIterator<Item = Info>) -> ConstructOptions {
        self.says.extend(infos);
        self
    }

    /// The same with a directive that has no word here.
    pub fn with(mut self, directive: Info) -> ConstructOptions {
        self.directives.push(directive);
        self
    }

    fn flag(self, key: KeyName) -> ConstructOptions {
        self.with(Info::new(key, Value::Bool(true)))
    }
}
