//! Worker of the log channels. It starts requests as they may begin, except duplicates of recent
//! ones.
use super::{
    Logging,
    backlog::{ChannelBacklog, NextRequest, RequestPlace},
    writing::ChannelWriter,
};
use crate::{deadline::until, guest_thread::on_guest_thread};
use peal_core::{
    MonotonicTime,
    log::duplicates::{DuplicateFilter, DuplicateKey, DuplicateSummary},
};
use peal_model::{LogRequest, Status};
use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};
use tokio::task::JoinSet;
use tracing::{Instrument, field};

pub(super) struct ChannelWorker {
    pub(super) backlog: Arc<ChannelBacklog>,
    pub(super) writer: Arc<ChannelWriter>,
    /// Recent requests, for duplicate suppression.
    pub(super) duplicates: DuplicateFilter,
    pub(super) started: Instant,
}

/// Log request that was written and answered.
struct Written {
    request: Arc<LogRequest>,
    duplicate_key: Option<DuplicateKey>,
    status: Status,
    /// Kept until the duplicate filter contains the request, so that later duplicates find it.
    place: RequestPlace,
}

/// Upper bound of requests that begin before the worker yields to other tasks.
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
                    // Other tasks of the runtime get a turn after each group of requests.
                    tokio::task::yield_now().await;
                    continue;
                }
            }
            tokio::select! {
                () = self.backlog.changed() => {}
                Some(done) = under_way.join_next() => {
                    // A task that panicked has already reported it.
                    if let Ok(written) = done {
                        self.finish(written);
                    }
                }
                () = until(self.started, self.duplicates.deadline()) => {
                    if let Some(summary) = self.duplicates.close(self.now()) {
                        self.add(summary);
                    }
                }
            }
        }
        // The intake is closed, so the last summaries are written here.
        for DuplicateSummary { request, origin } in self.duplicates.close_all() {
            let request = Arc::new(request);
            if let Ok(run) = self
                .writer
                .route(&request, &self.writer.arrival(SystemTime::now(), origin))
            {
                self.writer.write(&request, run, None).await;
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
            tracing::warn!("log channels not stopped; no guest thread available");
        }
    }

    fn now(&self) -> MonotonicTime {
        MonotonicTime::default() + self.started.elapsed()
    }

    /// Starts requests that may begin, up to a bound, and returns the next action.
    fn begin_some(&mut self, under_way: &mut JoinSet<Written>) -> NextRequest {
        for _ in 0..AT_ONCE {
            match self.backlog.begin() {
                NextRequest::Begin(logging, place) => self.begin(*logging, place, under_way),
                next => return next,
            }
        }
        self.backlog.begin()
    }

    /// Writes a request in a task, unless it is a duplicate of a recent one.
    fn begin(&mut self, logging: Logging, place: RequestPlace, under_way: &mut JoinSet<Written>) {
        let Logging {
            request,
            run,
            to,
            duplicate_key,
        } = logging;
        let repeated = duplicate_key
            .as_ref()
            .and_then(|key| self.duplicates.repeats(key));
        if let Some(status) = repeated {
            self.writer
                .metrics
                .counters()
                .log_requests_aggregated
                .count();
            // The place is dropped on return, so later requests may begin at once.
            if let Some(to) = to {
                self.writer.report(to, status.into());
            }
            return;
        }
        let writer = self.writer.clone();
        let span = tracing::info_span!(
            "log request",
            source = request.source.as_ref().map(field::display)
        )
        .or_current();
        let write = async move {
            let status = writer.write(&request, run, to).await;
            Written {
                request,
                duplicate_key,
                status,
                place,
            }
        };
        under_way.spawn(write.instrument(span));
    }

    /// Remembers a request for duplicates. Afterwards later requests may begin.
    fn finish(&mut self, written: Written) {
        let Written {
            request,
            duplicate_key,
            status,
            place,
        } = written;
        if let Some(key) = duplicate_key
            && let Some(summary) = self.duplicates.logged(key, &request, status, self.now())
        {
            self.add(summary);
        }
        drop(place);
    }

    /// Queues a summary of suppressed duplicates behind the other requests of its user. Its result
    /// is reported to no requester.
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
                    to: None,
                    duplicate_key: None,
                },
            );
        }
    }
}
