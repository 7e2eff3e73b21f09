//! What `yb_servers()` reports: one row per server of the universe, plus whatever a test adds or takes away. The
//! wanted state lives here; every server that is up gets a copy of it, and one that comes up later gets it then.

use std::fmt::Write as _;

use crate::spec::ServerSpec;

/// Columns of `yb_servers()`, in YugabyteDB's order, with their types.
const COLUMNS: [(&str, &str); 9] = [
    ("host", "text"),
    ("port", "bigint"),
    ("num_connections", "bigint"),
    ("node_type", "text"),
    ("cloud", "text"),
    ("region", "text"),
    ("zone", "text"),
    ("public_ip", "text"),
    ("uuid", "text"),
];

/// One row of `yb_servers()`. A value of `None` is NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row([Option<String>; 9]);

impl Row {
    /// A primary at `host:port` in `gcp.us-east1.us-east1-b` without a public IP.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        let text = |value: &str| Some(value.to_owned());
        Self([
            text(host),
            Some(port.to_string()),
            text("0"),
            text("primary"),
            text("gcp"),
            text("us-east1"),
            text("us-east1-b"),
            text(""),
            Some(format!("{host}:{port}")),
        ])
    }

    pub(crate) fn of(host: &str, port: u16, spec: &ServerSpec) -> Self {
        let [cloud, region, zone] = &spec.placement;
        Self::new(host, port)
            .with("cloud", cloud.as_str())
            .with("region", region.as_str())
            .with("zone", zone.as_str())
            .with(
                "node_type",
                if spec.read_replica {
                    "read_replica"
                } else {
                    "primary"
                },
            )
            .with("public_ip", spec.public_ip.as_deref().unwrap_or(""))
    }

    /// The same row with one column changed; `None` makes it NULL.
    ///
    /// # Panics
    /// When `yb_servers()` has no such column.
    #[must_use]
    #[track_caller]
    pub fn with<'v>(mut self, column: &str, value: impl Into<Option<&'v str>>) -> Self {
        let Some(place) = COLUMNS.iter().position(|(name, _)| *name == column) else {
            return crate::failure::or_fail(Err(crate::failure::Failure::new(format!(
                "yb_servers() has no column {column:?}"
            ))));
        };
        self.0[place] = value.into().map(str::to_owned);
        self
    }

    fn values(&self) -> String {
        let values: Vec<String> = self.0.iter().map(|value| literal(value.as_deref())).collect();
        format!("({})", values.join(", "))
    }
}

/// How the `yb_servers()` function behaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum YbServers {
    /// Lists the servers.
    #[default]
    Works,
    /// Lists them with YugabyteDB's newer tenth column, `universe_uuid`.
    WithUniverse,
    /// There is no such function (SQLSTATE 42883).
    Missing,
    /// Fails with this SQLSTATE.
    Fails(String),
    /// Lists them after this time.
    Slow(std::time::Duration),
}

/// The wanted state of the list.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) rows: Vec<(bool, Row)>,
    pub(crate) extra: Vec<Row>,
    pub(crate) function: YbServers,
    pub(crate) empty: bool,
}

impl Listing {
    /// SQL that makes a server report this list. `plain` servers have the table, for `recall` to stay simple, but
    /// never the function.
    pub(crate) fn sql(&self, plain: bool) -> String {
        let function = if plain {
            &YbServers::Missing
        } else {
            &self.function
        };
        format!("BEGIN; {} {} COMMIT", self.rows_sql(), function_sql(function))
    }

    fn rows_sql(&self) -> String {
        let listed = self.rows.iter().filter(|(listed, _)| *listed).map(|(_, row)| row);
        let rows: Vec<String> = listed.chain(&self.extra).map(Row::values).collect();
        let mut sql = "DELETE FROM listing.servers;".to_owned();
        if !self.empty && !rows.is_empty() {
            let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
            let _ = write!(
                sql,
                " INSERT INTO listing.servers ({}) VALUES {};",
                names.join(", "),
                rows.join(", ")
            );
        }
        sql
    }
}

/// SQL that makes the table behind the function, in an empty database.
pub(crate) fn table_sql() -> String {
    let columns: Vec<String> = COLUMNS
        .iter()
        .map(|(name, kind)| format!("{name} {kind}"))
        .collect();
    format!(
        "CREATE SCHEMA listing; CREATE TABLE listing.servers (position serial, {}); {}",
        columns.join(", "),
        function_sql(&YbServers::Works)
    )
}

fn function_sql(function: &YbServers) -> String {
    let drop = "DROP FUNCTION IF EXISTS pg_catalog.yb_servers();";
    let names = COLUMNS.map(|(name, _)| name).join(", ");
    let list = format!("SELECT {names} FROM listing.servers ORDER BY position");
    let (extra_column, language, body) = match function {
        YbServers::Missing => return drop.to_owned(),
        YbServers::Works => ("", "sql", list),
        YbServers::WithUniverse => (
            ", OUT universe_uuid text",
            "sql",
            format!("SELECT {names}, 'testkit'::text FROM listing.servers ORDER BY position"),
        ),
        YbServers::Fails(sqlstate) => (
            "",
            "plpgsql",
            format!(
                "BEGIN RAISE EXCEPTION 'yb_servers() fails' USING ERRCODE = {}; END",
                literal(Some(sqlstate))
            ),
        ),
        YbServers::Slow(delay) => (
            "",
            "plpgsql",
            format!(
                "BEGIN PERFORM pg_sleep({}); RETURN QUERY {list}; END",
                delay.as_secs_f64()
            ),
        ),
    };
    // Inside a plpgsql function the columns' names would be ambiguous with those of the result.
    let body = if language == "plpgsql" {
        format!("#variable_conflict use_column\n{body}")
    } else {
        body
    };
    let columns = COLUMNS
        .map(|(name, kind)| format!("OUT {name} {kind}"))
        .join(", ");
    format!(
        "{drop} CREATE FUNCTION pg_catalog.yb_servers({columns}{extra_column}) RETURNS SETOF record \
         LANGUAGE {language} STABLE SECURITY DEFINER AS $body$ {body} $body$;"
    )
}

/// A value as an SQL literal, safe under any content.
pub(crate) fn literal(value: Option<&str>) -> String {
    match value {
        Some(text) => format!("'{}'", text.replace('\'', "''")),
        None => "NULL".to_owned(),
    }
}
