//! Live parts of pages, and the stream by which a browser gets them.
use crate::{
    console::Console,
    feed::FeedState,
    guard::Visitor,
    pages::{activity, denials, events},
};
use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures_util::stream;
use maud::{Markup, html};
use peal_server::admin::LiveData;
use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, watch};

/// Time between two comments in a stream without changes, which show that the browser is there.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Part of a page that changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fragment {
    /// Identity, phase, numbers and troubles of the server.
    Server,
    /// Jobs and procs.
    Jobs,
    /// Users and their quotas.
    Users,
    /// Sinks.
    Sinks,
    /// Rates of the codes.
    Codes,
    /// Latest events.
    Events,
    /// Modules in their roles: calls, time, failures.
    Modules,
    /// Latest denials.
    Denials,
}

impl Fragment {
    pub(crate) const ALL: [Fragment; 8] = [
        Fragment::Server,
        Fragment::Jobs,
        Fragment::Users,
        Fragment::Sinks,
        Fragment::Codes,
        Fragment::Events,
        Fragment::Modules,
        Fragment::Denials,
    ];

    /// Returns the name in the page.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fragment::Server => "server",
            Fragment::Jobs => "jobs",
            Fragment::Users => "users",
            Fragment::Sinks => "sinks",
            Fragment::Codes => "codes",
            Fragment::Events => "events",
            Fragment::Modules => "modules",
            Fragment::Denials => "denials",
        }
    }

    /// Returns its HTML. A server that has told nothing yet must not look like one where nothing happens.
    pub(crate) fn render(self, data: &LiveData) -> Markup {
        if data.server.is_none() {
            return html! { p.faint { "The server has told nothing of this yet." } };
        }
        match self {
            Fragment::Server => activity::server(data),
            Fragment::Jobs => activity::jobs(data),
            Fragment::Users => activity::users(data),
            Fragment::Sinks => activity::sinks(data),
            Fragment::Codes => events::codes(data),
            Fragment::Events => events::latest(data),
            Fragment::Modules => activity::modules(data),
            Fragment::Denials => denials::latest(data),
        }
    }
}

/// Page with parts that change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LivePage {
    Overview,
    Events,
    Chains,
    Denials,
}

impl LivePage {
    /// Returns the name in the address of its stream.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LivePage::Overview => "overview",
            LivePage::Events => "events",
            LivePage::Chains => "chains",
            LivePage::Denials => "denials",
        }
    }

    /// Returns its parts.
    pub(crate) fn fragments(self) -> &'static [Fragment] {
        match self {
            LivePage::Overview => &[
                Fragment::Server,
                Fragment::Jobs,
                Fragment::Users,
                Fragment::Sinks,
            ],
            LivePage::Events => &[Fragment::Codes, Fragment::Events],
            LivePage::Chains => &[Fragment::Modules],
            LivePage::Denials => &[Fragment::Denials],
        }
    }

    fn named(name: &str) -> Option<LivePage> {
        let all = [
            LivePage::Overview,
            LivePage::Events,
            LivePage::Chains,
            LivePage::Denials,
        ];
        all.into_iter().find(|page| page.name() == name)
    }
}

/// Stream of a browser.
struct PageStream {
    console: Arc<Console>,
    visitor: Visitor,
    page: LivePage,
    states: watch::Receiver<Arc<FeedState>>,
    /// HTML that the browser has.
    known: BTreeMap<Fragment, Arc<str>>,
    lost: Option<String>,
    _permit: OwnedSemaphorePermit,
}

/// Serves the stream of a page.
pub(crate) async fn stream_page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
    Path(page): Path<String>,
) -> Response {
    let Some(page) = LivePage::named(&page) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let Ok(permit) = console.watchers.clone().try_acquire_owned() else {
        let max = console.settings.bounds.watchers;
        let reason = format!(
            "{max} pages are live, more are not allowed (console.max_watchers); this page shows what was there \
             when it was loaded"
        );
        return (StatusCode::SERVICE_UNAVAILABLE, reason).into_response();
    };
    let begun = PageStream {
        states: console.feed.subscribe(),
        console,
        visitor,
        page,
        known: BTreeMap::new(),
        lost: None,
        _permit: permit,
    };
    let events = stream::unfold(begun, |mut stream| async move {
        let event = stream.next().await?;
        Some((Ok::<Event, Infallible>(event), stream))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Sse::new(events).keep_alive(keep_alive).into_response()
}

impl PageStream {
    /// Waits for the next change of the page. None ends the stream: the session has ended.
    async fn next(&mut self) -> Option<Event> {
        loop {
            self.console.feed.touch();
            if !self.console.is_valid(&self.visitor) {
                return None;
            }
            let state = self.states.borrow_and_update().clone();
            if let Some(event) = self.changes(&state) {
                return Some(event);
            }
            self.states.changed().await.ok()?;
        }
    }

    /// Returns what the browser does not have.
    fn changes(&mut self, state: &FeedState) -> Option<Event> {
        if state.lost != self.lost {
            self.lost = state.lost.clone();
            let reason = self.lost.as_deref().unwrap_or_default();
            let reason = serde_json::to_string(reason).ok()?;
            return Some(Event::default().event("lost").data(reason));
        }
        let mut new = BTreeMap::new();
        for (fragment, html) in state.of_page(self.page) {
            let known = self.known.get(&fragment);
            if !known.is_some_and(|known| Arc::ptr_eq(known, html)) {
                self.known.insert(fragment, html.clone());
                new.insert(fragment.name(), &**html);
            }
        }
        if new.is_empty() {
            return None;
        }
        // JSON has no line breaks, which would end the data.
        let new = serde_json::to_string(&new).ok()?;
        Some(Event::default().event("fragments").data(new))
    }
}
