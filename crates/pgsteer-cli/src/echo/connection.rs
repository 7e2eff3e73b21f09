//! One connection of an echo server: what it reads goes back, and the faults that befall it.

use std::io;
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;

use super::fault::{Fault, Kind};
use crate::pieces::{Piece, Pieces};

/// Bytes taken at a time.
const PORTION: usize = 64 * 1024;
/// What is sent as garbage: an answer of another protocol, whose first four bytes would be a length beyond any limit.
const GARBAGE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";

/// What every connection of a server does alike.
#[derive(Clone, Debug)]
pub(super) struct Manners {
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
    pub(super) faults: Vec<Fault>,
    pub(super) spare_pings: bool,
    pub(super) answers: Option<u64>,
}

impl Manners {
    /// Whether all that is read can be sent back without a look at what it is.
    fn plain(&self) -> bool {
        let prompt = self.delay.is_zero() && self.jitter.is_zero();
        prompt && self.answers.is_none() && self.faults.is_empty()
    }

    fn fault(&self, length: u32, chance: &mut Rng) -> Option<Kind> {
        if self.spare_pings && length == 0 {
            return None;
        }
        let mut befalling = self.faults.iter().filter(|fault| chance.f64() < fault.share);
        befalling.next().map(|fault| fault.kind)
    }

    fn delay(&self, length: u32, chance: &mut Rng) -> Duration {
        if self.spare_pings && length == 0 {
            return Duration::ZERO;
        }
        self.delay + self.jitter.mul_f64(chance.f64())
    }
}

/// What a connection came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    /// Requests read to their last byte.
    pub(super) requests: u64,
    /// Of them those that a fault befell.
    pub(super) faults: u64,
}

/// Serves a connection until either side ends it. What was served is added to `served` as it happens.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    manners: &Manners,
    chance: Rng,
    served: impl Fn(Served),
) -> io::Result<()> {
    let mut connection = Connection {
        stream,
        manners,
        chance,
        answers: 0,
        frame: Frame::default(),
    };
    let mut bytes = vec![0; PORTION];
    let mut pieces = Pieces::new();
    loop {
        let length = connection.stream.read(&mut bytes).await?;
        if length == 0 {
            return connection.stream.shutdown().await;
        }
        if manners.plain() {
            let requests = count(&mut pieces, &bytes[..length]);
            connection.send(&bytes[..length]).await?;
            served(Served { requests, faults: 0 });
            continue;
        }
        let mut rest = &bytes[..length];
        while let Some(piece) = pieces.next(&mut rest) {
            let goes_on = connection.take(piece).await?;
            if piece == Piece::End {
                let faults = u64::from(connection.frame.fault.is_some());
                served(Served { requests: 1, faults });
            }
            if !goes_on {
                return connection.stream.shutdown().await;
            }
        }
    }
}

fn count(pieces: &mut Pieces, mut bytes: &[u8]) -> u64 {
    let mut requests = 0;
    while let Some(piece) = pieces.next(&mut bytes) {
        requests += u64::from(piece == Piece::End);
    }
    requests
}

/// The request being answered.
#[derive(Debug, Default)]
struct Frame {
    fault: Option<Kind>,
    /// Where in the payload a byte is to be changed.
    corrupt_at: Option<u32>,
    /// Bytes of the payload that have been seen.
    seen: u32,
    /// Bytes of the answer that may still be sent, if it is to be cut.
    left: Option<u32>,
    /// The answer's bytes, kept where they are sent at the end only.
    kept: Vec<u8>,
}

struct Connection<'a, S> {
    stream: S,
    manners: &'a Manners,
    chance: Rng,
    answers: u64,
    frame: Frame,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<'_, S> {
    /// To the last byte, whatever the stream would have kept to itself for a while.
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Answers a piece; whether the connection goes on.
    async fn take(&mut self, piece: Piece<'_>) -> io::Result<bool> {
        match piece {
            Piece::Begin(length) => self.begin(length).await?,
            Piece::Payload(part) => self.payload(part).await?,
            Piece::End => return self.end().await,
        }
        Ok(true)
    }

    async fn begin(&mut self, length: u32) -> io::Result<()> {
        let fault = self.manners.fault(length, &mut self.chance);
        self.frame = Frame {
            fault,
            ..Frame::default()
        };
        match fault {
            Some(Kind::Cut(bytes)) => self.frame.left = Some(bytes),
            Some(Kind::Corrupt) if length > 0 => self.frame.corrupt_at = Some(self.chance.u32(..length)),
            _ => {}
        }
        let delay = self.manners.delay(length, &mut self.chance);
        if !delay.is_zero() {
            sleep(delay).await;
        }
        self.answer(&length.to_be_bytes()).await
    }

    async fn payload(&mut self, part: &[u8]) -> io::Result<()> {
        let first = self.frame.seen;
        // A part is no longer than the payload, whose length is a u32.
        self.frame.seen += part.len() as u32;
        match self.frame.corrupt_at {
            Some(at) if (first..self.frame.seen).contains(&at) => {
                let mut changed = part.to_vec();
                changed[(at - first) as usize] ^= 0xff;
                self.answer(&changed).await
            }
            _ => self.answer(part).await,
        }
    }

    /// Sends, keeps or swallows a part of the answer, as the fault asks.
    async fn answer(&mut self, part: &[u8]) -> io::Result<()> {
        match self.frame.fault {
            Some(Kind::Hang | Kind::Close | Kind::Garbage | Kind::Oversize) => Ok(()),
            Some(Kind::Cut(_)) => {
                let left = self.frame.left.unwrap_or(0);
                let sent = part.len().min(left as usize);
                self.frame.left = Some(left - sent as u32);
                self.send(&part[..sent]).await
            }
            Some(Kind::Trickle(millis)) => {
                for byte in part {
                    sleep(Duration::from_millis(millis.into())).await;
                    self.send(std::slice::from_ref(byte)).await?;
                }
                Ok(())
            }
            Some(Kind::Twice) => {
                self.frame.kept.extend_from_slice(part);
                Ok(())
            }
            // The last two befall connections, not requests.
            None | Some(Kind::Corrupt | Kind::Refuse | Kind::CloseAtAccept) => self.send(part).await,
        }
    }

    async fn end(&mut self) -> io::Result<bool> {
        match self.frame.fault {
            Some(Kind::Hang) => {
                let mut ignored = [0; 1024];
                while self.stream.read(&mut ignored).await? > 0 {}
                return Ok(false);
            }
            Some(Kind::Close | Kind::Cut(_)) => return Ok(false),
            Some(Kind::Garbage) => self.send(GARBAGE).await?,
            Some(Kind::Oversize) => {
                self.send(&u32::MAX.to_be_bytes()).await?;
                self.send(GARBAGE).await?;
            }
            Some(Kind::Twice) => {
                let kept = std::mem::take(&mut self.frame.kept).repeat(2);
                self.send(&kept).await?;
            }
            _ => {}
        }
        self.answers += 1;
        Ok(self.manners.answers.is_none_or(|most| self.answers < most))
    }
}
