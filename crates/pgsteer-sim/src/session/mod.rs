//! One connection on the server's side, from its first byte to its end. The task here owns the socket and obeys
//! orders; what the messages mean is in the files below it. It never panics on what a client sends.

mod auth;
mod copy;
mod execute;
mod extended;
mod io;
mod login;
mod scripted;
mod settings;
mod simple;
mod surroundings;
mod transaction;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::cluster::{Accepted, Cluster};
use crate::control::Control;
use crate::fault::{Accept, Death, Shutdown};
use crate::log::{End, Event};
use crate::net::gate::Gated;
use crate::net::link::{Link, Transport};
use crate::sql::SqlError;
use crate::wire::backend;
use crate::wire::frontend::{Frontend, Malformed};

use extended::{Portal, Prepared};
use io::Incoming;
use settings::Settings;
use transaction::Transaction;

/// Why a session is over.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The client said goodbye.
    Terminated,
    /// The connection is gone.
    Lost,
    /// An administrator ended it.
    Dismissed(Shutdown),
    /// A FATAL error ends it; sent already.
    Fatal(String),
    /// It was no session, and is over.
    NoSession,
    /// It dies without a word.
    Died(Death),
    Nonsense(&'static str),
}

/// Why a statement did not finish.
#[derive(Debug)]
pub(crate) enum Failure {
    Sql(SqlError),
    Halt(Halt),
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Failure::Sql(error)
    }
}

impl From<Halt> for Failure {
    fn from(halt: Halt) -> Self {
        Failure::Halt(halt)
    }
}

impl From<Malformed> for Halt {
    fn from(malformed: Malformed) -> Self {
        Halt::Nonsense(malformed.0)
    }
}

/// A session and its connection.
pub(crate) struct Session<'a> {
    cluster: &'a Arc<Cluster>,
    server: &'a Arc<str>,
    control: &'a Control,
    link: &'a mut Link,
    id: u64,
    inbox: BytesMut,
    out: BytesMut,
    user: String,
    database: String,
    settings: Settings,
    transaction: Transaction,
    prepared: BTreeMap<String, Arc<Prepared>>,
    portals: BTreeMap<String, Portal>,
    /// When the running statement is cancelled by `statement_timeout`.
    deadline: Option<Instant>,
    /// Scripted: only so many bytes of the next answer, then this end.
    cut: Option<(usize, Death)>,
    /// Scripted: these bytes instead of the next answer.
    raw: Option<Bytes>,
}

/// Serves a connection that the server has taken in a task of its own.
pub(crate) fn serve(cluster: &Arc<Cluster>, server: &Arc<str>, transport: Transport, accepted: Accepted) {
    let (cluster, server) = (cluster.clone(), server.clone());
    let Accepted { id, control, accept } = accepted;
    let (frozen, partition, received) = cluster.with(&server, |state| {
        (
            state.frozen.clone(),
            state.partition.clone(),
            state.received.clone(),
        )
    });
    let mut link = Link::new(transport, partition.clone(), received);
    tokio::spawn(async move {
        let halt = {
            let session = Session::new(&cluster, &server, &control, &mut link, id);
            let life = Gated::new(&frozen, session.live(accept));
            tokio::select! {
                biased;
                how = control.death() => Halt::Died(how),
                halt = life => halt,
            }
        };
        // As in the real server, the place is free before the client can see that the connection is closed.
        cluster.ended(id);
        let death = match &halt {
            // Across a cut cable no farewell arrives.
            _ if partition.is_shut() => Some(Death::Silence),
            Halt::Died(how) => Some(*how),
            _ => None,
        };
        cluster.record(&server, id, Event::Ended(end(&halt)));
        if let Some(remains) = death.and_then(|how| link.die(how)) {
            cluster.keep(&server, remains);
        }
    });
}

fn end(halt: &Halt) -> End {
    match halt {
        Halt::Terminated => End::Terminated,
        Halt::Lost => End::Lost,
        Halt::Dismissed(Shutdown::Crash) => End::Dismissed("57P02".to_owned()),
        Halt::Dismissed(_) => End::Dismissed("57P01".to_owned()),
        Halt::Fatal(sqlstate) => End::Dismissed(sqlstate.clone()),
        Halt::NoSession => End::NoSession,
        Halt::Died(how) => End::Died(*how),
        Halt::Nonsense(_) => End::Nonsense,
    }
}

