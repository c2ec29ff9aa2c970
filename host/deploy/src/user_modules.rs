//! What users installed, beside what the site wants: as far as it can be used it joins the set.
use crate::{
    deployer::{Deployer, blocking},
    overrides::is_same,
    refused::Refused,
    set::ModuleSet,
    users::{self, Installed},
    version::Wanted,
};
use peal_config::{Config, Problem, Problems};
use std::{collections::BTreeMap, time::Duration};

/// What users installed.
#[derive(Default)]
pub(crate) struct Users {
    /// As far as it can be used.
    pub(crate) wanted: BTreeMap<u32, Vec<Wanted>>,
    /// As it runs.
    pub(crate) running: BTreeMap<u32, Vec<Wanted>>,
    /// What of it cannot be used, and why. It is not tried again before it is something else.
    pub(crate) refused: BTreeMap<u32, (Vec<Wanted>, Problems)>,
}

/// How long the modules of a user may take to start.
const START: Duration = Duration::from_secs(30);

impl Deployer {
    /// Reads what users installed, and takes over what of it can be used.
    pub(crate) async fn read_users(&mut self, config: &Config) {
        let (read, dir) = (config.clone(), config.deploy.user_dir.clone());
        let Some(dir) = dir else { return };
        match blocking(move || users::installed(&dir, &read)).await {
            Ok(installed) => {
                self.take_users(installed).await;
                self.show_troubles();
            }
            // Who has modules keeps them.
            Err(error) => tracing::warn!(%error, "what users installed cannot be read"),
        }
    }

    /// Takes over what users installed, as far as it starts; for each user all of it, or what there was before.
    async fn take_users(&mut self, installed: Installed) {
        self.users.wanted.retain(|uid, _| installed.contains_key(uid));
        self.users.refused.retain(|uid, _| installed.contains_key(uid));
        for (uid, wanted) in installed {
            let (wanted, tried) = match wanted {
                Ok(wanted) => {
                    let is_known = |known: Option<&Vec<Wanted>>| known.is_some_and(|known| is_same(known, &wanted));
                    if is_known(self.users.refused.get(&uid).map(|refused| &refused.0)) {
                        continue;
                    }
                    let stays = is_known(self.users.wanted.get(&uid));
                    let tried = if stays { Ok(()) } else { self.tried(&wanted).await };
                    (wanted, tried)
                }
                Err(problems) => (Vec::new(), Err(problems)),
            };
            match tried {
                Ok(()) => {
                    self.users.refused.remove(&uid);
                    self.users.wanted.insert(uid, wanted);
                }
                Err(problems) => self.refuse_user(uid, wanted, problems),
            }
        }
    }

    fn refuse_user(&mut self, uid: u32, wanted: Vec<Wanted>, problems: Problems) {
        tracing::warn!(uid, "what a user installed is not taken");
        self.refuse(Refused::Unfit(problems.clone()));
        self.users.refused.insert(uid, (wanted, problems));
    }

    /// Whether what a user installed starts by itself, in time. It must not keep what the site wants from starting.
    async fn tried(&self, wanted: &[Wanted]) -> Result<(), Problems> {
        let (loader, running, chains) = (self.loader.clone(), self.running.clone(), self.chains.clone());
        let wanted = self.overrides.applied(wanted);
        let starts = blocking(move || ModuleSet::load(&loader, &wanted, &[], &running)?.seated(&chains).map(drop));
        let late = || Problems(vec![Problem::of_file(format!("these modules have not started in {START:?}"))]);
        tokio::time::timeout(START, starts).await.unwrap_or_else(|_| Err(late()))
    }

    /// Users of whom nothing runs now had installed what does not go with the site's.
    pub(crate) fn note_refused(&mut self, newest: BTreeMap<u32, Vec<Wanted>>) {
        for (uid, wanted) in newest.into_iter().filter(|(uid, _)| !self.users.wanted.contains_key(uid)) {
            tracing::warn!(uid, "what a user installed is not taken");
            let why = "these modules do not go with those of the site".to_owned();
            self.users.refused.insert(uid, (wanted, Problems(vec![Problem::of_file(why)])));
        }
    }
}
