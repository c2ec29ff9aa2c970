//! HTTP client of the OTLP exporters. It posts to the collector alone, and keeps why a post failed.
use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use peal_sinks::WebService;
use prost::Message;
use std::sync::{Arc, Mutex, PoisonError};

/// Failure of a post.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PostFailure {
    /// The collector may take the same batch later.
    Later(String),
    /// The collector refuses the batch.
    Refused(String),
}

/// Client of a collector.
#[derive(Clone, Debug)]
pub(crate) struct CollectorClient {
    service: WebService,
    state: Arc<Mutex<PostState>>,
}

/// Result of the last post.
#[derive(Debug, Default)]
struct PostState {
    failure: Option<PostFailure>,
    body: Vec<u8>,
}

impl CollectorClient {
    pub(crate) fn new(service: WebService) -> CollectorClient {
        CollectorClient {
            service,
            state: Arc::default(),
        }
    }

    /// Returns the failure of the last post, and forgets it.
    pub(crate) fn take_failure(&self) -> Option<PostFailure> {
        self.with_state(|state| state.failure.take())
    }

    /// Returns the number of spans in the last post that the collector rejected.
    pub(crate) fn rejected_spans(&self) -> usize {
        let body = self.with_state(|state| std::mem::take(&mut state.body));
        let reply = ExportTraceServiceResponse::decode(body.as_slice()).unwrap_or_default();
        let rejected = reply.partial_success.map(|partial| partial.rejected_spans);
        rejected
            .and_then(|rejected| usize::try_from(rejected).ok())
            .unwrap_or_default()
    }

    fn with_state<R>(&self, change: impl FnOnce(&mut PostState) -> R) -> R {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the failure that a status means, by the specification of OTLP over HTTP.
fn failure_of(status: u16) -> Option<PostFailure> {
    match status {
        200..300 => None,
        408 | 429 | 502..=504 => Some(PostFailure::Later(format!("HTTP status {status}"))),
        _ => Some(PostFailure::Refused(format!("HTTP status {status}"))),
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        // The other header fields are those of the settings: the environment may not add any.
        let content_type = head.headers.get("content-type").cloned();
        let content_type = content_type.ok_or("the exporter names no content type")?;
        let posted = self
            .service
            .post(head.uri.path(), content_type, body.to_vec())
            .await;
        match posted {
            Ok(reply) => {
                self.with_state(|state| {
                    state.failure = failure_of(reply.status);
                    state.body.clone_from(&reply.body);
                });
                let response = Response::builder().status(reply.status);
                Ok(response.body(Bytes::from(reply.body))?)
            }
            Err(error) => {
                let failure = PostFailure::Later(error.to_string());
                self.with_state(|state| state.failure = Some(failure));
                Err(error.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_retried_refused_or_taken_as_otlp_says() {
        for status in [200, 202] {
            assert_eq!(failure_of(status), None);
        }
        for status in [408, 429, 502, 503, 504] {
            assert!(matches!(failure_of(status), Some(PostFailure::Later(_))));
        }
        for status in [301, 400, 401, 403, 404, 413, 500] {
            assert!(matches!(failure_of(status), Some(PostFailure::Refused(_))));
        }
    }
}
