//! The extended protocol: prepared statements and portals, with row limits. What a statement does is not here.

use std::sync::Arc;

use crate::log::Event;
use crate::sql::SqlError;
use crate::sql::describe::describe;
use crate::sql::eval::{Arguments, Table};
use crate::sql::expression::Parameters;
use crate::sql::parse::parse;
use crate::sql::statement::Statement;
use crate::sql::token::statements;
use crate::sql::value::{Column, Kind, Value};
use crate::wire::backend::{self, Bare, format_of};
use crate::wire::frontend::{Bind, Frontend, Target};

use super::execute::{Answer, Tag};
use super::{Failure, Halt, Session};

/// A prepared statement. `statement` is empty for a text without one.
#[derive(Debug)]
pub(super) struct Prepared {
    sql: String,
    statement: Option<Statement>,
    parameters: Vec<Kind>,
    columns: Option<Vec<Column>>,
}

/// A statement with its parameters, maybe partly run.
#[derive(Debug)]
pub(super) struct Portal {
    prepared: Arc<Prepared>,
    arguments: Arguments,
    formats: Vec<i16>,
    /// What is left to be sent, once it has been run.
    rest: Option<(Table, Tag)>,
}

impl Session<'_> {
    /// One message of the extended protocol, save Sync and Flush.
    pub(super) async fn extended(&mut self, message: Frontend) -> Result<(), Failure> {
        match message {
            Frontend::Parse { name, sql, types } => self.prepare(name, sql, &types),
            Frontend::Bind(bind) => self.bind(bind),
            Frontend::Describe {
                target: Target::Statement,
                name,
            } => self.describe_statement(&name),
            Frontend::Describe {
                target: Target::Portal,
                name,
            } => self.describe_portal(&name),
            Frontend::Execute { portal, limit } => self.execute_portal(&portal, limit).await,
            Frontend::Close { target, name } => {
                match target {
                    Target::Statement => drop(self.prepared.remove(&name)),
                    Target::Portal => drop(self.portals.remove(&name)),
                }
                backend::bare(&mut self.out, Bare::CloseComplete);
                Ok(())
            }
            _ => Err(Halt::Nonsense("unexpected message").into()),
        }
    }

    /// Sync: ends the implicit transaction and answers ReadyForQuery.
    pub(super) async fn sync(&mut self) -> Result<(), Halt> {
        if let Err(conflict) = self.finish_implicit() {
            self.fail(&conflict);
        }
        self.ready().await
    }

    fn prepare(&mut self, name: String, sql: String, types: &[u32]) -> Result<(), Failure> {
        self.cluster
            .record(self.server, self.id, Event::Parse(sql.clone()));
        let cuts = statements(&sql)?;
        let statement = match &cuts[..] {
            [] => None,
            [one] => Some(parse(one)?),
            _ => {
                let text = "cannot insert multiple commands into a prepared statement";
                return Err(SqlError::new("42601", text).into());
            }
        };
        self.refuse_if_failed(statement.as_ref())?;
        if statement.as_ref().is_some_and(Statement::is_discovery) {
            self.find_yb_servers()?;
        }
        if !name.is_empty() && self.prepared.contains_key(&name) {
            let text = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new("42P05", text).into());
        }
        let mut parameters = Parameters::default();
        for oid in types {
            // 0 leaves the type to be worked out.
            let kind = Kind::from_oid(*oid);
            if kind.is_none() && *oid != 0 {
                return Err(SqlError::new("42704", format!("type with OID {oid} is not supported")).into());
            }
            parameters.0.push(kind);
        }
        let columns = match &statement {
            Some(statement) => describe(statement, &mut parameters)?,
            None => None,
        };
        let parameters = parameters
            .0
            .into_iter()
            .map(|kind| kind.unwrap_or(Kind::Text))
            .collect();
        self.prepared.insert(
            name,
            Arc::new(Prepared {
                sql,
                statement,
                parameters,
                columns,
            }),
        );
        backend::bare(&mut self.out, Bare::ParseComplete);
        Ok(())
    }

    fn bind(&mut self, bind: Bind) -> Result<(), Failure> {
        let prepared = self.find_prepared(&bind.statement)?;
        self.refuse_if_failed(prepared.statement.as_ref())?;
        if bind.parameters.len() != prepared.parameters.len() {
            let text = format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.parameters.len(),
                bind.statement,
                prepared.parameters.len()
            );
            return Err(SqlError::new("08P01", text).into());
        }
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            return Err(SqlError::new("42P03", format!("cursor \"{}\" already exists", bind.portal)).into());
        }
        let mut values = Vec::new();
        for (at, (bytes, kind)) in bind.parameters.iter().zip(&prepared.parameters).enumerate() {
            values.push(Value::decode(
                bytes.as_ref(),
                *kind,
                format_of(&bind.formats, at),
            )?);
        }
        self.begin_implicit();
        let arguments = Arguments {
            values,
            kinds: prepared.parameters.clone(),
        };
        self.portals.insert(
            bind.portal,
            Portal {
                prepared,
                arguments,
                formats: bind.results,
                rest: None,
            },
        );
        backend::bare(&mut self.out, Bare::BindComplete);
        Ok(())
    }

    fn describe_statement(&mut self, name: &str) -> Result<(), Failure> {
        let prepared = self.find_prepared(name)?;
        self.refuse_if_failed(prepared.statement.as_ref())?;
        let oids: Vec<u32> = prepared.parameters.iter().map(|kind| kind.oid()).collect();
        backend::parameter_description(&mut self.out, &oids);
        self.describe_columns(prepared.columns.as_deref(), &[]);
        Ok(())
    }

    fn describe_portal(&mut self, name: &str) -> Result<(), Failure> {
        let portal = self.find_portal(name)?;
        let (prepared, formats) = (portal.prepared.clone(), portal.formats.clone());
        self.refuse_if_failed(prepared.statement.as_ref())?;
        self.describe_columns(prepared.columns.as_deref(), &formats);
        Ok(())
    }

    fn describe_columns(&mut self, columns: Option<&[Column]>, formats: &[i16]) {
        match columns {
            Some(columns) => backend::row_description(&mut self.out, columns, formats),
            None => backend::bare(&mut self.out, Bare::NoData),
        }
    }

    async fn execute_portal(&mut self, name: &str, limit: i32) -> Result<(), Failure> {
        let portal = self.find_portal(name)?;
        let (prepared, arguments, formats) = (
            portal.prepared.clone(),
            portal.arguments.clone(),
            portal.formats.clone(),
        );
        let rest = portal.rest.take();
        let Some(statement) = &prepared.statement else {
            backend::bare(&mut self.out, Bare::EmptyQuery);
            return Ok(());
        };
        let (table, tag) = match rest {
            Some(rest) => {
                self.refuse_if_failed(Some(statement))?;
                rest
            }
            None => {
                let event = Event::Execute(prepared.sql.clone());
                self.cluster.record(self.server, self.id, event);
                match self.run(&prepared.sql, statement, &arguments).await? {
                    Answer::Rows { table, tag } => (table, tag),
                    Answer::Done(tag) => {
                        self.complete(&tag);
                        return Ok(());
                    }
                    Answer::CopyIn => {
                        let count = self.copy_in().await?;
                        self.complete(&format!("COPY {count}"));
                        return Ok(());
                    }
                    Answer::CopyOut(table) => {
                        let tag = self.copy_out(&table).await?;
                        self.complete(&tag);
                        return Ok(());
                    }
                }
            }
        };
        let Table { columns, mut rows } = table;
        // As in the real server, an Execute that sends exactly as many rows as it may does not look whether there
        // are more, and the portal is suspended.
        let limit = usize::try_from(limit)
            .ok()
            .filter(|limit| *limit > 0 && *limit <= rows.len());
        let left = limit.map(|limit| rows.split_off(limit));
        let table = Table { columns, rows };
        self.send_rows(&table, &formats).await?;
        match left {
            Some(left) => {
                if let Some(portal) = self.portals.get_mut(name) {
                    portal.rest = Some((
                        Table {
                            columns: table.columns,
                            rows: left,
                        },
                        tag,
                    ));
                }
                backend::bare(&mut self.out, Bare::PortalSuspended);
            }
            None => {
                if let Some(portal) = self.portals.get_mut(name) {
                    // It is not run a second time: another Execute finds nothing left.
                    portal.rest = Some((
                        Table {
                            columns: table.columns,
                            rows: Vec::new(),
                        },
                        tag.clone(),
                    ));
                }
                self.complete(&tag.text(table.rows.len()));
            }
        }
        Ok(())
    }

    fn find_prepared(&self, name: &str) -> Result<Arc<Prepared>, SqlError> {
        self.prepared
            .get(name)
            .cloned()
            .ok_or_else(|| SqlError::new("26000", format!("prepared statement \"{name}\" does not exist")))
    }

    fn find_portal(&mut self, name: &str) -> Result<&mut Portal, SqlError> {
        self.portals
            .get_mut(name)
            .ok_or_else(|| SqlError::new("34000", format!("portal \"{name}\" does not exist")))
    }

    fn refuse_if_failed(&self, statement: Option<&Statement>) -> Result<(), SqlError> {
        if self.transaction.has_failed() && statement.is_some_and(|statement| !statement.ends_failure()) {
            let text = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(SqlError::new("25P02", text));
        }
        Ok(())
    }
}
