//! Web console of a server: what it does, its chains, modules, denials and audit trail in a browser.
//!
//! ```text
//! ConsoleSettings     what the configuration says; ConsoleSecrets, read before the process is confined
//! serve
//!   listener          connections: number, time, TLS
//!   guard             host, origin, rights, header fields
//!   login, tokens     tokens and sessions
//!   feed              one stream of reports from the server for all browsers
//!   live              parts of pages as they change, by server-sent events
//!   pages/            what each page shows, as HTML
//!   replay            replay of a recorded call by another process
//!   server_link       requests on the admin socket
//! ```
//!
//! The console is a client of the admin socket, in a process of its own. It shows what administrators may see,
//! and changes modules for those with the token of administrators. The server records each change with the name
//! of the console.

mod assets;
mod console;
mod feed;
mod guard;
mod html;
mod listener;
mod live;
mod login;
mod pages;
mod picture;
mod replay;
mod server_link;
mod settings;
#[cfg(test)]
mod tests;
mod tokens;

pub use replay::{ReplayFunction, ReplayReport, ReplayVerdict};
pub use settings::{
    ConsoleBounds, ConsoleSecrets, ConsoleSecretsError, ConsoleSettings, ConsoleSettingsError,
};

use peal_server::admin::UserNaming;
use std::{io, sync::Arc};
use tokio::net::TcpListener;

/// Function that returns the id of a user, by name or number, or says why there is none. It may block.
pub type UserSearch = fn(&str) -> Result<u32, String>;

/// Functions of the process that serves the console.
#[derive(Clone)]
pub struct ConsoleFunctions {
    /// Function that returns the name of a user.
    pub naming: UserNaming,
    /// Function that finds a user.
    pub users: UserSearch,
    /// Function that replays a recorded call.
    pub replay: ReplayFunction,
}

/// Serves the console at a listening socket until the future is dropped.
///
/// # Errors
///
/// Fails if the thread of the live pages cannot be started, or the socket cannot be used.
pub async fn serve(
    settings: ConsoleSettings,
    secrets: ConsoleSecrets,
    listener: std::net::TcpListener,
    functions: ConsoleFunctions,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let console = console::Console::new(settings, secrets, functions)?;
    listener::serve(Arc::new(console), listener).await;
    Ok(())
}
