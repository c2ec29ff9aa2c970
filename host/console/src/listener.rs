//! Connections of browsers: bounded in number and time, with TLS if there is a certificate. Those without rights
//! make room for others.
use crate::{
    console::{Console, routes},
    guard::BrowserPeer,
};
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustix::net::sockopt::set_tcp_user_timeout;
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::TlsAcceptor;

/// Pause after the system failed to accept a connection.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Upper bound of the head of a request, in bytes.
const HEAD: usize = 16 * 1024;

/// Router of the console, as hyper calls it.
type Routes = TowerToHyperService<axum::Router>;

/// Connections on which nobody has shown rights so far, by the order in which they came.
#[derive(Debug, Default)]
struct UnknownConnections {
    ends: Mutex<BTreeMap<u64, Arc<Notify>>>,
}

impl UnknownConnections {
    fn ends(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Notify>>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the oldest connection end, if there is one.
    fn end_oldest(&self) {
        if let Some((_, end)) = self.ends().pop_first() {
            end.notify_one();
        }
    }
}

/// Place of a connection among those without rights. It is given up with the connection.
#[derive(Debug)]
pub(crate) struct UnknownConnection {
    number: u64,
    of: Arc<UnknownConnections>,
}

impl UnknownConnection {
    fn enter(number: u64, of: &Arc<UnknownConnections>) -> (UnknownConnection, Arc<Notify>) {
        let end = Arc::new(Notify::new());
        of.ends().insert(number, end.clone());
        let of = of.clone();
        (UnknownConnection { number, of }, end)
    }

    /// Notes that the visitor has rights: the connection makes no room for others.
    pub(crate) fn keep(&self) {
        self.of.ends().remove(&self.number);
    }
}

impl Drop for UnknownConnection {
    fn drop(&mut self) {
        self.keep();
    }
}

/// Serves browsers until the future is dropped.
pub(crate) async fn serve(console: Arc<Console>, listener: TcpListener) {
    let permits = Arc::new(Semaphore::new(console.settings.bounds.connections));
    let routes: Routes = TowerToHyperService::new(routes(&console));
    let acceptor = console.tls.clone().map(TlsAcceptor::from);
    let unknown = Arc::new(UnknownConnections::default());
    for number in 0.. {
        match listener.accept().await {
            Ok((stream, address)) => {
                if permits.available_permits() == 0 {
                    unknown.end_oldest();
                }
                // If all have rights, further connections wait here and in the queue of the kernel. The semaphore is
                // never closed.
                let Ok(permit) = permits.clone().acquire_owned().await else {
                    return;
                };
                let (place, end) = UnknownConnection::enter(number, &unknown);
                let connection = BrowserConnection {
                    routes: routes.clone(),
                    acceptor: acceptor.clone(),
                    timeout: console.settings.bounds.request_timeout,
                    peer: BrowserPeer {
                        address,
                        has_certificate: false,
                        place: Arc::new(place),
                    },
                    _permit: permit,
                };
                tokio::spawn(async move {
                    let ended = tokio::select! {
                        served = connection.serve(stream) => served,
                        () = end.notified() => Err(io::Error::other("others need its place")),
                    };
                    if let Err(error) = ended {
                        tracing::debug!(%address, %error, "console connection ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a console connection failed");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Accepted connection.
struct BrowserConnection {
    routes: Routes,
    acceptor: Option<TlsAcceptor>,
    timeout: Duration,
    peer: BrowserPeer,
    _permit: OwnedSemaphorePermit,
}

impl BrowserConnection {
    async fn serve(self, stream: TcpStream) -> io::Result<()> {
        // The kernel ends a connection to a client that does not read, or has gone.
        let timeout = u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX);
        set_tcp_user_timeout(&stream, timeout)?;
        stream.set_nodelay(true)?;
        match &self.acceptor {
            None => self.answer(stream, false).await,
            Some(acceptor) => {
                let handshake = tokio::time::timeout(self.timeout, acceptor.accept(stream));
                let stream = handshake.await.map_err(io::Error::from)??;
                // The handshake has verified it.
                let has_certificate = stream.get_ref().1.peer_certificates().is_some();
                self.answer(stream, has_certificate).await
            }
        }
    }

    async fn answer<S>(&self, stream: S, has_certificate: bool) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let peer = BrowserPeer {
            has_certificate,
            ..self.peer.clone()
        };
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            self.routes.call(request)
        });
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.timeout)
            .max_buf_size(HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .await
            .map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn oldest_connection_without_rights_makes_room() {
        let unknown = Arc::new(UnknownConnections::default());
        let (known, _) = UnknownConnection::enter(0, &unknown);
        let (_second, second_end) = UnknownConnection::enter(1, &unknown);
        let (third, _) = UnknownConnection::enter(2, &unknown);
        known.keep();
        unknown.end_oldest();
        second_end.notified().await;
        drop(third);
        assert!(unknown.ends().is_empty());
    }
}
