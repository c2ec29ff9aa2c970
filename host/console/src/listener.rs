//! Connections of browsers: bounded in number and time, with TLS if there is a certificate.
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
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::TlsAcceptor;

/// Pause after the system failed to accept a connection.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Upper bound of the head of a request, in bytes.
const HEAD: usize = 16 * 1024;

/// Router of the console, as hyper calls it.
type Routes = TowerToHyperService<axum::Router>;

/// Serves browsers until the future is dropped.
pub(crate) async fn serve(console: Arc<Console>, listener: TcpListener) {
    let permits = Arc::new(Semaphore::new(console.settings.bounds.connections));
    let routes: Routes = TowerToHyperService::new(routes(&console));
    let acceptor = console.tls.clone().map(TlsAcceptor::from);
    // Further connections wait in the queue of the kernel. The semaphore is never closed.
    while let Ok(permit) = permits.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, address)) => {
                let connection = BrowserConnection {
                    routes: routes.clone(),
                    acceptor: acceptor.clone(),
                    timeout: console.settings.bounds.request_timeout,
                    address,
                    _permit: permit,
                };
                tokio::spawn(async move {
                    if let Err(error) = connection.serve(stream).await {
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
    address: SocketAddr,
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
            address: self.address,
            has_certificate,
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
