//! Singletons: programs that no launcher started as part of a job. They connect to the system
//! server, or run without one.
use crate::{
    Call, Client, ClientError, ClientSettings, Places,
    data::KnownData,
    server_connection::{ConnectTarget, user},
};
use peal_model::{
    Info, Kval, Nspace, Proc, Rank, RankData, Reply, Request, Value, code, key, rank,
};
use peal_wire::PeerKind;

impl Client {
    /// Connects to the system server, which leaves a file in these places, as the only proc of a
    /// job of its own. `PMIx_Init` does so for a program that no server started. After
    /// [`ClientError::NoServer`], a program may continue with [`Client::standalone`].
    pub async fn singleton(
        places: &Places,
        settings: ClientSettings,
    ) -> Result<Client, ClientError> {
        let me = singleton(places)?;
        let places = places.clone();
        let found = tokio::task::spawn_blocking(move || places.system()).await;
        let found =
            found.unwrap_or_else(|error| Err(ClientError::Thread(std::io::Error::other(error))))?;
        let infos = vec![Info::new(
            key::PMIX_PROC_PID,
            Value::Pid(std::process::id()),
        )];
        let peer = PeerKind::Singleton(user(), me.clone());
        let to = ConnectTarget {
            server: found.server,
            release: found.release,
            peer,
            infos,
        };
        Client::start(me, to, settings).await
    }

    /// Creates the only proc of a job that no server knows, on the node of these places. It has its
    /// own puts and the data of such a job, completes a fence alone, and receives the events that
    /// it raises for itself. Calls that need a server fail at once with [`ClientError::Alone`].
    ///
    /// A program that runs with a server and without:
    ///
    /// ```no_run
    /// # async fn example(places: peal_client::Places) -> Result<(), peal_client::ClientError> {
    /// use peal_client::{Client, ClientError, ClientSettings};
    ///
    /// let client = match Client::init().await {
    ///     Err(ClientError::NotSet { .. }) => Client::singleton(&places, ClientSettings::default()).await,
    ///     started => started,
    /// };
    /// let client = match client {
    ///     Err(ClientError::NoServer { .. }) => Client::standalone(&places, ClientSettings::default()).await,
    ///     connected => connected,
    /// }?;
    /// # client.finalize().await
    /// # }
    /// ```
    pub async fn standalone(
        places: &Places,
        settings: ClientSettings,
    ) -> Result<Client, ClientError> {
        let me = singleton(places)?;
        let mut known = KnownData::new(settings.data_bytes);
        job_data(&me, &places.host)
            .into_iter()
            .for_each(|data| known.learn(data));
        Client::without_server(me, known, settings)
    }
}

/// Returns the name of a singleton.
fn singleton(places: &Places) -> Result<Proc, ClientError> {
    let name = format!("singleton.{}.{}", places.host, std::process::id());
    // A host name may be as long as a namespace.
    let name = name
        .get(..Nspace::MAX.min(name.len()))
        .unwrap_or("singleton");
    let nspace = Nspace::new(name).map_err(|_| ClientError::BadVariable {
        variable: "PMIX_HOSTNAME",
        value: name.to_owned(),
        expected: "the name of a host",
    })?;
    Ok(Proc::new(nspace, Rank(0)))
}

/// Returns the data of a job of one proc.
fn job_data(me: &Proc, host: &str) -> [RankData; 2] {
    let one = |key| Kval::new(key, Value::Uint32(1));
    let sizes = [
        key::PMIX_JOB_SIZE,
        key::PMIX_LOCAL_SIZE,
        key::PMIX_NODE_SIZE,
        key::PMIX_NUM_NODES,
        key::PMIX_MAX_PROCS,
    ];
    let mut job: Vec<Kval> = sizes.into_iter().map(one).collect();
    job.push(Kval::new(
        key::PMIX_JOBID,
        Value::string(me.nspace.as_str()),
    ));
    job.push(Kval::new(key::PMIX_LOCAL_PEERS, Value::string("0")));
    let proc = vec![
        Kval::new(key::PMIX_RANK, Value::Rank(me.rank)),
        Kval::new(key::PMIX_LOCAL_RANK, Value::Uint16(0)),
        Kval::new(key::PMIX_NODE_RANK, Value::Uint16(0)),
        Kval::new(key::PMIX_HOSTNAME, Value::string(host)),
    ];
    let all = Proc::new(me.nspace.clone(), rank::PMIX_RANK_WILDCARD);
    [
        RankData {
            proc: all,
            kvals: job,
        },
        RankData {
            proc: me.clone(),
            kvals: proc,
        },
    ]
}

/// Returns the reply to a request of a client that never has a server.
pub(crate) fn answer(me: &Proc, request: &Request) -> Result<Reply, ClientError> {
    let is_ours = |proc: &Proc| proc.nspace == me.nspace;
    match request {
        // The values are in the cache, and no other proc could get them.
        Request::Commit(_) => Ok(Reply::Status(code::PMIX_SUCCESS)),
        Request::Fence { procs, .. } if procs.iter().all(is_ours) => {
            Ok(Reply::Status(code::PMIX_SUCCESS))
        }
        // Known values were found before.
        Request::Get { .. } => Ok(Reply::Status(code::PMIX_ERR_NOT_FOUND)),
        _ => Err(ClientError::Alone {
            call: Call(request.command()),
        }),
    }
}
