//! Begin and end of a tool, and its servers.
use super::{
    init::{enter, settings},
    iof::write_output,
    library::{Connection, Library},
    operations::{give_array, refusal, wait},
};
use crate::{
    abi::{CBool, CInfo, CProc, CStatus},
    border,
    convert::{read_array, read_one, write_into},
    heap_array::HeapArray,
};
use peal_client::{AttachTarget, Client, ClientError, Tool, ToolSettings};
use peal_model::{Info, Infos, Nspace, Proc, Rank, Status, Value, code, key};
use std::path::PathBuf;

/// Directives of an init or attach of a tool.
struct ToolDirectives {
    attach: AttachTarget,
    me: Option<Proc>,
    directory: Option<PathBuf>,
    connects: Connects,
}

/// Need of a tool for a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Connects {
    /// There must be one.
    Always,
    /// The tool runs alone if there is none (`PMIX_TOOL_CONNECT_OPTIONAL`).
    IfPresent,
    /// The tool runs alone (`PMIX_TOOL_DO_NOT_CONNECT`).
    Never,
}

impl ToolDirectives {
    /// Returns the directives of infos.
    fn new(infos: &[Info]) -> Result<ToolDirectives, Status> {
        let text = |key| infos.value_of(key).and_then(Value::as_str);
        let nspace = |text: &str| Nspace::new(text).map_err(|_| code::PMIX_ERR_BAD_PARAM);
        let pid = infos.value_of(key::PMIX_SERVER_PIDINFO);
        let attach = if infos.is_true(key::PMIX_CONNECT_TO_SYSTEM) {
            AttachTarget::System
        } else if infos.is_true(key::PMIX_CONNECT_SYSTEM_FIRST) {
            AttachTarget::SystemFirst
        } else if let Some(uri) = text(key::PMIX_SERVER_URI) {
            match uri.strip_prefix("file:") {
                Some(path) => AttachTarget::File(path.into()),
                None => AttachTarget::Uri(uri.parse().map_err(|_| code::PMIX_ERR_BAD_PARAM)?),
            }
        } else if let Some(path) = text(key::PMIX_TOOL_ATTACHMENT_FILE) {
            AttachTarget::File(path.into())
        } else if let Some(pid) = pid.and_then(Value::as_u64) {
            AttachTarget::Pid(u32::try_from(pid).map_err(|_| code::PMIX_ERR_BAD_PARAM)?)
        } else if let Some(name) = text(key::PMIX_SERVER_NSPACE) {
            AttachTarget::Nspace(nspace(name)?)
        } else {
            AttachTarget::Any
        };
        let rank = match infos.value_of(key::PMIX_TOOL_RANK) {
            Some(Value::Rank(rank)) => *rank,
            _ => Rank(0),
        };
        let me = text(key::PMIX_TOOL_NSPACE).map(nspace).transpose()?;
        let connects = if infos.is_true(key::PMIX_TOOL_DO_NOT_CONNECT) {
            Connects::Never
        } else if infos.is_true(key::PMIX_TOOL_CONNECT_OPTIONAL) {
            Connects::IfPresent
        } else {
            Connects::Always
        };
        Ok(ToolDirectives {
            attach,
            me: me.map(|nspace| Proc::new(nspace, rank)),
            directory: text(key::PMIX_SYSTEM_TMPDIR).map(PathBuf::from),
            connects,
        })
    }

    /// Connects the tool.
    async fn connect(self) -> Result<Connection, ClientError> {
        let mut chosen = ToolSettings::read()?;
        chosen.client = settings();
        chosen.attach = self.attach;
        chosen.me = self.me;
        if let Some(directory) = self.directory {
            chosen.places.directory = directory;
        }
        let places = chosen.places.clone();
        let tool = match self.connects {
            Connects::Never => None,
            Connects::Always => Some(Tool::init(chosen).await?),
            Connects::IfPresent => match Tool::init(chosen).await {
                Ok(tool) => Some(tool),
                Err(error) => {
                    tracing::debug!(%error, "tool runs without a server");
                    None
                }
            },
        };
        match tool {
            Some(tool) => {
                // Output of jobs that the tool spawns is its own, as in the C library.
                tool.receive_unclaimed_output(write_output);
                Ok(Connection::Tool(tool))
            }
            None => Ok(Connection::Client(
                Client::standalone(&places, settings()).await?,
            )),
        }
    }
}

/// `PMIx_tool_init`: connects to the server that the infos or the environment choose. Later calls are
/// counted, and return the name again.
///
/// # Safety
///
/// `proc` is null or points to a place for a proc, `info` is null or begins an array of `ninfo` infos.
#[unsafe(export_name = "PMIx_tool_init")]
pub unsafe extern "C" fn tool_init(proc: *mut CProc, info: *mut CInfo, ninfo: usize) -> CStatus {
    border::status("PMIx_tool_init", || {
        // SAFETY: the caller guarantees the array.
        let infos: Vec<Info> = unsafe { read_array(info, ninfo, "infos") }?;
        let directives = ToolDirectives::new(&infos)?;
        let connect = || directives.connect();
        // SAFETY: the caller guarantees a place or null.
        unsafe { enter("PMIx_tool_init", proc, &infos, connect) }
    })
}

/// `PMIx_tool_finalize`: counts down. The last call closes all connections.
#[unsafe(export_name = "PMIx_tool_finalize")]
pub extern "C" fn tool_finalize() -> CStatus {
    border::status("PMIx_tool_finalize", || {
        Library::get().leave("PMIx_tool_finalize")
    })
}

