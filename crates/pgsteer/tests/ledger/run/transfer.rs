//! One transfer: the tables it writes to, the ways in which callers write them, and its statements. Its id is written
//! in the same transaction as the money is moved, without any constraint that would keep a second row away.

use std::sync::Mutex;
use std::time::Duration;

use pgsteer::tokio_postgres::IsolationLevel;
use pgsteer::{Error, Tx};

/// Accounts there are, from 1.
pub(crate) const ACCOUNTS: i64 = 1000;

/// Accounts that transfers meet on again and again.
const BUSY: i64 = 5;

/// Makes the tables, with the same money on each account.
pub(crate) const TABLES: &str = "
    CREATE TABLE accounts (id int8 PRIMARY KEY, balance int8 NOT NULL);
    INSERT INTO accounts SELECT id, 1000 FROM generate_series(1, 1000) id;
    CREATE TABLE transfers (id int8 NOT NULL, attempt int4 NOT NULL, source int8 NOT NULL, target int8 NOT NULL,
                            amount int8 NOT NULL);
    CREATE INDEX ON transfers (id);
    GRANT ALL ON accounts, transfers TO PUBLIC";

/// The sum over all accounts, their number, and the number of those whose balance is not what the transfers that are
/// there make it.
pub(crate) const SUMS: &str = "
    SELECT sum(balance), count(*), count(*) FILTER (WHERE balance <> 1000 + coalesce(moved, 0))
    FROM accounts LEFT JOIN (
        SELECT account, sum(amount) AS moved FROM (
            SELECT target AS account, amount FROM transfers
            UNION ALL SELECT source, -amount FROM transfers
        ) moves GROUP BY account
    ) moves ON account = id";

/// What [`SUMS`] has to give.
pub(crate) const RIGHT_SUMS: [&str; 3] = ["1000000", "1000", "0"];

/// How a caller writes its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Takes, gives, and writes its id.
    Plain,
    /// Reads both balances and writes what they are to be, which only isolation makes right.
    Serializable,
    /// Does it in a savepoint, undoes that, and does it again.
    Savepoint,
    /// On a task of its own.
    Spawned,
    /// Does it all, and then asks for it to be rolled back.
    AskedBack,
    /// Does it all, and then fails at a statement.
    Failing,
    /// Does it all, and passes over a statement that fails.
    PassingOver,
    /// Does it all, and panics.
    Panicking,
    /// Keeps its transaction, to use it when it is over.
    Keeping,
}

/// Money to be moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) id: i64,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) amount: i64,
    pub(crate) manner: Manner,
    /// Its id is written first, and not last.
    pub(crate) id_first: bool,
    /// How long it rests between its statements.
    pub(crate) rest: Duration,
}

impl Transfer {
    pub(crate) fn draw(id: i64, random: &mut fastrand::Rng) -> Self {
        use Manner::*;
        let manner = match random.u32(0..100) {
            0..20 => Serializable,
            20..28 => Savepoint,
            28..36 => Spawned,
            36..40 => AskedBack,
            40..43 => Failing,
            43..46 => PassingOver,
            46..48 => Panicking,
            48..52 => Keeping,
            _ => Plain,
        };
        // Who locks in the order drawn meets others that do so in the opposite one.
        let among = if random.u32(0..100) < 25 { BUSY } else { ACCOUNTS };
        let from = random.i64(1..=among);
        let to = (from + random.i64(0..among - 1)) % among + 1;
        Transfer {
            id,
            from,
            to,
            amount: random.i64(1..=50),
            manner,
            id_first: random.bool(),
            rest: Duration::from_micros(if random.u32(0..10) == 0 {
                random.u64(0..20_000)
            } else {
                0
            }),
        }
    }

    pub(crate) fn isolation(&self) -> Option<IsolationLevel> {
        (self.manner == Manner::Serializable).then_some(IsolationLevel::Serializable)
    }

    /// The transaction's closure. What it keeps of the transaction goes to `kept`.
    pub(crate) async fn carry_out(self, tx: Tx, kept: &Mutex<Option<Tx>>) -> Result<(), Error> {
        match self.manner {
            Manner::Plain | Manner::Serializable => self.write_all(&tx).await,
            Manner::Savepoint => {
                let undone = tx.savepoint(|tx| async move {
                    self.write_all(&tx).await?;
                    Err::<(), _>(Error::rollback("a savepoint that is undone"))
                });
                match undone.await {
                    Err(Error::Rollback(_)) => self.write_all(&tx).await,
                    other => other,
                }
            }
            Manner::Spawned => {
                let work = tokio::spawn(async move { self.write_all(&tx).await });
                work.await.unwrap_or_else(|error| Err(Error::rollback(error)))
            }
            Manner::AskedBack => {
                self.write_all(&tx).await?;
                Err(Error::rollback("as asked"))
            }
            Manner::Failing => {
                self.write_all(&tx).await?;
                tx.batch_execute("SELECT 1 / 0").await
            }
            Manner::PassingOver => {
                self.write_all(&tx).await?;
                match tx.batch_execute("SELECT 1 / 0").await {
                    Err(Error::Postgres(_)) | Ok(()) => Ok(()),
                    Err(lost) => Err(lost),
                }
            }
            Manner::Panicking => {
                self.write_all(&tx).await?;
                // No hook is told, so no test's output is full of it.
                std::panic::resume_unwind(Box::new("as asked"))
            }
            Manner::Keeping => {
                let result = self.write_all(&tx).await;
                *kept.lock().expect("nobody panics with it") = Some(tx);
                result
            }
        }
    }

    async fn write_all(&self, tx: &Tx) -> Result<(), Error> {
        if self.id_first {
            self.write_id(tx).await?;
        }
        if self.manner == Manner::Serializable {
            self.move_by_balance(tx).await?;
        } else {
            let change = "UPDATE accounts SET balance = balance + $2 WHERE id = $1";
            tx.execute(change, &[&self.from, &-self.amount]).await?;
            self.rest().await;
            tx.execute(change, &[&self.to, &self.amount]).await?;
        }
        if !self.id_first {
            self.write_id(tx).await?;
        }
        Ok(())
    }

    async fn write_id(&self, tx: &Tx) -> Result<(), Error> {
        let attempt = i32::try_from(tx.attempt()).unwrap_or(i32::MAX);
        let sql = "INSERT INTO transfers VALUES ($1, $2, $3, $4, $5)";
        tx.execute(sql, &[&self.id, &attempt, &self.from, &self.to, &self.amount])
            .await?;
        Ok(())
    }

    async fn move_by_balance(&self, tx: &Tx) -> Result<(), Error> {
        for (account, amount) in [(self.from, -self.amount), (self.to, self.amount)] {
            let row = tx
                .query_one("SELECT balance FROM accounts WHERE id = $1", &[&account])
                .await?;
            self.rest().await;
            let balance: i64 = row.get(0);
            let sql = "UPDATE accounts SET balance = $2 WHERE id = $1";
            tx.execute(sql, &[&account, &(balance + amount)]).await?;
        }
        Ok(())
    }

    async fn rest(&self) {
        if !self.rest.is_zero() {
            tokio::time::sleep(self.rest).await;
        }
    }
}

/// Uses a transaction that is over. It must reach nobody: what it would do makes the sums wrong.
pub(crate) async fn use_after_its_end(tx: &Tx) {
    let result = tx
        .execute("UPDATE accounts SET balance = balance + 1 WHERE id = 1", &[])
        .await;
    assert!(
        matches!(result, Err(Error::TransactionOver)),
        "a transaction that is over gives {result:?}"
    );
}