impl<'a> Session<'a> {
    fn new(
        cluster: &'a Arc<Cluster>,
        server: &'a Arc<str>,
        control: &'a Control,
        link: &'a mut Link,
        id: u64,
    ) -> Self {
        Session {
            cluster,
            server,
            control,
            link,
            id,
            inbox: BytesMut::new(),
            out: BytesMut::new(),
            user: String::new(),
            database: String::new(),
            settings: Settings::default(),
            transaction: Transaction::default(),
            prepared: BTreeMap::new(),
            portals: BTreeMap::new(),
            deadline: None,
            cut: None,
            raw: None,
        }
    }

    /// The whole life of the connection.
    async fn live(mut self, accept: Accept) -> Halt {
        let outcome = match accept {
            Accept::Close => return Halt::NoSession,
            Accept::Hang => self.listen_in_silence().await,
            Accept::Babble(bytes) => {
                self.out.extend_from_slice(&bytes);
                match self.flush().await {
                    Ok(()) => self.listen_in_silence().await,
                    Err(halt) => Err(halt),
                }
            }
            _ => match self.log_in().await {
                Ok(()) => self.serve_messages().await,
                Err(halt) => Err(halt),
            },
        };
        let Err(halt) = outcome;
        self.say_goodbye(&halt).await;
        halt
    }

    async fn say_goodbye(&mut self, halt: &Halt) {
        const BY_ADMINISTRATOR: &str = "terminating connection due to administrator command";
        const IMMEDIATE: &str = "terminating connection due to immediate shutdown command";
        const CRASH: &str = "terminating connection because of crash of another server process";
        match halt {
            Halt::Dismissed(Shutdown::Fast) => {
                backend::error(&mut self.out, "FATAL", "57P01", BY_ADMINISTRATOR)
            }
            Halt::Dismissed(Shutdown::Immediate) => {
                backend::notice(&mut self.out, "WARNING", "57P01", IMMEDIATE)
            }
            Halt::Dismissed(Shutdown::Crash) => backend::notice(&mut self.out, "WARNING", "57P02", CRASH),
            Halt::Nonsense(what) => backend::error(&mut self.out, "FATAL", "08P01", what),
            Halt::Fatal(_) => {}
            _ => return,
        }
        // The farewell is best effort: whether the client still listens changes nothing.
        let _ = self.link.write_all(&self.out).await;
        let _ = self.link.flush().await;
    }

    /// Reads and answers nothing until the client goes.
    async fn listen_in_silence(&mut self) -> Result<std::convert::Infallible, Halt> {
        loop {
            self.inbox.clear();
            match self.link.read_buf(&mut self.inbox).await {
                Ok(0) | Err(_) => return Err(Halt::NoSession),
                Ok(_) => {}
            }
        }
    }

    /// Serves a session that is logged in.
    async fn serve_messages(&mut self) -> Result<std::convert::Infallible, Halt> {
        let mut skipping = false;
        loop {
            let Incoming::Message(message) = self.incoming().await? else {
                continue;
            };
            if skipping && !matches!(message, Frontend::Sync | Frontend::Terminate) {
                continue;
            }
            match message {
                Frontend::Terminate => return Err(Halt::Terminated),
                Frontend::Query(sql) => self.simple_query(&sql).await?,
                Frontend::Sync => {
                    skipping = false;
                    self.sync().await?;
                }
                Frontend::Flush => self.flush().await?,
                // What is left of a copy that failed.
                Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => {}
                Frontend::Password(_) => return Err(Halt::Nonsense("unexpected password message")),
                extended => match self.extended(extended).await {
                    Ok(()) => {}
                    Err(Failure::Halt(halt)) => return Err(halt),
                    Err(Failure::Sql(error)) => {
                        self.fail(&error);
                        // As the real server does, an error goes out at once, before the Sync.
                        self.flush().await?;
                        skipping = true;
                    }
                },
            }
        }
    }

    /// Answers with an error, and fails or rolls back the transaction.
    fn fail(&mut self, error: &SqlError) {
        let event = Event::Error {
            sqlstate: error.sqlstate.clone(),
        };
        self.cluster.record(self.server, self.id, event);
        backend::error(&mut self.out, "ERROR", &error.sqlstate, &error.message);
        self.abort();
    }

    fn warn(&mut self, sqlstate: &str, message: &str) {
        backend::notice(&mut self.out, "WARNING", sqlstate, message);
    }

    /// Says what the transaction's state is, and that the next message may come.
    async fn ready(&mut self) -> Result<(), Halt> {
        let status = self.transaction.status();
        self.cluster.note_session(self.id, |session| {
            session.transaction_status = status;
            session.running = None;
        });
        backend::ready(&mut self.out, status as u8);
        self.flush().await
    }
}