/// Returns the tool of the process.
///
/// # Errors
///
/// `PMIX_ERR_NOT_SUPPORTED` in a client.
fn tool() -> Result<Tool, Status> {
    let running = Library::running()?;
    running.tool.clone().ok_or(code::PMIX_ERR_NOT_SUPPORTED)
}

/// `PMIx_tool_attach_to_server`: connects to one more server, and returns its name.
///
/// # Safety
///
/// `myproc` and `server` are null or point to places for procs, `info` is null or begins an array of
/// `ninfo` infos.
#[unsafe(export_name = "PMIx_tool_attach_to_server")]
pub unsafe extern "C" fn tool_attach_to_server(
    myproc: *mut CProc,
    server: *mut CProc,
    info: *mut CInfo,
    ninfo: usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_tool_attach_to_server";
    border::status(FUNCTION, || {
        let tool = tool()?;
        // SAFETY: the caller guarantees the array.
        let infos: Vec<Info> = unsafe { read_array(info, ninfo, "infos") }?;
        if infos.is_empty() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        let directives = ToolDirectives::new(&infos)?;
        let me = tool.me().clone();
        let attach = |_| async move { tool.attach(&directives.attach).await };
        let found = wait(FUNCTION, attach)?.map_err(|error| refusal(FUNCTION, &error))?;
        // SAFETY: the caller guarantees places or null.
        let (myproc, server) = unsafe { (myproc.as_mut(), server.as_mut()) };
        if let Some(place) = myproc {
            write_into(&me, place)?;
        }
        if let Some(place) = server {
            write_into(&found, place)?;
        }
        Ok(())
    })
}

/// `PMIx_tool_connect_to_server`: connects to one more server, to which calls go from then on.
///
/// # Safety
///
/// `proc` is null or points to a place for a proc, `info` is null or begins an array of `ninfo` infos.
#[unsafe(export_name = "PMIx_tool_connect_to_server")]
pub unsafe extern "C" fn tool_connect_to_server(
    proc: *mut CProc,
    info: *mut CInfo,
    ninfo: usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_tool_connect_to_server";
    border::status(FUNCTION, || {
        let tool = tool()?;
        // SAFETY: the caller guarantees the array.
        let infos: Vec<Info> = unsafe { read_array(info, ninfo, "infos") }?;
        let directives = ToolDirectives::new(&infos)?;
        let me = tool.me().clone();
        let connect = |_| async move {
            let server = tool.attach(&directives.attach).await?;
            tool.set_server(&server)
        };
        wait(FUNCTION, connect)?.map_err(|error| refusal(FUNCTION, &error))?;
        // SAFETY: the caller guarantees a place or null.
        if let Some(place) = unsafe { proc.as_mut() } {
            write_into(&me, place)?;
        }
        Ok(())
    })
}

/// `PMIx_tool_disconnect`: closes the connection to a server.
///
/// # Safety
///
/// `server` is null or points to a proc.
#[unsafe(export_name = "PMIx_tool_disconnect")]
pub unsafe extern "C" fn tool_disconnect(server: *const CProc) -> CStatus {
    const FUNCTION: &str = "PMIx_tool_disconnect";
    border::status(FUNCTION, || {
        let tool = tool()?;
        // SAFETY: the caller guarantees a proc or null.
        let server: Proc = unsafe { read_one(server, "server") }?;
        let disconnect = |_| async move { tool.disconnect(&server).await };
        wait(FUNCTION, disconnect)?.map_err(|error| refusal(FUNCTION, &error))
    })
}

/// `PMIx_tool_get_servers`: returns the connected servers, which the caller frees. Calls go to the
/// first.
///
/// # Safety
///
/// `servers` and `nservers` are null or point to places for the results.
#[unsafe(export_name = "PMIx_tool_get_servers")]
pub unsafe extern "C" fn tool_get_servers(
    servers: *mut *mut CProc,
    nservers: *mut usize,
) -> CStatus {
    border::status("PMIx_tool_get_servers", || {
        if servers.is_null() || nservers.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees the places.
        unsafe { give_array(HeapArray::default(), servers, nservers) };
        let found = HeapArray::from_models(&tool()?.servers())?;
        if found.is_empty() {
            return Err(code::PMIX_ERR_UNREACH);
        }
        // SAFETY: as above.
        unsafe { give_array(found, servers, nservers) };
        Ok(())
    })
}

/// `PMIx_tool_set_server`: sends calls to this server from now on.
///
/// # Safety
///
/// `server` is null or points to a proc, `info` is null or begins an array of `ninfo` infos.
#[unsafe(export_name = "PMIx_tool_set_server")]
pub unsafe extern "C" fn tool_set_server(
    server: *const CProc,
    _info: *mut CInfo,
    _ninfo: usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_tool_set_server";
    border::status(FUNCTION, || {
        let tool = tool()?;
        // SAFETY: the caller guarantees a proc or null.
        let server: Proc = unsafe { read_one(server, "server") }?;
        let set = tool.set_server(&server);
        set.map_err(|error| match refusal(FUNCTION, &error) {
            code::PMIX_ERR_NOT_FOUND => code::PMIX_ERR_UNREACH,
            status => status,
        })
    })
}

/// `PMIx_tool_is_connected`: returns true if a server is connected, since 5.0.
#[unsafe(export_name = "PMIx_tool_is_connected")]
pub extern "C" fn tool_is_connected() -> CBool {
    border::value("PMIx_tool_is_connected", 0, || {
        let running = Library::running();
        CBool::from(running.is_ok_and(|running| running.client.server().is_some()))
    })
}
