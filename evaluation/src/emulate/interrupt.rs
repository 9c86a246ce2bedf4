//! What SIGINT and SIGTERM end: a run, which takes down what it brought up, or between runs the program.

use anyhow::{Result, anyhow};
use std::sync::{LazyLock, Once};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Whether one of them came. A run that goes on has a receiver.
static CAME: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// A run that they end. From the first one on they are this program's: the system's own handling does not come back.
pub struct Run(watch::Receiver<bool>);

impl Run {
    /// Begins one.
    pub fn begin() -> Run {
        static LISTENING: Once = Once::new();
        LISTENING.call_once(|| {
            // Without handlers the system's own apply.
            let _ = listen();
        });
        Run(CAME.subscribe())
    }

    /// Ends it; an error if a signal came meanwhile.
    pub fn end(self) -> Result<()> {
        drop(self.0);
        if *CAME.borrow() { Err(anyhow!("interrupted")) } else { Ok(()) }
    }
}

/// Waits for a signal on a thread of its own.
fn listen() -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _context = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let wait = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        CAME.send_replace(true);
        if CAME.receiver_count() == 0 {
            eprintln!("anole-eval: interrupted");
            std::process::exit(1);
        }
    };
    std::thread::Builder::new().name("signals".to_string()).spawn(move || runtime.block_on(wait))?;
    Ok(())
}

/// Returns when the user wants the run to end.
pub async fn interrupted() {
    // The sender is there for good.
    let _ = CAME.subscribe().wait_for(|came| *came).await;
}
