//! The console: what all requests share, and its routes.
use crate::{
    ConsoleFunctions, UserSearch, assets,
    feed::ActivityFeed,
    guard::{self, Visitor},
    live, login,
    pages::{activity, audit, chains, denials, events, module_changes, modules},
    replay::{self, ReplayFunction},
    server_link::ServerLink,
    settings::{ConsoleSecrets, ConsoleSettings},
    tokens::{AccessTokens, Sessions},
};
use axum::{
    Router, middleware,
    routing::{get, post},
};
use peal_server::admin::{ChainOwner, UserNaming};
use rustls::ServerConfig;
use std::{
    io,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;

/// Largest body of a request, in bytes: a form.
pub(crate) const MAX_BODY: usize = 16 * 1024;
/// Delay of the answer to a wrong token.
const WRONG_TOKEN_DELAY: Duration = Duration::from_secs(1);
/// Wrong tokens that wait for their answers at once. Further ones are refused without a delay, which would take
/// memory; tokens are too long to be guessed at any rate.
const MAX_WRONG_TOKENS: usize = 16;

/// Reads of the audit trail at once: each takes a processor, and the disk of the server.
const MAX_TRAIL_READS: usize = 2;

/// Console of a server.
pub(crate) struct Console {
    pub(crate) settings: ConsoleSettings,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) tokens: AccessTokens,
    pub(crate) sessions: Sessions,
    pub(crate) link: ServerLink,
    pub(crate) feed: Arc<ActivityFeed>,
    pub(crate) naming: UserNaming,
    pub(crate) users: UserSearch,
    pub(crate) replay: ReplayFunction,
    /// Permit of the replay that is carried out.
    pub(crate) replays: Arc<Semaphore>,
    /// Permits of reads of the audit trail.
    pub(crate) trail_reads: Arc<Semaphore>,
    /// Permits of live pages.
    pub(crate) watchers: Arc<Semaphore>,
    wrong_tokens: Semaphore,
}

impl Console {
    pub(crate) fn new(
        settings: ConsoleSettings,
        secrets: ConsoleSecrets,
        functions: ConsoleFunctions,
    ) -> io::Result<Console> {
        let link = ServerLink::new(settings.admin_socket.clone());
        let bounds = settings.bounds;
        Ok(Console {
            tls: secrets.tls,
            tokens: secrets.tokens,
            sessions: Sessions::new(bounds.sessions, bounds.session_lifetime),
            feed: ActivityFeed::start(link.clone(), functions.naming)?,
            link,
            naming: functions.naming,
            users: functions.users,
            replay: functions.replay,
            replays: Arc::new(Semaphore::new(1)),
            trail_reads: Arc::new(Semaphore::new(MAX_TRAIL_READS)),
            watchers: Arc::new(Semaphore::new(bounds.watchers)),
            wrong_tokens: Semaphore::new(MAX_WRONG_TOKENS),
            settings,
        })
    }

    /// Returns true if the connections are protected by TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Delays the answer to a wrong token. Returns false if too many wait already.
    pub(crate) async fn delay_wrong_token(&self, from: Option<IpAddr>) -> bool {
        match self.wrong_tokens.try_acquire() {
            Ok(_waiting) => {
                // Bounded by the delay.
                let from = from.map(tracing::field::display);
                tracing::warn!(from, "wrong token at the web console");
                tokio::time::sleep(WRONG_TOKEN_DELAY).await;
                true
            }
            Err(_) => false,
        }
    }

    /// Returns true while the session of a visitor lasts.
    pub(crate) fn is_valid(&self, visitor: &Visitor) -> bool {
        let session = visitor.session.as_ref();
        session.is_none_or(|session| self.sessions.get(session, Instant::now()).is_some())
    }

    /// Returns the name of a user.
    pub(crate) fn user(&self, uid: u32) -> String {
        (self.naming)(uid)
    }

    /// Returns the name of an owner.
    pub(crate) fn owner(&self, owner: &ChainOwner) -> String {
        match owner {
            ChainOwner::Site => "site".to_owned(),
            ChainOwner::User(uid) => format!("user {}", self.user(*uid)),
            ChainOwner::Namespace(nspace) => format!("job {nspace}"),
        }
    }
}

/// Returns the routes. All but the login and the files of the pages need rights.
pub(crate) fn routes(console: &Arc<Console>) -> Router {
    let timeout = console.settings.bounds.request_timeout;
    let timely = || middleware::from_fn_with_state(timeout, guard::limit_time);
    let timely_body = || middleware::from_fn_with_state(timeout, guard::read_body);
    let guarded = Router::new()
        .route("/", get(activity::overview_page))
        .route("/events", get(events::events_page))
        .route("/events/{number}", get(events::event_page))
        .route("/chains", get(chains::chains_page))
        .route("/modules", get(modules::modules_page))
        .route(
            "/modules/change",
            get(module_changes::confirm_page).post(module_changes::change_modules),
        )
        .route("/denials", get(denials::denials_page))
        .route("/audit", get(audit::audit_page))
        .route("/audit/{record}", get(audit::record_page))
        .route("/live/{page}", get(live::stream_page))
        .route("/logout", post(login::log_out))
        .route_layer(timely())
        // A replay has a limit of its own.
        .route("/audit/{record}/replay", post(replay::replay_call))
        .layer(timely_body())
        .layer(middleware::from_fn_with_state(
            console.clone(),
            guard::require_rights,
        ));
    let open = Router::new()
        .route("/login", get(login::login_page).post(login::log_in))
        .route("/console.css", get(assets::style))
        .route("/console.js", get(assets::script))
        .layer(timely())
        .layer(timely_body());
    guarded
        .merge(open)
        .layer(middleware::from_fn_with_state(
            console.clone(),
            guard::check_host_and_origin,
        ))
        .layer(middleware::from_fn(guard::add_headers))
        .with_state(console.clone())
}
