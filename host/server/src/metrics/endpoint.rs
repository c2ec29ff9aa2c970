//! HTTP endpoint `GET /metrics` for Prometheus. It has no access control and is read-only.
use super::{Metrics, Snapshot};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
};

/// Upper bound of connections that are served at once; others wait to be accepted.
const CONNECTIONS: usize = 8;

/// Time limit of a connection, from its first byte to the end of the answer.
const TIME: Duration = Duration::from_secs(10);

/// Upper bounds of the head of a request, in bytes (the minimum that `hyper` allows), and of its
/// lines.
const HEAD: usize = 8192;
const HEADERS: usize = 32;

/// Pause of the listener after the system failed to accept a connection.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Error of the start of the endpoint.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// Listening on the address failed.
    #[error("cannot serve metrics on {address}: {source}")]
    Listen {
        /// Address.
        address: SocketAddr,
        /// System error.
        source: std::io::Error,
    },
}

/// Endpoint that serves metrics until it is stopped or dropped.
#[derive(Debug)]
pub struct MetricsEndpoint {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl MetricsEndpoint {
    /// Starts to listen. Port zero selects any free port.
    pub async fn start(
        address: SocketAddr,
        metrics: Arc<Metrics>,
    ) -> Result<MetricsEndpoint, EndpointError> {
        let of = |source| EndpointError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(of)?;
        let address = listener.local_addr().map_err(of)?;
        Ok(MetricsEndpoint {
            address,
            task: tokio::spawn(listen(listener, metrics)),
        })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the endpoint. The listener is closed when this returns.
    pub async fn stop(mut self) {
        self.task.abort();
        // Ignore the result: it only says that the task was aborted.
        let _ = (&mut self.task).await;
    }
}

impl Drop for MetricsEndpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(listener: TcpListener, metrics: Arc<Metrics>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(permit) = permits.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let metrics = metrics.clone();
                tokio::spawn(async move {
                    serve(stream, metrics).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a metrics connection failed");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Serves one connection with one request.
async fn serve(stream: TcpStream, metrics: Arc<Metrics>) {
    let answer = service_fn(|request: Request<Incoming>| {
        let response = answer(&request, &metrics);
        async { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        // An idle connection would keep one of the few permits.
        .keep_alive(false)
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        // `hyper` panics if a read timeout is set without a timer.
        .timer(TokioTimer::new())
        .header_read_timeout(TIME)
        .serve_connection(TokioIo::new(stream), answer);
    // The read timeout does not include the time of the answer.
    match tokio::time::timeout(TIME, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "malformed metrics request"),
        Err(_) => tracing::debug!(limit = ?TIME, "metrics request timed out"),
    }
}

fn answer(request: &Request<Incoming>, metrics: &Metrics) -> Response<Full<Bytes>> {
    if request.uri().path() != "/metrics" {
        return plain(
            StatusCode::NOT_FOUND,
            "not found; metrics are at /metrics\n",
        );
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "method not allowed; use GET or HEAD\n",
        );
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match metrics.snapshot().text() {
        Ok(text) => {
            let mut response = Response::new(Full::from(text));
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static(Snapshot::TEXT_TYPE));
            response
        }
        // This cannot happen: writing to a string does not fail.
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text.to_owned()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn start() -> (MetricsEndpoint, Arc<Metrics>) {
        let metrics = Arc::new(Metrics::default());
        let endpoint = MetricsEndpoint::start((Ipv4Addr::LOCALHOST, 0).into(), metrics.clone())
            .await
            .unwrap();
        (endpoint, metrics)
    }

    async fn ask(endpoint: &MetricsEndpoint, request: &str) -> String {
        let mut stream = TcpStream::connect(endpoint.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn metrics_are_at_their_path_and_other_paths_are_refused() {
        let (endpoint, metrics) = start().await;
        metrics.counters().connections_refused.add(7);
        let answer = ask(&endpoint, "GET /metrics HTTP/1.1\r\nhost: me\r\n\r\n").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(
            head.contains(
                "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"
            ),
            "{head}"
        );
        assert!(
            body.contains("\npeal_connections_refused_total 7\n") && body.ends_with("# EOF\n"),
            "{body}"
        );
        let head = ask(&endpoint, "HEAD /metrics HTTP/1.1\r\nhost: me\r\n\r\n").await;
        assert!(
            head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
        for (request, wanted) in [
            ("GET / HTTP/1.1\r\nhost: me\r\n\r\n", "HTTP/1.1 404 "),
            (
                "GET /metrics/../x HTTP/1.1\r\nhost: me\r\n\r\n",
                "HTTP/1.1 404 ",
            ),
            (
                "POST /metrics HTTP/1.1\r\nhost: me\r\ncontent-length: 0\r\n\r\n",
                "HTTP/1.1 405 ",
            ),
            ("nonsense\r\n\r\n", "HTTP/1.1 400 "),
        ] {
            let answer = ask(&endpoint, request).await;
            assert!(answer.starts_with(wanted), "{request:?}: {answer}");
        }
    }

    #[tokio::test]
    async fn too_long_heads_are_refused() {
        let (endpoint, _) = start().await;
        let long = format!(
            "GET /metrics HTTP/1.1\r\nhost: me\r\nx: {}\r\n\r\n",
            "x".repeat(2 * HEAD)
        );
        let many = format!(
            "GET /metrics HTTP/1.1\r\n{}\r\n",
            "x: y\r\n".repeat(2 * HEADERS)
        );
        for request in [long, many] {
            let mut stream = TcpStream::connect(endpoint.address()).await.unwrap();
            // The server may close the connection before all of it is written.
            let _ = stream.write_all(request.as_bytes()).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert!(
                answer.is_empty() || answer.starts_with(b"HTTP/1.1 431 "),
                "{}",
                String::from_utf8_lossy(&answer)
            );
        }
    }

    #[tokio::test]
    async fn silent_connections_are_bounded_in_number_and_time() {
        let (endpoint, _) = start().await;
        let mut idle = Vec::new();
        for _ in 0..CONNECTIONS {
            idle.push(TcpStream::connect(endpoint.address()).await.unwrap());
        }
        // The next connection waits for a permit, and gets one when the first connections time out.
        let answer = ask(&endpoint, "GET /metrics HTTP/1.1\r\nhost: me\r\n\r\n");
        tokio::pin!(answer);
        let early = tokio::time::timeout(Duration::from_millis(50), &mut answer).await;
        assert!(early.is_err(), "one connection too many was served");
        tokio::time::pause();
        let answer = answer.await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
}
