//! Programs that nobody started as part of a job, and that come to the server of the system all the same.
use crate::{
    Client, ClientError, ClientSettings, Places,
    link::{Appointment, user},
};
use peal_model::{Info, Nspace, Proc, Rank, Value, key};
use peal_wire::PeerKind;

impl Client {
    /// Connects to the server of the system, which leaves a file in these places, as the only proc of a job of its own: what
    /// `PMIx_Init` does where no server has started the program. A program that would rather be alone goes on without a client where
    /// this is [`ClientError::NoServer`].
    pub async fn singleton(places: &Places, settings: ClientSettings) -> Result<Client, ClientError> {
        let places = places.clone();
        let name = format!("singleton.{}.{}", places.host, std::process::id());
        let found = tokio::task::spawn_blocking(move || places.system()).await;
        let found = found.unwrap_or_else(|error| Err(ClientError::Thread(std::io::Error::other(error))))?;
        // A host name may be as long as a namespace.
        let name = name.get(..Nspace::MAX.min(name.len())).unwrap_or("singleton");
        let nspace = Nspace::new(name).map_err(|_| ClientError::BadVariable {
            variable: "PMIX_HOSTNAME",
            value: name.to_owned(),
            wanted: "the name of a host",
        })?;
        let me = Proc::new(nspace, Rank(0));
        let infos = vec![Info::new(key::PMIX_PROC_PID, Value::Pid(std::process::id()))];
        let peer = PeerKind::Singleton(user(), me.clone());
        let to = Appointment { server: found.server, release: found.release, peer, infos };
        Client::start(me, to, settings).await
    }
}
