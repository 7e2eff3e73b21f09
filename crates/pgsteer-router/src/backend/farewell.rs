//! Closing a connection in an orderly way: our half first, then the backend closes its own. Until it has, or its time is over,
//! the slot stays taken, so that the pool's size holds on the backend too.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connection::Connection;
use super::inner::Inner;
use super::keeper::Message;

/// Says goodbye and reports to the keeper when the socket is closed, also if the task is aborted.
pub(super) fn say(
    pool: Arc<Inner>,
    slot: u32,
    epoch: u64,
    connection: Connection,
) -> impl Future<Output = ()> {
    let mut going = Going {
        connection,
        _report: Report { pool, slot, epoch },
    };
    async move {
        let io = &mut going.connection.io;
        if io.shutdown().await.is_ok() {
            let mut unread = [0; 1024];
            while matches!(io.read(&mut unread).await, Ok(read) if read > 0) {}
        }
        drop(going);
    }
}

/// Fields are dropped in the order in which they stand: whatever happens, the socket is closed before it is reported to be.
struct Going {
    connection: Connection,
    _report: Report,
}

struct Report {
    pool: Arc<Inner>,
    slot: u32,
    epoch: u64,
}

impl Drop for Report {
    fn drop(&mut self) {
        self.pool.tell_keeper(Message::SocketClosed {
            slot: self.slot,
            epoch: self.epoch,
        });
    }
}
