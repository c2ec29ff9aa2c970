//! The worker that has log requests written as they may begin, unless the like of them was logged lately.
use super::{
    LogAnswer, LogRequester, Logging, Subject,
    backlog::{ChannelBacklog, NextRequest, RequestPlace},
    writing::{ChannelWriter, LogResult},
};
use crate::{deadline::until, guest_thread::on_guest_thread, handle::ServerHandle};
use peal_core::{
    MonotonicTime,
    log::duplicates::{DuplicateFilter, DuplicateKey, DuplicateSummary},
};
use peal_model::LogRequest;
use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};
use tokio::task::JoinSet;
use tracing::{Instrument, field};

pub(super) struct ChannelWorker {
    pub(super) backlog: Arc<ChannelBacklog>,
    pub(super) writer: Arc<ChannelWriter>,
    pub(super) handle: ServerHandle,
    /// What was logged lately.
    pub(super) book: DuplicateFilter,
    pub(super) started: Instant,
}

/// A request that was written.
struct Written {
    request: Arc<LogRequest>,
    subject: Subject,
    became: LogResult,
    /// Those behind it wait until the book knows of it.
    place: RequestPlace,
}

/// How many requests begin before others have their turn at the runtime.
const AT_ONCE: usize = 32;

impl ChannelWorker {
    pub(super) async fn run(mut self) {
        let mut under_way = JoinSet::new();
        loop {
            match self.begin_some(&mut under_way) {
                NextRequest::End => break,
                NextRequest::Wait => {}
                NextRequest::Begin(logging, place) => {
                    self.begin(*logging, place, &mut under_way);
                    tokio::task::yield_now().await;
                    continue;
                }
            }
            tokio::select! {
                () = self.backlog.changed() => {}
                Some(done) = under_way.join_next() => {
                    // One that panicked has said so.
                    if let Ok(written) = done {
                        self.end(written);
                    }
                }
                () = until(self.started, self.book.deadline()) => {
                    if let Some(tally) = self.book.close(self.now()) {
                        self.add(tally);
                    }
                }
            }
        }
        for DuplicateSummary { request, origin } in self.book.close_all() {
            let request = Arc::new(request);
            if let Ok(run) = self
                .writer
                .route(&request, &self.writer.arrival(SystemTime::now(), origin))
            {
                self.writer.write(&request, run).await;
            }
        }
        let writers = self.writer.writers.borrow().clone();
        let stop = move || {
            writers
                .modules
                .iter()
                .for_each(|served| served.module.stop())
        };
        if on_guest_thread(&self.writer.pool, stop).await.is_none() {
            tracing::warn!("no guest thread was free to tell the log channels that they stop");
        }
    }

    fn now(&self) -> MonotonicTime {
        MonotonicTime::default() + self.started.elapsed()
    }

    /// Begins with those that may, but not too many, and returns what is next.
    fn begin_some(&mut self, under_way: &mut JoinSet<Written>) -> NextRequest {
        for _ in 0..AT_ONCE {
            match self.backlog.begin() {
                NextRequest::Begin(logging, place) => self.begin(*logging, place, under_way),
                next => return next,
            }
        }
        self.backlog.begin()
    }

    /// Has a request written, unless the like of it was lately.
    fn begin(&mut self, logging: Logging, place: RequestPlace, under_way: &mut JoinSet<Written>) {
        let Logging {
            request,
            run,
            subject,
        } = logging;
        let repeated = subject
            .likeness()
            .and_then(|likeness| self.book.repeats(likeness));
        if let Some(status) = repeated {
            self.writer
                .metrics
                .counters()
                .log_requests_aggregated
                .count();
            self.tell(subject, status.into());
            return;
        }
        let writer = self.writer.clone();
        let span = tracing::info_span!(
            "log request",
            source = request.source.as_ref().map(field::display)
        );
        let write = async move {
            let became = writer.write(&request, run).await;
            Written {
                request,
                subject,
                became,
                place,
            }
        };
        under_way.spawn(write.instrument(span));
    }

    /// Tells what became of a request, and remembers it for those like it. Then those behind it may begin.
    fn end(&mut self, written: Written) {
        let Written {
            request,
            mut subject,
            became,
            place,
        } = written;
        if let Some(likeness) = subject.take_likeness()
            && let Some(tally) = self
                .book
                .logged(likeness, &request, became.status, self.now())
        {
            self.add(tally);
        }
        self.tell(subject, became);
        drop(place);
    }

    fn tell(&self, subject: Subject, became: LogResult) {
        if let Subject::Request { to, .. } = subject {
            self.writer.metrics.counters().log_requests.count();
            if let Some(LogAnswer { to, reply }) = to.tell(became) {
                self.handle.answer(to, reply);
            }
        }
    }

    /// Has it logged how many requests were not, behind what their user has waiting. Nobody is told what becomes of that.
    fn add(&self, DuplicateSummary { request, origin }: DuplicateSummary) {
        let arrival = self.writer.arrival(SystemTime::now(), origin);
        let request = Arc::new(request);
        if let Ok(run) = self.writer.route(&request, &arrival) {
            let user = request.identity.map(|identity| identity.uid);
            self.backlog.add(
                user,
                Logging {
                    request,
                    run,
                    subject: Subject::Tally,
                },
            );
        }
    }
}

impl Subject {
    /// That of a request of this asker.
    pub(super) fn request(to: LogRequester, likeness: Option<DuplicateKey>) -> Subject {
        Subject::Request { to, likeness }
    }

    fn likeness(&self) -> Option<&DuplicateKey> {
        match self {
            Subject::Request { likeness, .. } => likeness.as_ref(),
            Subject::Tally => None,
        }
    }

    fn take_likeness(&mut self) -> Option<DuplicateKey> {
        match self {
            Subject::Request { likeness, .. } => likeness.take(),
            Subject::Tally => None,
        }
    }
}
