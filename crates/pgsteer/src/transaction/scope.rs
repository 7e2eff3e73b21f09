//! Who may still use a transaction's connection. Statements enter the scope they belong to, and whoever ends a
//! transaction or savepoint closes its scope and waits for those inside. Entering never waits, so no two can wait for
//! each other; a closed scope never opens again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::pool::Conn;

/// A transaction, or a savepoint within one.
pub(super) struct Scope {
    state: Mutex<State>,
    /// Rouses whoever closes it.
    left: Notify,
    parent: Option<Arc<Scope>>,
}

#[derive(Default)]
struct State {
    closed: bool,
    inside: usize,
    /// Only a transaction's own scope has it, until it is closed.
    conn: Option<Arc<Conn>>,
}

impl Scope {
    /// A transaction on this connection.
    pub(super) fn of_transaction(conn: Arc<Conn>) -> Arc<Self> {
        let state = State {
            conn: Some(conn),
            ..State::default()
        };
        Arc::new(Scope {
            state: Mutex::new(state),
            left: Notify::new(),
            parent: None,
        })
    }

    /// A savepoint within `parent`.
    pub(super) fn of_savepoint(parent: &Arc<Scope>) -> Arc<Self> {
        Arc::new(Scope {
            state: Mutex::default(),
            left: Notify::new(),
            parent: Some(Arc::clone(parent)),
        })
    }

    /// The connection, for one use; `None` once the scope or one round it is closed.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Inside> {
        let outer = match &self.parent {
            Some(parent) => Some(Box::new(parent.enter()?)),
            None => None,
        };
        let mut state = self.state();
        if state.closed {
            return None;
        }
        let conn = match &outer {
            Some(outer) => Arc::clone(&outer.conn),
            None => Arc::clone(state.conn.as_ref()?),
        };
        state.inside += 1;
        drop(state);
        Some(Inside {
            conn,
            _outer: outer,
            _presence: Presence(Arc::clone(self)),
        })
    }

    /// From now on nobody enters. Whether anybody is still inside.
    pub(super) fn shut(&self) -> bool {
        let mut state = self.state();
        state.closed = true;
        let conn = state.conn.take();
        let occupied = state.inside > 0;
        drop(state);
        drop(conn);
        occupied
    }

    /// Lets nobody in any more, and waits until all are out.
    ///
    /// Cancel safe: the scope stays closed.
    pub(super) async fn close(&self) {
        self.shut();
        while self.state().inside > 0 {
            self.left.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to use a transaction's connection, for one statement. Its end is awaited by whoever closes the scope.
///
/// The fields are dropped in this order: whoever waits for this takes the connection as its only owner.
pub(super) struct Inside {
    conn: Arc<Conn>,
    _outer: Option<Box<Inside>>,
    _presence: Presence,
}

impl Inside {
    pub(super) fn conn(&self) -> &Conn {
        &self.conn
    }
}

/// Counted in its scope.
struct Presence(Arc<Scope>);

impl Drop for Presence {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.inside -= 1;
        if state.closed && state.inside == 0 {
            self.0.left.notify_one();
        }
    }
}
