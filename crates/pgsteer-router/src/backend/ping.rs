//! Asking a backend whether it is well, in its own protocol: an empty frame there, an empty frame back.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::io::BackendIo;
use crate::frame::HEADER_LEN;

const EMPTY: [u8; HEADER_LEN] = [0; HEADER_LEN];

/// Sends an empty frame and waits for one.
///
/// Not cancel safe: a connection whose ping was given up owes an answer, so it is to be closed.
pub(super) async fn ping(io: &mut BackendIo, limit: Duration) -> io::Result<()> {
    let exchange = async {
        io.write_all(&EMPTY).await?;
        io.flush().await?;
        let mut answer = EMPTY;
        io.read_exact(&mut answer).await?;
        if answer == EMPTY {
            Ok(())
        } else {
            Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it was not answered by an empty frame",
            ))
        }
    };
    let error = match timeout(limit, exchange).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), "the connection was closed instead of an answer")
        }
        Ok(Err(error)) => error,
        Err(_) => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("it was not answered within {limit:?}"),
        ),
    };
    Err(io::Error::new(
        error.kind(),
        format!("the health check failed: {error}"),
    ))
}
