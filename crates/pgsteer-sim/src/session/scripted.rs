//! Scripted effects around a statement: what happens before it, instead of it, and after it.

use tokio::time::Instant;

use crate::fault::{Effect, Scope};
use crate::sql::SqlError;

use super::execute::{Answer, Tag};
use super::{Failure, Halt, Session};
use crate::wire::backend;

impl Session<'_> {
    /// What a scripted effect does before the statement runs.
    pub(super) async fn before(&mut self, effect: &Effect) -> Result<(), Failure> {
        match effect {
            Effect::Error { sqlstate, message } => Err(SqlError::new(sqlstate, message.clone()).into()),
            Effect::Fatal { sqlstate, message } => {
                backend::error(&mut self.out, "FATAL", sqlstate, message);
                Err(Halt::Fatal(sqlstate.clone()).into())
            }
            Effect::Warn { sqlstate, message } => {
                self.warn(sqlstate, message);
                Ok(())
            }
            Effect::Delay(time) => self.pause(Some(Instant::now() + *time), true).await,
            Effect::Hang { cancellable } => self.pause(None, *cancellable).await,
            Effect::DieBefore(death, victim) => {
                if *victim == Scope::Server {
                    self.cluster.kill(self.server, *death);
                }
                Err(Halt::Died(*death).into())
            }
            _ => Ok(()),
        }
    }

    /// What a scripted effect does once the statement has run.
    pub(super) async fn after(&mut self, effect: Effect, answer: Answer) -> Result<Answer, Failure> {
        match effect {
            Effect::RunThenHang => {
                self.finish_implicit()?;
                self.pause(None, false).await?;
            }
            Effect::DieAfter(death, victim) => {
                // Without a BEGIN the statement is a transaction of its own, and that is committed too.
                self.finish_implicit()?;
                if victim == Scope::Server {
                    self.cluster.kill(self.server, death);
                }
                return Err(Halt::Died(death).into());
            }
            Effect::CutAnswer { bytes, death } => {
                self.finish_implicit()?;
                self.cut = Some((bytes, death));
            }
            Effect::Raw(bytes) => self.raw = Some(bytes),
            Effect::Tag(tag) => {
                return Ok(match answer {
                    Answer::Done(_) => Answer::Done(tag),
                    Answer::Rows { table, .. } => Answer::Rows {
                        table,
                        tag: Tag::Whole(tag),
                    },
                    copy => copy,
                });
            }
            _ => {}
        }
        Ok(answer)
    }
}
