//! What statements ask of the session that runs them: functions about server and session, the list of servers, the
//! ledger, and settings.

use crate::fault::{Discovery, DiscoveryRow, Shutdown};
use crate::history::{Fate, History, position};
use crate::sql::SqlError;
use crate::sql::eval::Surroundings;
use crate::sql::value::Value;

use super::Session;
use super::settings::VERSION;

impl Session<'_> {
    /// Whether there is a `yb_servers()` here, as is found out when a statement is prepared. A statement that fails at
    /// that counts as having asked.
    pub(super) fn find_yb_servers(&mut self) -> Result<(), SqlError> {
        let missing = self.cluster.with(self.server, |state| {
            let missing = state.discovery == Discovery::Missing;
            state.counts.discovery_queries += u64::from(missing);
            missing
        });
        if missing { Err(no_yb_servers()) } else { Ok(()) }
    }

    pub(super) fn show(&self, name: &str) -> Result<String, SqlError> {
        let on_off = |on: bool| if on { "on" } else { "off" }.to_owned();
        match name.to_lowercase().as_str() {
            "transaction_read_only" => Ok(on_off(self.is_read_only())),
            "in_hot_standby" => Ok(on_off(self.cluster.with(self.server, |state| state.recovery))),
            "transaction_isolation" => Ok("read committed".to_owned()),
            "max_connections" => {
                let most = self.cluster.with(self.server, |state| state.max_connections);
                Ok(most.unwrap_or(100).to_string())
            }
            _ => self.settings.get(name).ok_or_else(|| {
                SqlError::new(
                    "42704",
                    format!("unrecognized configuration parameter \"{name}\""),
                )
            }),
        }
    }

    fn is_in_recovery(&self) -> bool {
        self.cluster.with(self.server, |state| state.recovery)
    }

    /// What the server's past says.
    fn history(&self, read: impl FnOnce(&History) -> Value) -> Value {
        let read = self.cluster.with(self.server, |state| Some(read(&state.history)));
        read.unwrap_or(Value::Null)
    }

    fn of_history(&self, read: impl FnOnce(&History) -> String) -> Result<Value, SqlError> {
        Ok(self.history(|history| Value::Text(read(history))))
    }

    fn fate_of(&self, id: i64) -> Result<Value, SqlError> {
        let number = u64::try_from(id).unwrap_or(u64::MAX);
        let fate = self
            .cluster
            .with(self.server, |state| Some(state.history.fate(number)));
        let word = match fate {
            Some(Fate::InProgress) => "in progress",
            Some(Fate::Committed) => "committed",
            Some(Fate::Aborted) => "aborted",
            Some(Fate::NeverGiven) | None => {
                let message = format!("transaction ID {id} is in the future");
                return Err(SqlError::new("22023", message));
            }
        };
        Ok(Value::Text(word.to_owned()))
    }

    /// Cancels or terminates another backend of this server.
    fn signal(&mut self, name: &str, pid: i64) -> bool {
        let Some(control) = self.cluster.backend(self.server, pid) else {
            self.warn("01000", &format!("PID {pid} is not a PostgreSQL backend process"));
            return false;
        };
        if name == "pg_cancel_backend" {
            control.cancel();
        } else {
            control.dismiss(Shutdown::Fast);
        }
        true
    }
}

