//! Connections to a server of this machine that can be cut.
use std::io;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime::Handle,
    sync::watch,
};

/// Forwards connections to a port.
pub struct Cable {
    port: u16,
    state: watch::Sender<CableState>,
}

/// State of a cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CableState {
    /// Bytes arrive.
    Whole,
    /// Nothing arrives, and nobody is told. What was sent arrives when the cable is whole again.
    Silent,
    /// Connections are closed, new ones at once.
    Closed,
}

impl Cable {
    /// Lays a cable to a port of this machine.
    pub fn to(runtime: &Handle, server: u16) -> Cable {
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)));
        let listener = listener.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = watch::Sender::new(CableState::Whole);
        let watched = state.subscribe();
        runtime.spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(forward(near, server, watched.clone()));
            }
        });
        Cable { port, state }
    }

    /// Returns the port at which connections are taken.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts or mends the cable.
    pub fn set(&self, state: CableState) {
        self.state.send_replace(state);
    }
}

/// Forwards a connection until one side or the cable closes it.
async fn forward(near: TcpStream, server: u16, mut state: watch::Receiver<CableState>) {
    if *state.borrow() == CableState::Closed {
        return;
    }
    let Ok(far) = TcpStream::connect(("127.0.0.1", server)).await else {
        return;
    };
    let (from_near, to_near) = near.into_split();
    let (from_far, to_far) = far.into_split();
    let (there, back) = (state.clone(), state.clone());
    tokio::select! {
        _ = copy(from_near, to_far, there) => {}
        _ = copy(from_far, to_near, back) => {}
        _ = state.wait_for(|state| *state == CableState::Closed) => {}
    }
}

/// Copies bytes while the cable is whole.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<CableState>,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut bytes).await?;
        let is_whole = state.wait_for(|state| *state == CableState::Whole);
        // An error means that the cable is gone.
        let is_gone = is_whole.await.is_err();
        if read == 0 || is_gone {
            return Ok(());
        }
        to.write_all(&bytes[..read]).await?;
    }
}
