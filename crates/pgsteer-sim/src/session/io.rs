//! How a session reads, waits and sends. Everything in here that waits obeys orders meanwhile, and the scripted cuts
//! and odd bytes are put into answers here.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::control::Order;
use crate::report::TransactionStatus;
use crate::sql::SqlError;
use crate::wire::backend;
use crate::wire::frontend::{Frontend, take_message};

use super::{Failure, Halt, Session};

/// Answers longer than this are sent before they are complete.
const FLUSH_AT: usize = 64 * 1024;

/// What the client sent, or that it wants what is running cancelled.
pub(super) enum Incoming {
    Message(Frontend),
    Cancelled,
}

/// How long a session may wait for its client, and what it says when that is over.
struct IdleLimit {
    time: Duration,
    sqlstate: &'static str,
    what: &'static str,
}

impl Session<'_> {
    /// The next message. Between statements a cancel request means nothing to the caller, and parameters that
    /// changed behind the session's back are reported.
    pub(super) async fn incoming(&mut self) -> Result<Incoming, Halt> {
        let idle = self.idle_limit();
        let limit = idle.as_ref().map(|idle| Instant::now() + idle.time);
        loop {
            if let Some(message) = take_message(&mut self.inbox)? {
                return Ok(Incoming::Message(message));
            }
            let too_long = async {
                match limit {
                    Some(instant) => tokio::time::sleep_until(instant).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                order = self.control.order() => match order {
                    Order::Dismiss(how) => return Err(Halt::Dismissed(how)),
                    Order::Cancel => return Ok(Incoming::Cancelled),
                    Order::Report => {
                        self.report_recovery();
                        self.flush().await?;
                    }
                },
                count = self.link.read_buf(&mut self.inbox) => match count {
                    Ok(0) | Err(_) => return Err(Halt::Lost),
                    Ok(_) => {}
                },
                () = too_long => {
                    let (sqlstate, what) = idle.as_ref().map_or(("57P05", ""), |idle| (idle.sqlstate, idle.what));
                    let message = format!("terminating connection due to {what}");
                    backend::error(&mut self.out, "FATAL", sqlstate, &message);
                    return Err(Halt::Fatal(sqlstate.to_owned()));
                }
            }
        }
    }

    /// How long the session may wait for its client now, if there is a limit.
    fn idle_limit(&self) -> Option<IdleLimit> {
        let (setting, sqlstate, what) = match self.transaction.status() {
            TransactionStatus::Idle => ("idle_session_timeout", "57P05", "idle-session timeout"),
            _ => (
                "idle_in_transaction_session_timeout",
                "25P03",
                "idle-in-transaction timeout",
            ),
        };
        let time = self.settings.time(setting)?;
        Some(IdleLimit { time, sqlstate, what })
    }

    /// Waits, for ever without `until`. Orders are obeyed; cancelling and `statement_timeout` only if `cancellable`.
    pub(super) async fn pause(&mut self, until: Option<Instant>, cancellable: bool) -> Result<(), Failure> {
        loop {
            let limit = if cancellable { self.deadline } else { None };
            let limited = limit.is_some_and(|limit| until.is_none_or(|until| limit < until));
            let wake = if limited { limit } else { until };
            let sleep = async {
                match wake {
                    Some(instant) => tokio::time::sleep_until(instant).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                order = self.control.order() => match order {
                    Order::Dismiss(how) => return Err(Halt::Dismissed(how).into()),
                    Order::Cancel if cancellable => return Err(cancelled("user request")),
                    Order::Cancel => {}
                    Order::Report => self.report_recovery(),
                },
                () = sleep => {
                    return if limited { Err(cancelled("statement timeout")) } else { Ok(()) };
                }
            }
        }
    }

    /// Obeys what was ordered meanwhile, without waiting.
    pub(super) fn check_orders(&mut self, cancellable: bool) -> Result<(), Failure> {
        while let Some(order) = self.control.take() {
            match order {
                Order::Dismiss(how) => return Err(Halt::Dismissed(how).into()),
                Order::Cancel if cancellable => return Err(cancelled("user request")),
                Order::Cancel => {}
                Order::Report => self.report_recovery(),
            }
        }
        Ok(())
    }

    pub(super) fn report_recovery(&mut self) {
        let recovery = self.cluster.with(self.server, |state| state.recovery);
        backend::parameter_status(
            &mut self.out,
            "in_hot_standby",
            if recovery { "on" } else { "off" },
        );
    }

    /// Sends what has been said, after the server's latency.
    pub(super) async fn flush(&mut self) -> Result<(), Halt> {
        if let Some(raw) = self.raw.take() {
            self.out = BytesMut::from(&raw[..]);
        }
        let cut = self.cut.take();
        if let Some((bytes, _)) = cut {
            self.out.truncate(bytes);
        }
        if !self.out.is_empty() {
            let latency = self.cluster.with(self.server, |state| state.answer_latency);
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            let bytes = self.out.split();
            self.link.write_all(&bytes).await.map_err(|_| Halt::Lost)?;
            self.link.flush().await.map_err(|_| Halt::Lost)?;
        }
        match cut {
            Some((_, death)) => Err(Halt::Died(death)),
            None => Ok(()),
        }
    }

    /// Sends early what has grown long, so that big results do not pile up.
    pub(super) async fn flush_if_long(&mut self) -> Result<(), Halt> {
        if self.out.len() >= FLUSH_AT && self.cut.is_none() && self.raw.is_none() {
            self.flush().await?;
        }
        Ok(())
    }
}

pub(super) fn cancelled(why: &str) -> Failure {
    SqlError::new("57014", format!("canceling statement due to {why}")).into()
}
