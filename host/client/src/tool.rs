//! Tools: programs that no server started and that choose their servers themselves.
use crate::{
    Client, ClientError, ClientSettings, Environment, ServerInfo,
    client::bounded,
    rendezvous::{self, AttachTarget, Places, RendezvousEntry},
    server_connection::{ConnectTarget, user},
};
use peal_model::{CommandCode, Info, Nspace, Proc, Rank, Request, Value, key};
use peal_wire::{PeerKind, ServerUri, ToolIdentifier, variable};
use std::{ffi::OsString, ops::Deref, path::PathBuf};

/// Limit of the command line that is sent to a server, in bytes.
const COMMAND_LINE: usize = 4096;

/// Settings of a tool's attachment.
#[derive(Clone, Debug)]
pub struct ToolSettings {
    /// Server to attach to.
    pub attach: AttachTarget,
    /// Name of the tool; `None`: the server assigns one.
    pub me: Option<Proc>,
    /// Location of the rendezvous files.
    pub places: Places,
    /// Environment that a server set for this process, if one started it.
    pub environment: Option<Environment>,
    /// Time limits and bounds.
    pub client: ClientSettings,
}

impl ToolSettings {
    /// Reads the settings from the environment of this process.
    pub fn read() -> Result<ToolSettings, ClientError> {
        ToolSettings::from(std::env::var_os)
    }

    /// Reads the settings from an environment.
    pub fn from(
        get: impl Fn(&'static str) -> Option<OsString>,
    ) -> Result<ToolSettings, ClientError> {
        let set = |name| get(name).filter(|value| !value.is_empty());
        let host = set(variable::HOSTNAME).map(|host| host.to_string_lossy().into_owned());
        let host = host.unwrap_or_else(|| {
            rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned()
        });
        // The order of the C library, which must lead to the same directory.
        let directory = [variable::SYSTEM_TMPDIR, "TMPDIR", "TEMP", "TMP"]
            .into_iter()
            .find_map(set);
        let directory = directory.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let environment = get(variable::SERVER_URI)
            .map(|_| Environment::from(&get))
            .transpose()?;
        let attach = AttachTarget::default();
        let client = ClientSettings::default();
        Ok(ToolSettings {
            attach,
            me: None,
            places: Places { host, directory },
            environment,
            client,
        })
    }
}

/// Tool and its servers (`PMIx_tool_init`). It makes the calls of a [`Client`], which go to one
/// server at a time; it receives events of all servers. The loss of a server is an event. The tool
/// may then attach to another server or to the same one again; its handlers stay.
#[derive(Clone)]
pub struct Tool {
    client: Client,
    places: Places,
}

impl Deref for Tool {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Tool {
    /// Connects to the server that the settings select.
    pub async fn init(settings: ToolSettings) -> Result<Tool, ClientError> {
        let ToolSettings {
            attach,
            me,
            places,
            environment,
            client,
        } = settings;
        let (found, started) = find(&attach, &places, environment).await?;
        let identity = match (me, started) {
            (Some(me), _) => ToolIdentifier::Own(me),
            (None, Some(me)) => ToolIdentifier::Started(me),
            (None, None) => ToolIdentifier::Wanted,
        };
        // The null name is a placeholder until the server has assigned one.
        let nobody = Proc::new(Nspace::default(), Rank(0));
        let (me, to) = match &identity {
            ToolIdentifier::Wanted => (nobody, appointment(found, identity)),
            ToolIdentifier::Own(me) | ToolIdentifier::Started(me) => {
                (me.clone(), appointment(found, identity))
            }
        };
        Ok(Tool {
            client: Client::start(me, to, client).await?,
            places,
        })
    }

    /// Attaches to one more server under the tool's name (`PMIx_tool_attach_to_server`). Calls go
    /// to it if there is no other, or after [`Tool::set_server`]. Returns its name.
    pub async fn attach(&self, attach: &AttachTarget) -> Result<Proc, ClientError> {
        let (found, _) = find(attach, &self.places, None).await?;
        // The tool keeps its name: another server must not assign a second one.
        let to = appointment(found, ToolIdentifier::Own(self.me().clone()));
        let server = ServerInfo {
            uri: to.server.clone(),
            release: to.release.clone(),
        };
        let server = || Some(Box::new(server));
        let attached = self.session().attach(to);
        let link = bounded(CommandCode::JobData, self.answer_limit(), server, attached).await?;
        Ok(link.server.proc.clone())
    }

