//! One connection to a fake server, from accept to the point where the fake stops.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use super::{Fake, FakePg, Shared};

/// Request codes that take the place of the protocol's version in a first packet.
const CANCEL_REQUEST: i32 = 80_877_102;
const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;

/// More than any client's packet that a fake is meant for.
const LONGEST: usize = 1 << 20;

/// Holds the conversation to its end. Returning closes the connection.
pub(super) fn hold(mut stream: TcpStream, number: usize, shared: &Shared) -> io::Result<()> {
    match shared.fake() {
        Fake::Close => return Ok(()),
        Fake::Silent => return keep_silent(&mut stream),
        _ => {}
    }
    let Some(parameters) = read_startup(&mut stream, shared)? else {
        return Ok(());
    };
    shared.lock().startups.push(parameters);
    match shared.fake() {
        Fake::SslRequestThenClose
        | Fake::SslRequestThenBytes(_)
        | Fake::TlsThenSilent
        | Fake::TlsThenClose
        | Fake::StartupThenClose => return Ok(()),
        Fake::StartupThenSilent => return keep_silent(&mut stream),
        Fake::StartupThenBytes(bytes) => return say_and_keep_silent(&mut stream, &bytes),
        Fake::Refuse(refusal) => return stream.write_all(&refusal.error()),
        Fake::AuthenticationOkThenClose => return stream.write_all(&authentication_ok()),
        Fake::AuthenticationOkThenSilent => return say_and_keep_silent(&mut stream, &authentication_ok()),
        _ => {}
    }
    {
        // Under the lock, so that whoever has seen the welcome is counted as logged in.
        let mut state = shared.lock();
        stream.write_all(&welcome())?;
        if let Some((_, logged_in)) = state.open.get_mut(&number) {
            *logged_in = true;
        }
    }
    if let Fake::ReadyThenNotice(warning) = shared.fake() {
        return stream.write_all(&warning.notice());
    }
    answer_requests(&mut stream, shared)
}

/// The startup packet's parameters, after whatever is asked before it. `None` where the conversation ends before.
fn read_startup(stream: &mut TcpStream, shared: &Shared) -> io::Result<Option<BTreeMap<String, String>>> {
    loop {
        let packet = read_body(stream)?;
        let code = packet.first_chunk().map(|code| i32::from_be_bytes(*code));
        match (code, shared.fake()) {
            (Some(SSL_REQUEST), Fake::SslRequestThenClose) => return Ok(None),
            (Some(SSL_REQUEST), Fake::SslRequestThenBytes(bytes)) => {
                say_and_keep_silent(stream, &bytes)?;
                return Ok(None);
            }
            (Some(SSL_REQUEST), Fake::TlsThenSilent) => {
                say_and_keep_silent(stream, b"S")?;
                return Ok(None);
            }
            (Some(SSL_REQUEST), Fake::TlsThenClose) => {
                stream.write_all(b"S")?;
                let _ = stream.read(&mut [0; 512])?;
                return Ok(None);
            }
            (Some(SSL_REQUEST | GSS_REQUEST), _) => stream.write_all(b"N")?,
            (None | Some(CANCEL_REQUEST), _) => return Ok(None),
            (Some(_), _) => return Ok(Some(parameters(&packet[4..]))),
        }
    }
}

/// Answers each request as one that gives no rows, until the fake is to do something else.
fn answer_requests(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    loop {
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        let body = read_body(stream)?;
        if kind == *b"X" {
            return Ok(());
        }
        match shared.fake() {
            Fake::ReadyThenSilent => return keep_silent(stream),
            Fake::ReadyThenClose => return Ok(()),
            Fake::ReadyThenRefuse(refusal) => return stream.write_all(&refusal.error()),
            Fake::ReadyThenBytes(bytes) => return say_and_keep_silent(stream, &bytes),
            _ => stream.write_all(&answer(kind[0], &body))?,
        }
    }
}

fn answer(kind: u8, body: &[u8]) -> Vec<u8> {
    let done = FakePg::frame(b'C', b"SELECT 0\0");
    match kind {
        b'Q' => [done, ready_for_query()].concat(),
        b'S' => ready_for_query(),
        b'P' => FakePg::frame(b'1', b""),
        b'B' => FakePg::frame(b'2', b""),
        b'D' if body.first() == Some(&b'P') => FakePg::frame(b'n', b""),
        b'D' => [FakePg::frame(b't', &[0, 0]), FakePg::frame(b'n', b"")].concat(),
        b'E' => done,
        b'C' => FakePg::frame(b'3', b""),
        _ => Vec::new(),
    }
}

fn authentication_ok() -> Vec<u8> {
    FakePg::frame(b'R', &0_i32.to_be_bytes())
}

fn ready_for_query() -> Vec<u8> {
    FakePg::frame(b'Z', b"I")
}

/// AuthenticationOk, a key for cancel requests, ReadyForQuery.
fn welcome() -> Vec<u8> {
    let key = FakePg::frame(b'K', &[0, 0, 0, 1, 0, 0, 0, 2]);
    let encoding = FakePg::frame(b'S', b"client_encoding\0UTF8\0");
    [authentication_ok(), encoding, key, ready_for_query()].concat()
}

fn parameters(body: &[u8]) -> BTreeMap<String, String> {
    let texts: Vec<String> = body
        .split(|byte| *byte == 0)
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect();
    let pairs = texts
        .chunks_exact(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()));
    pairs.take_while(|(name, _)| !name.is_empty()).collect()
}

/// Reads a length and what it announces.
fn read_body(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(0);
    let length = length.checked_sub(4).filter(|length| *length <= LONGEST);
    let length = length.ok_or(io::ErrorKind::InvalidData)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}

fn say_and_keep_silent(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    keep_silent(stream)
}

/// Reads whatever comes until the other side, or the test, closes.
fn keep_silent(stream: &mut TcpStream) -> io::Result<()> {
    let mut ignored = [0; 4096];
    while stream.read(&mut ignored)? > 0 {}
    Ok(())
}
