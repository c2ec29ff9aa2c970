//! One stream of reports from the server for all browsers. It runs while somebody looks, and for a short time
//! after that.
use crate::{
    live::{Fragment, LivePage},
    server_link::ServerLink,
};
use peal_server::admin::{
    ACTIVITY_VERSION, AdminReply, AdminRequest, Answers, LiveData, UserNaming,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, watch};

/// Time between two reports, in milliseconds.
const INTERVAL_MS: u32 = 250;
/// Time after the last look for which reports are taken.
const KEPT: Duration = Duration::from_secs(30);
/// Time that a page waits for the first reports.
const FIRST_REPORT: Duration = Duration::from_secs(3);
/// Time in which the server must answer, and send each report.
const REPORT_TIME: Duration = Duration::from_secs(5);
/// Reports after which there are rates.
const REPORTS: u64 = 2;
/// Pause before a lost server is asked again.
const RETRY: Duration = Duration::from_millis(500);
/// Name in the server's record of the stream.
const BEHALF: &str = "the web console, for its live pages";

/// State of the stream, for the browsers.
#[derive(Clone, Default)]
pub(crate) struct FeedState {
    /// Number of reports since the stream began.
    reports: u64,
    /// Reason why there is no stream; none while there is one.
    pub(crate) lost: Option<String>,
    /// HTML of the fragments that change.
    fragments: BTreeMap<Fragment, Arc<str>>,
}

impl FeedState {
    /// Returns the fragments of a page.
    pub(crate) fn of_page(&self, page: LivePage) -> impl Iterator<Item = (Fragment, &Arc<str>)> {
        let fragments = page.fragments().iter();
        fragments.filter_map(|name| Some((*name, self.fragments.get(name)?)))
    }
}

/// Live page as it is loaded.
pub(crate) struct LoadedPage {
    pub(crate) page: LivePage,
    /// Reason why there are no data; none while there are.
    pub(crate) lost: Option<String>,
}

/// Stream of reports.
pub(crate) struct ActivityFeed {
    data: Mutex<LiveData>,
    naming: UserNaming,
    looked: Mutex<Instant>,
    wake: mpsc::Sender<()>,
    state: watch::Sender<Arc<FeedState>>,
}

impl ActivityFeed {
    /// Starts the thread of the stream. It sleeps until somebody looks.
    pub(crate) fn start(
        link: ServerLink,
        naming: UserNaming,
    ) -> std::io::Result<Arc<ActivityFeed>> {
        let (wake, woken) = mpsc::channel(1);
        let feed = Arc::new(ActivityFeed {
            data: Mutex::new(LiveData::new(naming, None)),
            naming,
            looked: Mutex::new(Instant::now()),
            wake,
            state: watch::Sender::default(),
        });
        let thread = feed.clone();
        thread::Builder::new()
            .name("activity feed".to_owned())
            .spawn(move || thread.run(&link, woken))?;
        Ok(feed)
    }

    /// Notes that somebody looks at a page, and waits until there is something to see, or a reason why not.
    pub(crate) async fn look(&self, page: LivePage) -> LoadedPage {
        self.touch();
        let mut state = self.state.subscribe();
        let is_there = |state: &Arc<FeedState>| state.reports >= REPORTS || state.lost.is_some();
        let lost = match tokio::time::timeout(FIRST_REPORT, state.wait_for(is_there)).await {
            Ok(state) => state.ok().and_then(|state| state.lost.clone()),
            Err(_) => Some("the server has not answered yet".to_owned()),
        };
        LoadedPage { page, lost }
    }

    /// Notes that somebody looks.
    pub(crate) fn touch(&self) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        // A full queue wakes as well.
        let _ = self.wake.try_send(());
    }

    /// Returns the states of the stream.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<FeedState>> {
        self.state.subscribe()
    }

    /// Returns the latest data.
    pub(crate) fn data(&self) -> MutexGuard<'_, LiveData> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_looked_at(&self) -> bool {
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        looked.elapsed() < KEPT
    }

    fn run(&self, link: &ServerLink, mut woken: mpsc::Receiver<()>) {
        while woken.blocking_recv().is_some() {
            while self.is_looked_at() {
                let lost = match self.subscribe_at(link) {
                    Ok(answers) => self.follow(answers),
                    Err(reason) => Some(reason),
                };
                if lost.is_some() {
                    self.forget(lost);
                    thread::sleep(RETRY);
                }
            }
            // What was seen is old when somebody looks again.
            self.forget(None);
        }
    }

    /// Drops all data: a page that is loaded shows nothing old.
    fn forget(&self, lost: Option<String>) {
        *self.data() = LiveData::new(self.naming, None);
        self.state.send_replace(Arc::new(FeedState {
            lost,
            ..FeedState::default()
        }));
    }

    fn subscribe_at(&self, link: &ServerLink) -> Result<Answers, String> {
        let interval_ms = INTERVAL_MS;
        match link.open(&AdminRequest::Activity { interval_ms }, BEHALF, REPORT_TIME) {
            Ok((AdminReply::Reporting, answers)) => {
                *self.data() = LiveData::new(self.naming, None);
                Ok(answers)
            }
            Ok((reply, _)) => Err(crate::server_link::unexpected(&reply).to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Takes reports while somebody looks. Returns the reason if they end earlier.
    fn follow(&self, mut answers: Answers) -> Option<String> {
        let mut reports = 0;
        while self.is_looked_at() {
            // A server that has stopped must not look like one where nothing happens.
            let report = match answers.reply_within(REPORT_TIME) {
                Ok(AdminReply::Activity(report)) if report.version == ACTIVITY_VERSION => report,
                Ok(AdminReply::Ended) => return Some("the server has ended".to_owned()),
                Ok(reply) => return Some(crate::server_link::unexpected(&reply).to_string()),
                Err(error) => return Some(error.to_string()),
            };
            reports += 1;
            let mut data = self.data();
            data.apply(*report);
            let fragments = match self.state.receiver_count() {
                0 => BTreeMap::new(),
                _ => rendered(&data, &self.state.borrow().fragments),
            };
            drop(data);
            self.state.send_replace(Arc::new(FeedState {
                reports,
                lost: None,
                fragments,
            }));
        }
        None
    }
}

/// Returns the HTML of all fragments. One that has not changed stays the same object.
fn rendered(
    data: &LiveData,
    before: &BTreeMap<Fragment, Arc<str>>,
) -> BTreeMap<Fragment, Arc<str>> {
    let of = |fragment: &Fragment| {
        let html: Arc<str> = fragment.render(data).into_string().into();
        let known = before.get(fragment).filter(|known| **known == html);
        (*fragment, known.cloned().unwrap_or(html))
    };
    Fragment::ALL.iter().map(of).collect()
}
