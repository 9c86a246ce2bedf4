//! `anole-quic serve`.

use crate::cli::Serve;
use anole_cli::Failure;
use anole_quic::{Ended, QuicError, Server, ServerOptions};
use anole_transfer::received;
use anyhow::Context;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Serves until interrupted, or until as many connections have ended as were asked for.
pub async fn run(options: Serve) -> Result<(), Failure> {
    let server = ServerOptions { listen: options.listen, idle_timeout: options.idle_timeout };
    let server = Arc::new(Server::bind(&server).map_err(|error| match error {
        QuicError::Bind { .. } => Failure::Usage(anyhow::Error::new(error).context("--listen")),
        other => Failure::Run(other.into()),
    })?);
    write_whole(&options.cert, server.certificate().pem().as_bytes())
        .with_context(|| format!("--cert {}: cannot write the certificate", options.cert.display()))
        .map_err(Failure::Usage)?;
    let address = server.address().map_err(|error| Failure::Run(error.into()))?;
    eprintln!("listening on {address}; certificate in {}", options.cert.display());

    let (ended, mut ends) = mpsc::unbounded_channel();
    let task = tokio::spawn({
        let server = server.clone();
        async move { server.run(ended).await }
    });
    let mut left = options.connections.unwrap_or(u64::MAX);
    // One for all turns: another would not hear of a signal that came with the end of a connection.
    let mut interrupted = pin!(crate::interrupted());
    while left > 0 {
        tokio::select! {
            end = ends.recv() => match end {
                Some(end) => {
                    left -= 1;
                    tell(&end, options.json);
                }
                None => break,
            },
            _ = &mut interrupted => break,
        }
    }
    server.close().await;
    task.abort();
    // Those that were open until now.
    while let Some(end) = ends.recv().await {
        tell(&end, options.json);
    }
    Ok(())
}

fn tell(end: &Ended, json: bool) {
    let (remote, bytes) = (end.received.remote.to_string(), end.received.bytes());
    received(&remote, bytes, end.lasted, end.error.as_deref(), json);
}

/// Writes a file that stands under its name only when whole.
fn write_whole(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.part", std::process::id()));
    let written = std::fs::write(&temporary, contents).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}
