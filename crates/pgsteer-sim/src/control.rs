//! Orders from outside to one connection: dismissed by an administrator, cancelled, killed. A frozen process obeys
//! only the last. Nothing here knows what a session does with an order.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::cluster::lock;
use crate::fault::{Death, Shutdown};

/// What the connection's own task is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Dismiss(Shutdown),
    Cancel,
    /// Report parameters that changed behind the session's back.
    Report,
}

/// Where orders for one connection are left.
#[derive(Debug, Default)]
pub(crate) struct Control {
    orders: Mutex<Orders>,
    soft: Notify,
    hard: Notify,
}

#[derive(Debug, Default)]
struct Orders {
    dismiss: Option<Shutdown>,
    cancel: bool,
    report: bool,
    death: Option<Death>,
}

impl Control {
    pub(crate) fn dismiss(&self, how: Shutdown) {
        lock(&self.orders).dismiss.get_or_insert(how);
        self.soft.notify_one();
    }

    pub(crate) fn cancel(&self) {
        lock(&self.orders).cancel = true;
        self.soft.notify_one();
    }

    pub(crate) fn report(&self) {
        lock(&self.orders).report = true;
        self.soft.notify_one();
    }

    pub(crate) fn kill(&self, how: Death) {
        lock(&self.orders).death.get_or_insert(how);
        self.hard.notify_one();
    }

    /// The next order to the session itself. Cancel safe.
    pub(crate) async fn order(&self) -> Order {
        loop {
            if let Some(order) = self.take() {
                return order;
            }
            self.soft.notified().await;
        }
    }

    /// The next order, if there is one already.
    pub(crate) fn take(&self) -> Option<Order> {
        let mut orders = lock(&self.orders);
        if let Some(how) = orders.dismiss.take() {
            return Some(Order::Dismiss(how));
        }
        if std::mem::take(&mut orders.cancel) {
            return Some(Order::Cancel);
        }
        std::mem::take(&mut orders.report).then_some(Order::Report)
    }

    /// Ready once the connection is killed. Cancel safe.
    pub(crate) async fn death(&self) -> Death {
        loop {
            if let Some(how) = lock(&self.orders).death {
                return how;
            }
            self.hard.notified().await;
        }
    }
}
