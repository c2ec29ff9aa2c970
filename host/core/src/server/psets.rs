//! Process sets: definition by the host environment, events about them, queries.
use super::{Action, ServerContext, ServerState};
use crate::{
    psets::{Pset, PsetError},
    user_scope::UserScope,
};
use peal_model::{
    Event, Info, Infos, KeyName, Nspace, Proc, Query, Range, Status, Text, UserIdentity, Value,
    code, key,
};
use std::sync::Arc;

impl ServerState {
    /// Defines a process set. Raises an event for the procs of its user.
    ///
    /// # Errors
    ///
    /// Fails if a proc is unknown, the procs belong to several users, the set is empty or the name
    /// is taken.
    pub fn define_process_set(
        &mut self,
        name: Text,
        members: Vec<Proc>,
    ) -> Result<Vec<Action>, PsetError> {
        let mut owner = None;
        for proc in &members {
            let unknown = || PsetError::Unknown {
                name: name.clone(),
                proc: proc.clone(),
            };
            self.clients.life(proc).ok_or_else(unknown)?;
            let uid = self.clients.uid_of(proc);
            if *owner.get_or_insert(uid) != uid {
                return Err(PsetError::Mixed(name));
            }
        }
        let uid = owner.ok_or_else(|| PsetError::Empty(name.clone()))?;
        let pset = Pset { name, members };
        self.psets.define(uid, pset.clone())?;
        for proc in &pset.members {
            if let Some(job) = self.clients.job_mut(&proc.nspace) {
                job.joins_set(proc.rank, &pset.name);
                self.modex.host_says_more(proc);
            }
        }
        let members = Info::new(
            key::PMIX_PSET_MEMBERS,
            Value::procs(pset.members.iter().cloned()),
        );
        Ok(self.raise_pset_event(uid, code::PMIX_PROCESS_SET_DEFINE, pset, vec![members]))
    }

    /// Deletes the sets of a removed job's procs.
    pub(super) fn delete_process_sets(&mut self, nspace: &Nspace) -> Vec<Action> {
        let gone = self.psets.drop_job(nspace);
        gone.into_iter()
            .flat_map(|(uid, pset)| {
                self.raise_pset_event(uid, code::PMIX_PROCESS_SET_DELETE, pset, Vec::new())
            })
            .collect()
    }

    fn raise_pset_event(
        &mut self,
        uid: u32,
        code: Status,
        pset: Pset,
        more: Vec<Info>,
    ) -> Vec<Action> {
        let mut infos = vec![
            Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
            Info::new(key::PMIX_PSET_NAME, Value::String(Some(pset.name))),
        ];
        infos.extend(more);
        let event = Event {
            code,
            source: None,
            range: Range::Local,
            infos,
        };
        self.events.distribute(
            ServerContext::new(&self.clients, &self.settings),
            Arc::new(event),
            UserScope::User(uid),
            self.settings.allowance,
        )
    }

    /// Answers queries about the process sets of the requester's user.
    pub fn query_process_sets(&self, identity: UserIdentity, queries: &[Query]) -> Vec<Info> {
        let sets: Vec<&Pset> = self.psets.of(identity.uid).collect();
        let mut told = Vec::new();
        for query in queries {
            let meant = query
                .qualifiers
                .value_of(key::PMIX_PSET_NAME)
                .and_then(Value::as_str);
            for asked in query.keys.iter().flatten().filter_map(Text::as_str) {
                let is = |key: KeyName| asked == key.0;
                if is(key::PMIX_QUERY_NUM_PSETS) {
                    told.push(Info::new(
                        key::PMIX_QUERY_NUM_PSETS,
                        Value::Size(sets.len() as u64),
                    ));
                } else if is(key::PMIX_QUERY_PSET_NAMES) {
                    let names: Vec<&str> =
                        sets.iter().filter_map(|set| set.name.as_str()).collect();
                    told.push(Info::new(
                        key::PMIX_QUERY_PSET_NAMES,
                        Value::string(&names.join(",")),
                    ));
                } else if is(key::PMIX_QUERY_PSET_MEMBERSHIP)
                    && let Some(set) = sets.iter().find(|set| set.name.as_str() == meant)
                {
                    let members = Value::procs(set.members.iter().cloned());
                    told.push(Info::new(key::PMIX_QUERY_PSET_MEMBERSHIP, members));
                }
            }
        }
        told
    }
}