impl Surroundings for Session<'_> {
    fn call(&mut self, name: &str, arguments: &[Value]) -> Result<Value, SqlError> {
        let text = |text: &str| Ok(Value::Text(text.to_owned()));
        match (name, arguments) {
            ("pg_is_in_recovery", []) => Ok(Value::Bool(
                self.cluster.with(self.server, |state| state.recovery),
            )),
            ("pg_current_wal_lsn" | "pg_current_wal_insert_lsn" | "pg_current_wal_flush_lsn", [])
                if self.is_in_recovery() =>
            {
                Err(SqlError::new("55000", "recovery is in progress"))
            }
            ("pg_current_wal_insert_lsn", []) => self.of_history(|history| position(history.inserted())),
            ("pg_current_wal_lsn" | "pg_current_wal_flush_lsn", []) => {
                self.of_history(|history| position(history.flushed()))
            }
            ("txid_current", []) if self.is_in_recovery() => {
                let message = "cannot execute txid_current() during recovery";
                Err(SqlError::new("25006", message))
            }
            ("txid_current", []) => Ok(Value::Int(self.transaction_id().id() as i64)),
            ("txid_status", [Value::Int(id)]) => self.fate_of(*id),
            ("pg_postmaster_start_time", []) => Ok(self.history(|history| Value::Float(history.started))),
            ("pg_stat_get_bgwriter_stat_reset_time", []) => {
                Ok(self.history(|history| Value::Float(history.statistics_reset)))
            }
            ("date_part", [Value::Text(part), time]) if part == "epoch" => Ok(time.clone()),
            // None of those that are asked after is here.
            ("to_regproc", [_]) => Ok(Value::Null),
            ("pg_walfile_name", [Value::Text(_)]) => {
                let timeline = self.cluster.with(self.server, |state| state.timeline);
                text(&format!("{timeline:08X}0000000000000003"))
            }
            ("rig_whoami", []) => text(self.server),
            ("version", []) => text(&format!("PostgreSQL {VERSION} (simulated by pgsteer-sim)")),
            ("pg_backend_pid", []) => {
                let state = self.cluster.state();
                let session = state
                    .connections
                    .get(&self.id)
                    .and_then(|one| one.session.as_ref());
                Ok(session.map_or(Value::Null, |session| Value::Int(session.pid.into())))
            }
            ("inet_server_addr", []) => {
                let address = self
                    .cluster
                    .with(self.server, |state| state.addresses.first().copied());
                Ok(address.map_or(Value::Null, |address| Value::Text(address.to_string())))
            }
            ("inet_server_port", []) => Ok(Value::Int(
                self.cluster.with(self.server, |state| state.port).into(),
            )),
            ("current_database" | "current_catalog", []) => text(&self.database),
            ("current_user" | "session_user" | "user", []) => text(&self.user),
            ("current_setting", [Value::Text(name)]) => self.show(name).map(Value::Text),
            ("current_setting", [Value::Text(name), Value::Bool(missing_ok)]) => match self.show(name) {
                Err(_) if *missing_ok => Ok(Value::Null),
                shown => shown.map(Value::Text),
            },
            // It has been slept before.
            ("pg_sleep", [_]) => text(""),
            ("pg_terminate_backend" | "pg_cancel_backend", [Value::Int(pid)]) => {
                Ok(Value::Bool(self.signal(name, *pid)))
            }
            (
                "current_setting" | "pg_terminate_backend" | "pg_cancel_backend" | "txid_status",
                [Value::Null],
            ) => Ok(Value::Null),
            _ => Err(SqlError::new(
                "42883",
                format!("function {name}() does not exist"),
            )),
        }
    }

    fn yb_servers(&mut self) -> Result<Vec<Vec<Value>>, SqlError> {
        let rows = match self.cluster.with(self.server, |state| state.discovery.clone()) {
            Discovery::Shared => self.cluster.state().table.clone(),
            Discovery::Rows(rows) => rows,
            Discovery::Missing => return Err(no_yb_servers()),
            Discovery::Fail(sqlstate) => return Err(SqlError::new(&sqlstate, "yb_servers() failed")),
        };
        Ok(rows.iter().map(row_of).collect())
    }

    fn control_system(&mut self) -> Vec<Value> {
        vec![self.history(|history| Value::Int(history.system as i64))]
    }

    fn control_checkpoint(&mut self) -> Vec<Value> {
        let last = self
            .cluster
            .with(self.server, |state| Some(state.history.checkpoint));
        last.map_or_else(Vec::new, |last| {
            vec![
                Value::Text(position(last.at)),
                Value::Text(position(last.redo)),
                Value::Float(last.seconds),
            ]
        })
    }

    fn ledger(&mut self) -> Vec<Vec<Value>> {
        let view = self.transaction.changes.view(&self.cluster.state().ledger);
        let row =
            |(id, note): (i64, Option<String>)| vec![Value::Int(id), note.map_or(Value::Null, Value::Text)];
        view.into_iter().map(row).collect()
    }
}

fn no_yb_servers() -> SqlError {
    SqlError::new("42883", "function yb_servers() does not exist")
}

fn row_of(row: &DiscoveryRow) -> Vec<Value> {
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
    vec![
        text(&row.host),
        row.port.map_or(Value::Null, Value::Int),
        Value::Int(0),
        text(&row.node_type),
        text(&row.cloud),
        text(&row.region),
        text(&row.zone),
        text(&row.public_ip),
        text(&row.uuid),
    ]
}