    /// Returns the attached servers (`PMIx_tool_get_servers`), the one that calls go to first.
    pub fn servers(&self) -> Vec<Proc> {
        self.session().servers()
    }

    /// Sends calls to this server from now on (`PMIx_tool_set_server`).
    pub fn set_server(&self, server: &Proc) -> Result<(), ClientError> {
        self.session().prefer(server)
    }

    /// Finalizes the connection to this server (`PMIx_tool_disconnect`).
    pub async fn disconnect(&self, server: &Proc) -> Result<(), ClientError> {
        let link = self.session().detach(server)?;
        let finalize = link.ask(Request::Finalize);
        bounded(
            CommandCode::Finalize,
            self.answer_limit(),
            || Some(link.server_info()),
            finalize,
        )
        .await
        .map(drop)
    }

    /// Finalizes the connections to all servers (`PMIx_tool_finalize`).
    pub async fn finalize(self) -> Result<(), ClientError> {
        self.client.finalize().await
    }
}

/// Finds the server that is meant, and this tool's name if that server started the process.
async fn find(
    attach: &AttachTarget,
    places: &Places,
    environment: Option<Environment>,
) -> Result<(RendezvousEntry, Option<Proc>), ClientError> {
    let started = |environment: Environment| {
        (
            RendezvousEntry {
                server: environment.server,
                release: environment.release,
                rest: Vec::new(),
            },
            Some(environment.me),
        )
    };
    let attach = attach.clone();
    let places = places.clone();
    let look = move || {
        let found = match attach {
            AttachTarget::Uri(server) => RendezvousEntry {
                server,
                release: None,
                rest: Vec::new(),
            },
            AttachTarget::File(path) => rendezvous::read_named_file(&path)?,
            AttachTarget::System => places.system()?,
            AttachTarget::Pid(pid) => places.pid(pid)?,
            AttachTarget::Nspace(nspace) => places.nspace(&nspace)?,
            AttachTarget::SystemFirst => match (places.system(), environment) {
                (Ok(found), _) => found,
                (Err(_), Some(environment)) => return Ok(started(environment)),
                (Err(_), None) => places.any()?,
            },
            AttachTarget::Any => match environment {
                Some(environment) => return Ok(started(environment)),
                None => places.any()?,
            },
        };
        Ok((found, None))
    };
    // Files are read on a thread that may block; the closure cannot panic.
    let looked = tokio::task::spawn_blocking(look).await;
    looked.unwrap_or_else(|error| Err(ClientError::Thread(std::io::Error::other(error))))
}

fn appointment(found: RendezvousEntry, identity: ToolIdentifier) -> ConnectTarget {
    let infos = introduction(&found.server, &identity);
    let peer = PeerKind::Tool(user(), identity);
    ConnectTarget {
        server: found.server,
        release: found.release,
        peer,
        infos,
    }
}

/// Returns the infos that a tool sends about itself: those of tools of release 5.0.11, in their
/// order.
fn introduction(server: &ServerUri, identity: &ToolIdentifier) -> Vec<Info> {
    let mut infos = vec![Info::new(
        key::PMIX_SERVER_URI,
        Value::string(&server.to_string()),
    )];
    if let ToolIdentifier::Own(me) = identity {
        infos.push(Info::new(
            key::PMIX_TOOL_NSPACE,
            Value::string(me.nspace.as_str()),
        ));
        infos.push(Info::new(key::PMIX_TOOL_RANK, Value::Rank(me.rank)));
    }
    infos.push(Info::new(
        key::PMIX_PROC_PID,
        Value::Pid(std::process::id()),
    ));
    for (key, id) in [
        (key::PMIX_REALUID, rustix::process::getuid().as_raw()),
        (key::PMIX_USERID, rustix::process::geteuid().as_raw()),
        (key::PMIX_REALGID, rustix::process::getgid().as_raw()),
        (key::PMIX_GRPID, rustix::process::getegid().as_raw()),
    ] {
        infos.push(Info::new(key, Value::Uint32(id)));
    }
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut line = words.join(" ").replace('\0', " ");
    line.truncate(line.floor_char_boundary(COMMAND_LINE));
    infos.push(Info::new(key::PMIX_CMD_LINE, Value::string(&line)));
    infos
}
