//! Writes what a server sends, into a buffer. Nothing here does I/O; sending, and sending only a part, is the
//! session's matter.

use bytes::{BufMut, Bytes, BytesMut};

use crate::sql::value::Column;

/// One frame: its type, then its length, then what `body` puts.
fn frame(out: &mut BytesMut, kind: u8, body: impl FnOnce(&mut BytesMut)) {
    out.put_u8(kind);
    let at = out.len();
    out.put_i32(0);
    body(out);
    let length = (out.len() - at) as i32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn put_string(out: &mut BytesMut, text: &str) {
    // A zero byte would end the string early; nothing a server says has one.
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.put_u8(0);
}

/// The ways an authentication message can go on.
pub(crate) enum Authentication<'a> {
    Ok,
    Cleartext,
    Md5([u8; 4]),
    Sasl(&'a str),
    SaslContinue(&'a [u8]),
    SaslFinal(&'a [u8]),
}

pub(crate) fn authentication(out: &mut BytesMut, step: &Authentication<'_>) {
    frame(out, b'R', |out| match step {
        Authentication::Ok => out.put_i32(0),
        Authentication::Cleartext => out.put_i32(3),
        Authentication::Md5(salt) => {
            out.put_i32(5);
            out.put_slice(salt);
        }
        Authentication::Sasl(mechanism) => {
            out.put_i32(10);
            put_string(out, mechanism);
            out.put_u8(0);
        }
        Authentication::SaslContinue(data) => {
            out.put_i32(11);
            out.put_slice(data);
        }
        Authentication::SaslFinal(data) => {
            out.put_i32(12);
            out.put_slice(data);
        }
    });
}

pub(crate) fn parameter_status(out: &mut BytesMut, name: &str, value: &str) {
    frame(out, b'S', |out| {
        put_string(out, name);
        put_string(out, value);
    });
}

pub(crate) fn backend_key(out: &mut BytesMut, pid: i32, key: i32) {
    frame(out, b'K', |out| {
        out.put_i32(pid);
        out.put_i32(key);
    });
}

pub(crate) fn negotiate_version(out: &mut BytesMut, minor: i32, unknown: &[&str]) {
    frame(out, b'v', |out| {
        out.put_i32(minor);
        out.put_i32(unknown.len() as i32);
        unknown.iter().for_each(|name| put_string(out, name));
    });
}

pub(crate) fn ready(out: &mut BytesMut, status: u8) {
    frame(out, b'Z', |out| out.put_u8(status));
}

pub(crate) fn command_complete(out: &mut BytesMut, tag: &str) {
    frame(out, b'C', |out| put_string(out, tag));
}

pub(crate) fn error(out: &mut BytesMut, severity: &str, sqlstate: &str, message: &str) {
    frame(out, b'E', |out| fields(out, severity, sqlstate, message));
}

pub(crate) fn notice(out: &mut BytesMut, severity: &str, sqlstate: &str, message: &str) {
    frame(out, b'N', |out| fields(out, severity, sqlstate, message));
}

fn fields(out: &mut BytesMut, severity: &str, sqlstate: &str, message: &str) {
    for (field, text) in [
        (b'S', severity),
        (b'V', severity),
        (b'C', sqlstate),
        (b'M', message),
    ] {
        out.put_u8(field);
        put_string(out, text);
    }
    out.put_u8(0);
}

pub(crate) fn row_description(out: &mut BytesMut, columns: &[Column], formats: &[i16]) {
    frame(out, b'T', |out| {
        out.put_i16(columns.len() as i16);
        for (at, column) in columns.iter().enumerate() {
            put_string(out, &column.name);
            out.put_i32(0);
            out.put_i16(0);
            out.put_u32(column.kind.oid());
            out.put_i16(column.kind.size());
            out.put_i32(-1);
            out.put_i16(format_of(formats, at));
        }
    });
}

/// The format code of one column or parameter: none given means text, one given counts for all.
pub(crate) fn format_of(formats: &[i16], at: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(at).copied().unwrap_or(0),
    }
}

pub(crate) fn data_row(out: &mut BytesMut, cells: &[Option<Bytes>]) {
    frame(out, b'D', |out| {
        out.put_i16(cells.len() as i16);
        for cell in cells {
            match cell {
                None => out.put_i32(-1),
                Some(bytes) => {
                    out.put_i32(bytes.len() as i32);
                    out.put_slice(bytes);
                }
            }
        }
    });
}

pub(crate) fn parameter_description(out: &mut BytesMut, oids: &[u32]) {
    frame(out, b't', |out| {
        out.put_i16(oids.len() as i16);
        oids.iter().for_each(|oid| out.put_u32(*oid));
    });
}

/// Whether a copy goes into the server or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

/// Starts a copy in text format.
pub(crate) fn copy_response(out: &mut BytesMut, direction: Direction, columns: usize) {
    let kind = if direction == Direction::In { b'G' } else { b'H' };
    frame(out, kind, |out| {
        out.put_u8(0);
        out.put_i16(columns as i16);
        (0..columns).for_each(|_| out.put_i16(0));
    });
}

pub(crate) fn copy_data(out: &mut BytesMut, data: &[u8]) {
    frame(out, b'd', |out| out.put_slice(data));
}

/// A message without a body.
#[derive(Clone, Copy)]
pub(crate) enum Bare {
    ParseComplete = b'1' as isize,
    BindComplete = b'2' as isize,
    CloseComplete = b'3' as isize,
    NoData = b'n' as isize,
    PortalSuspended = b's' as isize,
    EmptyQuery = b'I' as isize,
    CopyDone = b'c' as isize,
}

pub(crate) fn bare(out: &mut BytesMut, message: Bare) {
    frame(out, message as u8, |_| {});
}
