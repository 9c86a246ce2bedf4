//! The receiving end of every flow.

use anole_quic::{Server, ServerOptions};
use anyhow::{Result, bail};
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc as tokio_mpsc, oneshot};

/// A peer that is silent for this long is an error: longer than the outages that scenarios play.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The QUIC server on a thread of its own, so that receiving does not delay sending.
pub struct ServerThread {
    pub server: Arc<Server>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// Binds, in the namespace of the calling thread, and serves until dropped.
    pub fn start(listen: SocketAddr) -> Result<ServerThread> {
        let (bound, result) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("quic-server".to_string()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let serve = async |bound: mpsc::Sender<Result<Arc<Server>>>| {
                let options = ServerOptions { listen, idle_timeout: IDLE_TIMEOUT };
                match Server::bind(&options) {
                    Ok(server) => {
                        let server = Arc::new(server);
                        let _ = bound.send(Ok(server.clone()));
                        let (ended, _nobody_asks) = tokio_mpsc::unbounded_channel();
                        tokio::select! {
                            () = server.run(ended) => {}
                            _ = stopped => {}
                        }
                    }
                    Err(error) => drop(bound.send(Err(error.into()))),
                }
            };
            match runtime {
                Ok(runtime) => runtime.block_on(serve(bound)),
                Err(error) => drop(bound.send(Err(error.into()))),
            }
        })?;
        match result.recv() {
            Ok(server) => Ok(ServerThread { server: server?, stop: Some(stop), thread: Some(thread) }),
            Err(_) => bail!("the QUIC server's thread ended at once"),
        }
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
