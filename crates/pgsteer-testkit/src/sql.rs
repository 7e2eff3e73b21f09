//! A superuser's session over a server's Unix socket: sends SQL text, reads rows as text. Blocking, and independent
//! of the client library under test. The server trusts the account of this socket, so there is no login to speak of.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::backend::{ErrorFields, Message};
use postgres_protocol::message::frontend;

use crate::failure::Failure;

/// The superuser that the testkit works as. TCP logins of it are refused.
pub(crate) const ADMIN: &str = "testkit";

/// Result rows as text; NULL is `None`.
pub type Rows = Vec<Vec<Option<String>>>;

/// Longest wait for an answer. A frozen server is the usual reason for none.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// Longest wait for a server to close a session.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);

/// What a server said no with, or why it could not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// The SQLSTATE, or an empty text when the server could not be asked at all.
    pub sqlstate: String,
    /// The server's words, or the operating system's.
    pub message: String,
}

impl fmt::Display for SqlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sqlstate.as_str() {
            "" => formatter.write_str(&self.message),
            sqlstate => write!(formatter, "{sqlstate}: {}", self.message),
        }
    }
}

impl std::error::Error for SqlError {}

impl From<io::Error> for SqlError {
    fn from(error: io::Error) -> Self {
        Self {
            sqlstate: String::new(),
            message: error.to_string(),
        }
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self::new(error.to_string())
    }
}

/// One session.
pub(crate) struct Session {
    stream: UnixStream,
    received: BytesMut,
}

impl Session {
    /// Logs in as the superuser.
    pub(crate) fn open(socket_folder: &Path, port: u16, database: &str) -> Result<Self, SqlError> {
        let stream = UnixStream::connect(socket_folder.join(format!(".s.PGSQL.{port}")))?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        let mut session = Self {
            stream,
            received: BytesMut::new(),
        };
        let mut request = BytesMut::new();
        let parameters = [
            ("user", ADMIN),
            ("database", database),
            ("application_name", ADMIN),
        ];
        frontend::startup_message(parameters, &mut request)?;
        session.stream.write_all(&request)?;
        session.read_to_ready()?;
        Ok(session)
    }

    /// Runs SQL, one or more statements, and gives the rows of all of them.
    pub(crate) fn run(&mut self, sql: &str) -> Result<Rows, SqlError> {
        let mut request = BytesMut::new();
        frontend::query(sql, &mut request)?;
        self.stream.write_all(&request)?;
        self.read_to_ready()
    }

    /// Reads up to the server's ReadyForQuery. An error ends the reading: the session is not used after one.
    fn read_to_ready(&mut self) -> Result<Rows, SqlError> {
        let mut rows = Rows::new();
        loop {
            match self.next_message()? {
                Message::ReadyForQuery(_) => return Ok(rows),
                Message::ErrorResponse(body) => return Err(server_error(body.fields())),
                Message::DataRow(body) => rows.push(text_row(body.buffer(), body.ranges())?),
                _ => {}
            }
        }
    }

    fn next_message(&mut self) -> Result<Message, SqlError> {
        loop {
            if let Some(message) = Message::parse(&mut self.received)? {
                return Ok(message);
            }
            let mut chunk = [0; 8192];
            let length = self.stream.read(&mut chunk)?;
            if length == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            self.received.extend_from_slice(&chunk[..length]);
        }
    }
}

impl Drop for Session {
    /// Leaves, and waits until the server has let go: a session on its way out still takes one of few slots.
    fn drop(&mut self) {
        let mut goodbye = BytesMut::new();
        frontend::terminate(&mut goodbye);
        let _ = self.stream.set_read_timeout(Some(GOODBYE_LIMIT));
        let _ = self.stream.write_all(&goodbye);
        while self.stream.read(&mut [0; 1024]).is_ok_and(|length| length > 0) {}
    }
}

fn text_row(
    buffer: &[u8],
    mut ranges: postgres_protocol::message::backend::DataRowRanges<'_>,
) -> io::Result<Vec<Option<String>>> {
    use fallible_iterator::FallibleIterator as _;
    let mut row = Vec::new();
    while let Some(range) = ranges.next()? {
        row.push(range.map(|range| String::from_utf8_lossy(&buffer[range]).into_owned()));
    }
    Ok(row)
}

fn server_error(mut fields: ErrorFields<'_>) -> SqlError {
    use fallible_iterator::FallibleIterator as _;
    let mut error = SqlError {
        sqlstate: String::new(),
        message: String::new(),
    };
    while let Ok(Some(field)) = fields.next() {
        let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'C' => error.sqlstate = value,
            b'M' => error.message = value,
            _ => {}
        }
    }
    error
}
