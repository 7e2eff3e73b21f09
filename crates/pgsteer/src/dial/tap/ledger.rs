//! Which requests the server still owes an answer, in the order they were sent.
//!
//! Every simple query, function call, Sync and the login itself is answered by exactly one ReadyForQuery, with one
//! exception: a server in COPY-in mode swallows Syncs until the copy is ended. An extended COPY therefore sends two
//! Syncs for one answer, and how many are owed depends on whether the server entered COPY mode, which may be known
//! only after both were sent.

use std::collections::VecDeque;

/// A message of the client that matters for what is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Login,
    Query,
    FunctionCall,
    Sync,
    /// CopyDone or CopyFail: owed nothing, but in COPY mode it makes the server heed Syncs again.
    CopyEnd,
}

/// What becomes of the next Sync while an extended COPY-in is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CopyIn {
    /// None is open, or its closing Sync has been sent.
    #[default]
    Settled,
    /// The server swallows Syncs until the copy is ended.
    Open,
    /// The copy was ended; the next Sync is the one that is answered, and it is on the books already.
    AwaitingSync,
}

/// The books: what was sent and not yet answered.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    owed: VecDeque<Sent>,
    unanswered: usize,
    copy_in: CopyIn,
    /// Part of an extended request has been sent, its Sync has not.
    unsynced: bool,
    /// That part asks for more than closing something.
    does_more: bool,
    /// How many of the latest of those unanswered only close statements or portals.
    asides: usize,
    /// Simple queries sent so far.
    queries: u64,
    /// When the last of them was sent, all that was owed was the closing of statements or portals.
    query_alone: bool,
}

impl Ledger {
    /// Answers the server still owes.
    #[cfg(test)]
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Whether nothing is owed and no request is half sent.
    pub(super) fn is_settled(&self) -> bool {
        self.unanswered == 0 && !self.unsynced
    }

    /// Whether all that is owed or half sent only closes statements or portals, which changes no transaction. Statements
    /// are closed whenever their last row is dropped, so such a request may be under way at any time.
    pub(super) fn is_settled_but_for_asides(&self) -> bool {
        self.unanswered == self.asides && !self.does_more
    }

    /// Whether it is the server's turn: it owes an answer and does not wait for the rest of a copy.
    pub(super) fn awaits_server(&self) -> bool {
        self.unanswered > 0 && self.copy_in != CopyIn::Open
    }

    /// The startup message was sent: the login is answered like a request.
    pub(super) fn login(&mut self) {
        self.owe(Sent::Login);
    }

    /// Simple queries sent so far, each to its last byte.
    pub(super) fn queries(&self) -> u64 {
        self.queries
    }

    /// Whether the last simple query was sent when all before it had been answered, but for the closing of statements or
    /// portals, which changes no transaction.
    pub(super) fn query_was_alone(&self) -> bool {
        self.query_alone
    }

    /// A simple query was sent.
    pub(super) fn query(&mut self) {
        self.queries += 1;
        self.query_alone = self.is_settled_but_for_asides();
        self.owe(Sent::Query);
    }

    /// A function call was sent.
    pub(super) fn function_call(&mut self) {
        self.owe(Sent::FunctionCall);
    }

    /// A part of an extended request was sent.
    pub(super) fn extended(&mut self) {
        self.unsynced = true;
        self.does_more = true;
    }

    /// A part of an extended request was sent that closes a statement or a portal.
    pub(super) fn close(&mut self) {
        self.unsynced = true;
    }

    /// A Sync was sent.
    pub(super) fn sync(&mut self) {
        self.unsynced = false;
        let is_aside = !std::mem::take(&mut self.does_more);
        match self.copy_in {
            CopyIn::Settled => {
                let asides = self.asides;
                self.owe(Sent::Sync);
                if is_aside {
                    self.asides = asides + 1;
                }
            }
            CopyIn::Open => {}
            CopyIn::AwaitingSync => self.copy_in = CopyIn::Settled,
        }
    }

    /// CopyDone or CopyFail was sent.
    pub(super) fn copy_end(&mut self) {
        match self.copy_in {
            CopyIn::Open => self.copy_in = CopyIn::AwaitingSync,
            // Whether the server is about to enter COPY mode is not known yet; without any request it is not.
            CopyIn::Settled if self.unanswered > 0 => {
                if self.owed.back() != Some(&Sent::CopyEnd) {
                    self.owed.push_back(Sent::CopyEnd);
                }
            }
            CopyIn::Settled | CopyIn::AwaitingSync => {}
        }
    }

    /// CopyInResponse came: the server has entered COPY-in mode for the oldest request.
    pub(super) fn copy_in_response(&mut self) {
        self.drop_stray_copy_ends();
        if self.owed.front() != Some(&Sent::Sync) || self.copy_in != CopyIn::Settled {
            // A simple query's copy is answered like any simple query.
            return;
        }
        // The server now reads what was sent behind the request: Syncs are swallowed, until the copy's end.
        while self.owed.front() == Some(&Sent::Sync) {
            self.owed.pop_front();
            self.unanswered -= 1;
        }
        self.asides = 0;
        match self.owed.front() {
            None => self.await_closing_sync(CopyIn::Open),
            Some(Sent::CopyEnd) => {
                self.owed.pop_front();
                if self.owed.front() != Some(&Sent::Sync) {
                    self.await_closing_sync(CopyIn::AwaitingSync);
                }
            }
            // Another request within a copy breaks it: the server answers once for what it cut short.
            Some(_) => self.await_closing_sync(CopyIn::Settled),
        }
    }

    /// ReadyForQuery came: the oldest request is answered. Returns whether one was owed.
    pub(super) fn ready_for_query(&mut self) -> bool {
        self.copy_in = CopyIn::Settled;
        self.drop_stray_copy_ends();
        let answered = self.owed.pop_front().is_some();
        if answered {
            self.unanswered -= 1;
            self.asides = self.asides.min(self.unanswered);
        }
        answered
    }

    fn owe(&mut self, sent: Sent) {
        self.owed.push_back(sent);
        self.unanswered += 1;
        self.asides = 0;
    }

    /// Puts the copy's one answer at the head of the books, before its Sync has been sent.
    fn await_closing_sync(&mut self, copy_in: CopyIn) {
        self.owed.push_front(Sent::Sync);
        self.unanswered += 1;
        self.copy_in = copy_in;
    }

    /// A server outside COPY mode ignores the end of a copy.
    fn drop_stray_copy_ends(&mut self) {
        while self.owed.front() == Some(&Sent::CopyEnd) {
            self.owed.pop_front();
        }
    }
}
