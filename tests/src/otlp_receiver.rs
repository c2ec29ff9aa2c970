//! Receiver of OTLP over HTTP, with the official definitions of the messages. It may be slow, refuse, or
//! be away.
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::ExportMetricsServiceRequest,
        trace::v1::{
            ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
        },
    },
    common::v1::{KeyValue, any_value},
    metrics::v1::{Metric, metric, number_data_point},
    trace::v1::Span,
};
use prost::Message;
use rustls::ServerConfig;
use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};
use tokio_rustls::TlsAcceptor;

/// Behaviour of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiverMode {
    /// It takes what comes.
    Takes,
    /// It takes traces and says that this number of spans was rejected.
    Rejects(i64),
    /// It answers with this status and takes nothing.
    Answers(u16),
    /// It never answers.
    Silent,
}

/// Request as the receiver got it.
#[derive(Clone, PartialEq, Debug)]
pub struct OtlpRequest {
    /// Path.
    pub path: String,
    /// Header fields with printable values.
    pub headers: BTreeMap<String, String>,
}

/// Attributes by name, numbers in digits.
pub type Attributes = BTreeMap<String, String>;

/// Running receiver. It ends when it is dropped.
pub struct OtlpReceiver {
    address: SocketAddr,
    state: Arc<Mutex<ReceiverState>>,
    runtime: Option<Runtime>,
}

struct ReceiverState {
    mode: ReceiverMode,
    requests: Vec<OtlpRequest>,
    spans: Vec<Span>,
    resource: Attributes,
    metrics: Vec<Metric>,
}

impl OtlpReceiver {
    /// Starts a receiver at any port.
    pub fn start(tls: Option<ServerConfig>) -> OtlpReceiver {
        OtlpReceiver::start_at((Ipv4Addr::LOCALHOST, 0).into(), tls)
    }

    /// Starts a receiver at an address.
    #[track_caller]
    pub fn start_at(address: SocketAddr, tls: Option<ServerConfig>) -> OtlpReceiver {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let state = Arc::new(Mutex::new(ReceiverState {
            mode: ReceiverMode::Takes,
            requests: Vec::new(),
            spans: Vec::new(),
            resource: Attributes::new(),
            metrics: Vec::new(),
        }));
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        // A test may run on a runtime of its own, which must not block.
        let entered = runtime.enter();
        let listener = TcpListener::from_std(listener).unwrap();
        drop(entered);
        let tls = tls.map(|tls| TlsAcceptor::from(Arc::new(tls)));
        runtime.spawn(accept(listener, tls, state.clone()));
        OtlpReceiver {
            address,
            state,
            runtime: Some(runtime),
        }
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the behaviour for later requests.
    pub fn set_mode(&self, mode: ReceiverMode) {
        self.state().mode = mode;
    }

    /// Returns the requests so far, also those that it did not take.
    pub fn requests(&self) -> Vec<OtlpRequest> {
        self.state().requests.clone()
    }

    /// Returns the taken spans.
    pub fn spans(&self) -> Vec<Span> {
        self.state().spans.clone()
    }

    /// Returns the attributes of the server, once it has sent something.
    pub fn resource(&self) -> Attributes {
        self.state().resource.clone()
    }

    /// Returns the metrics that came last.
    pub fn metrics(&self) -> Vec<Metric> {
        self.state().metrics.clone()
    }

    fn state(&self) -> MutexGuard<'_, ReceiverState> {
        self.state.lock().unwrap()
    }
}

impl Drop for OtlpReceiver {
    fn drop(&mut self) {
        // Connections end, too.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, state: Arc<Mutex<ReceiverState>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, state) = (tls.clone(), state.clone());
        tokio::spawn(async move {
            match tls {
                None => serve::<TcpStream>(stream, state).await,
                // The client may refuse the certificate.
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, state).await;
                    }
                }
            }
        });
    }
}

async fn serve<S>(stream: S, state: Arc<Mutex<ReceiverState>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answer = service_fn(move |request: Request<Incoming>| answer(request, state.clone()));
    // The client may close the connection at any time.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<ReceiverState>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes());
    let mode = {
        let mut state = state.lock().unwrap();
        let headers = head.headers.iter();
        state.requests.push(OtlpRequest {
            path: head.uri.path().to_owned(),
            headers: headers
                .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.into())))
                .collect(),
        });
        state.mode
    };
    let mut reply = ExportTraceServiceResponse::default();
    match mode {
        ReceiverMode::Silent => std::future::pending().await,
        ReceiverMode::Answers(status) => {
            let answer = Response::builder().status(status).body(Full::default());
            return Ok(answer.unwrap());
        }
        ReceiverMode::Rejects(rejected_spans) => {
            reply.partial_success = Some(ExportTracePartialSuccess {
                rejected_spans,
                error_message: "some are rejected".to_owned(),
            });
        }
        ReceiverMode::Takes => {}
    }
    take(&mut state.lock().unwrap(), head.uri.path(), &body.unwrap());
    Ok(Response::new(Full::from(reply.encode_to_vec())))
}

fn take(state: &mut ReceiverState, path: &str, body: &[u8]) {
    match path.rsplit_once('/').unwrap().1 {
        "traces" => {
            let message = ExportTraceServiceRequest::decode(body).unwrap();
            for resource in message.resource_spans {
                state.resource = attributes(&resource.resource.unwrap().attributes);
                let scopes = resource.scope_spans.into_iter();
                state.spans.extend(scopes.flat_map(|scope| scope.spans));
            }
        }
        "metrics" => {
            let message = ExportMetricsServiceRequest::decode(body).unwrap();
            let mut metrics = Vec::new();
            for resource in message.resource_metrics {
                state.resource = attributes(&resource.resource.unwrap().attributes);
                let scopes = resource.scope_metrics.into_iter();
                metrics.extend(scopes.flat_map(|scope| scope.metrics));
            }
            state.metrics = metrics;
        }
        other => panic!("{other}"),
    }
}

/// Returns attributes by name.
pub fn attributes(list: &[KeyValue]) -> Attributes {
    let text = |entry: &KeyValue| match entry.value.clone()?.value? {
        any_value::Value::StringValue(text) => Some(text),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{other:?}"),
    };
    list.iter()
        .map(|entry| (entry.key.clone(), text(entry).unwrap()))
        .collect()
}

/// Returns the samples of a metric by their labels, and whether it is a counter.
pub fn samples(metric: &Metric) -> (bool, BTreeMap<Attributes, f64>) {
    let (is_counter, points) = match metric.data.clone().unwrap() {
        metric::Data::Sum(sum) => {
            assert!(sum.is_monotonic, "{}", metric.name);
            (true, sum.data_points)
        }
        metric::Data::Gauge(gauge) => (false, gauge.data_points),
        other => panic!("{other:?}"),
    };
    let value = |value: Option<number_data_point::Value>| match value.unwrap() {
        number_data_point::Value::AsDouble(real) => real,
        number_data_point::Value::AsInt(number) => number as f64,
    };
    let points = points.into_iter();
    let points = points.map(|point| (attributes(&point.attributes), value(point.value)));
    (is_counter, points.collect())
}
