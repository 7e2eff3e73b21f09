//! The one question before a handshake: whether the server offers TLS.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use pgsteer_core::verdict::Stage;

use crate::dial::error::{Failure, Observed};

/// The SSLRequest message: its length and the number that stands for the request.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// What the server says to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Offered,
    NotOffered,
}

/// Asks, and reads the one byte of the answer.
///
/// Whatever comes right behind it was sent before the server could know how things go on, so by somebody who wants it
/// taken for a part of the encrypted session (CVE-2021-23222): it ends the attempt.
pub(super) async fn ask_for_tls(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Result<Answer, Failure> {
    let mut answer = [0; 2];
    let read = async {
        socket.write_all(&SSL_REQUEST).await?;
        socket.flush().await?;
        // One read: it takes what is there and waits for no more. Nothing of it is kept for later.
        socket.read(&mut answer).await
    };
    let length = read.await.map_err(|error| {
        let text = format!("{error} while the server was asked for TLS");
        Failure::new(Stage::Connect, Observed::Io(error.kind()), text)
    })?;
    match &answer[..length] {
        [] => Err(Failure::new(
            Stage::Connect,
            Observed::Closed,
            "the server closed the connection when it was asked for TLS",
        )),
        [b'S'] => Ok(Answer::Offered),
        [b'N'] => Ok(Answer::NotOffered),
        // The message is not shown: nothing vouches for who wrote it (CVE-2024-10977).
        [b'E', ..] => Err(bad(
            "the server answered the request for TLS with an error: it is too old for TLS or out of resources",
        )),
        [b'S' | b'N', _] => Err(bad(
            "more than an answer to the request for TLS came back: somebody may be tampering with the connection",
        )),
        _ => Err(bad(
            "the answer to the request for TLS is not PostgreSQL's protocol",
        )),
    }
}

fn bad(text: &'static str) -> Failure {
    Failure::new(Stage::Tls, Observed::BadServer, text)
}
