//! Begin and end of a host environment.
use super::{
    handshake::{hello, open},
    home::{HomeError, HomeSettings},
    host::HostServer,
    upcalls::HostModule,
};
use crate::{
    abi::{CInfo, CServerModule, CStatus},
    border,
    client::{
        init::settings,
        library::{Connection, Library},
    },
    convert::read_one,
    trace,
};
use peal_client::{AttachTarget, Client, ClientError, Tool, ToolSettings};
use peal_model::{Info, code};
use peal_stub::ServerWelcome;
use peal_wire::variable;
use std::env;

/// `PMIx_server_init`: finds or starts the server of this process, and passes it what the host
/// environment offers. Later calls are counted. Infos that cannot be converted are left out: some hosts
/// run nothing, and report success, if this call fails.
///
/// # Safety
///
/// `module` is null or points to the 28 members of a module of 4.2, which may be called from another
/// thread; `info` is null or begins an array of `ninfo` infos.
#[unsafe(export_name = "PMIx_server_init")]
pub unsafe extern "C" fn server_init(
    module: *mut CServerModule,
    info: *mut CInfo,
    ninfo: usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_server_init";
    border::status(FUNCTION, || {
        trace::start();
        if info.is_null() && ninfo > 0 {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees a module or null, and the array.
        let (module, infos) = unsafe { (HostModule::read(module), read_infos(info, ninfo)) };
        Library::get().enter(FUNCTION, move || connect(module, infos))?;
        Ok(())
    })
}

/// `PMIx_server_finalize`: counts down. The last call closes the connection: the server removes what this
/// process has registered, and ends if it was started for this process.
#[unsafe(export_name = "PMIx_server_finalize")]
pub extern "C" fn server_finalize() -> CStatus {
    border::status("PMIx_server_finalize", || {
        Library::get().leave("PMIx_server_finalize")
    })
}

/// Reads the infos that can be converted.
///
/// # Safety
///
/// `info` begins an array of `ninfo` infos, or `ninfo` is zero.
unsafe fn read_infos(info: *const CInfo, ninfo: usize) -> Vec<Info> {
    let mut infos = Vec::new();
    for at in 0..ninfo {
        // SAFETY: the caller guarantees so many infos.
        match unsafe { read_one(info.add(at), "info") } {
            Ok(info) => infos.push(info),
            Err(error) => tracing::warn!(at, %error, "info of the init left out"),
        }
    }
    infos
}

/// Connects to the server, and then as a client of it, so that all functions of clients work.
async fn connect(module: HostModule, infos: Vec<Info>) -> Result<Connection, HomeError> {
    let connected = connect_quietly(module, infos).await;
    connected.inspect_err(|error| {
        // Without a trace nothing else would say it.
        trace::say(&format!("PMIx_server_init: {error}"));
    })
}

async fn connect_quietly(module: HostModule, infos: Vec<Info>) -> Result<Connection, HomeError> {
    let chosen = HomeSettings::read()?;
    let accepted = open(&chosen, hello(infos, module.offered())).await?;
    let (server, welcome) = HostServer::begin(accepted, module).map_err(HomeError::Timer)?;
    // The server may be slow, but not for ever.
    let attached = tokio::time::timeout(chosen.answer, attach(&welcome)).await;
    let limit = chosen.answer;
    let attached = attached.map_err(|_| HomeError::NoAnswer { limit });
    let client = match attached.and_then(|attached| attached.map_err(HomeError::Client)) {
        Ok(tool) => {
            tool.forget_own_job();
            server.set_client((*tool).clone());
            Connection::Tool(tool)
        }
        Err(error) => {
            trace::say(&format!(
                "PMIx_server_init: {error}; functions of clients do not work in this process"
            ));
            let client = alone().await.inspect_err(|_| server.close());
            let client = client.map_err(HomeError::Client)?;
            server.set_client(client.clone());
            Connection::Client(client)
        }
    };
    let client = Box::new(client);
    Ok(Connection::Host { server, client })
}

/// Connects to the server as a tool, by the name that it has given.
async fn attach(welcome: &ServerWelcome) -> Result<Tool, ClientError> {
    let uri = welcome.uri.parse();
    let uri = uri.map_err(|_| ClientError::BadVariable {
        variable: variable::SERVER_URI,
        value: welcome.uri.clone(),
        expected: "NSPACE.RANK;tcp4://ADDRESS:PORT",
    })?;
    Tool::init(ToolSettings {
        attach: AttachTarget::Uri(uri),
        me: Some(welcome.name.clone()),
        client: settings(),
        ..tool_settings()?
    })
    .await
}

/// Creates a client without a server, which has the handlers of this process all the same.
async fn alone() -> Result<Client, ClientError> {
    Client::standalone(&tool_settings()?.places, settings()).await
}

/// Returns the settings of the environment, but for a server that started this process: the process is
/// no client of that one.
fn tool_settings() -> Result<ToolSettings, ClientError> {
    ToolSettings::from(|name| match name {
        variable::SERVER_URI => None,
        name => env::var_os(name),
    })
}
