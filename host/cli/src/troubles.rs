//! Problems of a server that continues to serve, as `peal status` shows them.
use crate::cluster::ServedCluster;
use peal_audit::AuditTrail;
use peal_model::counted;
use peal_modules::ModuleTroubles;
use peal_server::admin::{Trouble, TroubleKind};
use peal_store::Store;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Time for which a failed write of the audit trail is shown although later ones succeed.
const RECENT: Duration = Duration::from_secs(60);

/// Sources of the problems. None of them blocks.
#[derive(Clone)]
pub struct Troubles {
    /// Reason why the present configuration is not in force.
    configuration: Arc<Mutex<Option<String>>>,
    audit: Option<AuditTrail>,
    store: Option<Arc<Store>>,
    modules: ModuleTroubles,
    cluster: Option<ServedCluster>,
}

impl Troubles {
    /// Creates the list for a server with this trail, this store, these modules and this cluster.
    pub fn new(
        audit: Option<AuditTrail>,
        store: Option<Arc<Store>>,
        modules: ModuleTroubles,
        cluster: Option<ServedCluster>,
    ) -> Troubles {
        Troubles {
            configuration: Arc::default(),
            audit,
            store,
            modules,
            cluster,
        }
    }

    /// Sets the reason why the configuration is not in force; `None` if it is.
    pub fn configured(&self, refused: Option<String>) {
        *self
            .configuration
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = refused;
    }

    /// Returns all present problems, the worst first.
    pub fn list(&self) -> Vec<Trouble> {
        let written = self
            .audit
            .iter()
            .filter_map(audit)
            .chain(self.store.iter().filter_map(|store| of_store(store)));
        let refused = self
            .configuration
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let refused = refused.map(|why| Trouble {
            kind: TroubleKind::Configuration,
            message: format!("the configuration cannot be used, what ran before does:\n{why}"),
        });
        let cluster = self.cluster.iter();
        let unsealed = cluster.clone().filter_map(ServedCluster::seal_trouble);
        let alone = cluster.filter_map(ServedCluster::trouble).chain(unsealed);
        let alone = alone.map(|message| Trouble {
            kind: TroubleKind::Cluster,
            message,
        });
        written
            .chain(refused)
            .chain(alone)
            .chain(self.modules.list())
            .collect()
    }
}

fn audit(audit: &AuditTrail) -> Option<Trouble> {
    // A failure that has ended is shown for a while, because few look at the right moment.
    let failure = audit
        .failure_within(RECENT, Instant::now())
        .or_else(|| audit.failure())?;
    let health = audit.health();
    let calls = counted(health.lost, "call");
    let decisions = counted(health.undone, "decision");
    let when = if health.is_failing {
        "cannot be written"
    } else {
        "could not always be written in the last minute"
    };
    let message = format!("it {when}: {failure}; {calls} and {decisions} are not on record");
    Some(Trouble {
        kind: TroubleKind::Audit,
        message,
    })
}

fn of_store(store: &Store) -> Option<Trouble> {
    let failing = store.health().failing;
    let last = if failing == 1 {
        "write".to_owned()
    } else {
        counted(failing, "write")
    };
    let message =
        format!("it cannot be written: the last {last} failed, and what belongs there is lost");
    (failing > 0).then_some(Trouble {
        kind: TroubleKind::Store,
        message,
    })
}
