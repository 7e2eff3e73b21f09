//! What the simulated servers answer to each kind of statement, seen by tokio-postgres.

use crate::common::{client, sqlstate};
use pgsteer_sim::Sim;
use tokio_postgres::SimpleQueryMessage;

fn text(messages: &[SimpleQueryMessage]) -> Vec<Vec<Option<String>>> {
    let mut rows = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            rows.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect());
        }
    }
    rows
}

#[tokio::test(start_paused = true)]
async fn expressions_have_the_values_and_names_postgresql_gives_them() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    for (sql, value, name) in [
        ("SELECT 1", Some("1"), "?column?"),
        ("SELECT 1 + 2 * 3 - 4", Some("3"), "?column?"),
        ("SELECT (1 + 2) * 3", Some("9"), "?column?"),
        ("SELECT -7 / 2", Some("-3"), "?column?"),
        ("SELECT 7 % 4 AS rest", Some("3"), "rest"),
        ("SELECT 'it''s'", Some("it's"), "?column?"),
        ("SELECT 'a' || 'b' || 1", Some("ab1"), "?column?"),
        ("SELECT '42'::int4 + 1", Some("43"), "?column?"),
        ("SELECT '42'::int", Some("42"), "int4"),
        ("SELECT CAST('t' AS boolean)", Some("t"), "bool"),
        ("SELECT true AND NOT false", Some("t"), "?column?"),
        ("SELECT NULL", None, "?column?"),
        ("SELECT NULL IS NULL", Some("t"), "?column?"),
        ("SELECT NULL OR true", Some("t"), "?column?"),
        ("SELECT 2 >= 3", Some("f"), "?column?"),
        ("SELECT 1.5 + 1", Some("2.5"), "?column?"),
        (
            "SELECT current_setting('server_version')",
            Some("15.12"),
            "current_setting",
        ),
        ("SELECT rig_whoami()", Some("a"), "rig_whoami"),
        (
            "SELECT CASE WHEN 1 > 2 THEN 'yes' ELSE 'no' END",
            Some("no"),
            "?column?",
        ),
        // What is not chosen is not worked out.
        ("SELECT CASE WHEN true THEN NULL ELSE 1/0 END", None, "?column?"),
        (
            "SELECT current_setting('no.such_setting', true)",
            None,
            "current_setting",
        ),
        (
            "SELECT count(*) FROM generate_series(1, 3), pg_control_system()",
            Some("3"),
            "count",
        ),
        (
            "SELECT pg_catalog.pg_is_in_recovery()",
            Some("f"),
            "pg_is_in_recovery",
        ),
        ("SELECT current_database()", Some("app"), "current_database"),
        ("SELECT inet_server_addr()", Some("10.0.0.1"), "inet_server_addr"),
        ("SELECT count(*) FROM generate_series(1, 5)", Some("5"), "count"),
        (
            "SELECT sum(generate_series) FROM generate_series(1, 4)",
            Some("10"),
            "sum",
        ),
        (
            "SELECT max(generate_series) FROM generate_series(1, 4) WHERE generate_series < 3",
            Some("2"),
            "max",
        ),
        (
            "SELECT count(*) FROM generate_series(1, 5) LIMIT 0",
            None,
            "count",
        ),
    ] {
        let messages = client
            .simple_query(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let rows = text(&messages);
        if sql.ends_with("LIMIT 0") {
            assert_eq!(rows.len(), 0, "{sql}");
        } else {
            assert_eq!(rows, [[value.map(str::to_owned)]], "{sql}");
        }
        let SimpleQueryMessage::RowDescription(columns) = &messages[0] else {
            panic!("{sql}: no columns")
        };
        assert_eq!(columns[0].name(), name, "{sql}");
    }
}

#[tokio::test(start_paused = true)]
async fn parameters_and_results_go_in_binary_with_the_types_that_were_worked_out() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    let row = client.query_one("SELECT $1::int + 1", &[&41]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 42);
    let sql = "SELECT $1::int8, $2::text, $3::bool, $4::float8, $5::int2, $6, $7 + 1";
    let row = client
        .query_one(
            sql,
            &[&(1i64 << 40), &"text", &true, &1.5f64, &7i16, &"untyped", &1i32],
        )
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 1 << 40);
    assert_eq!(row.get::<_, &str>(1), "text");
    assert!(row.get::<_, bool>(2));
    assert!((row.get::<_, f64>(3) - 1.5).abs() < f64::EPSILON);
    assert_eq!(row.get::<_, i16>(4), 7);
    assert_eq!(row.get::<_, &str>(5), "untyped");
    assert_eq!(row.get::<_, i32>(6), 2);
    let row = client
        .query_one("SELECT $1::text", &[&None::<&str>])
        .await
        .unwrap();
    assert_eq!(row.get::<_, Option<&str>>(0), None);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_run_is_refused_with_postgresqls_sqlstate() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    for (sql, code) in [
        ("FROB THE THING", "42601"),
        ("SELECT 1 FROM", "42601"),
        ("SELECT (1", "42601"),
        ("SELECT 'open", "42601"),
        ("SELECT *", "42601"),
        ("SELECT 1/0", "22012"),
        ("SELECT 5 % 0", "22012"),
        ("SELECT 2147483647 + 1", "22003"),
        ("SELECT 'x'::int4", "22P02"),
        ("SELECT 1::nosuchtype", "42704"),
        ("SELECT no_such_column", "42703"),
        ("SELECT * FROM no_such_table", "42P01"),
        ("SELECT no_such_function()", "42883"),
        ("INSERT INTO other VALUES (1)", "42P01"),
        ("INSERT INTO ledger (nope) VALUES (1)", "42703"),
        ("INSERT INTO ledger VALUES (NULL)", "23502"),
        ("INSERT INTO ledger VALUES (1, 'a', 2)", "42601"),
        ("SET no_such_setting = 1", "42704"),
        ("SET statement_timeout = 'soon'", "22023"),
        ("SHOW no_such_setting", "42704"),
        ("SAVEPOINT outside", "25P01"),
        ("SELECT $1", "42P02"),
        ("COPY other FROM STDIN", "42P01"),
    ] {
        let error = client.simple_query(sql).await.expect_err(sql);
        assert_eq!(sqlstate(&error), code, "{sql}: {error:?}");
    }
    for deep in [
        format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("SELECT 1{}", " + 1".repeat(100_000)),
        format!("SELECT 1{}", "::int4".repeat(100_000)),
        format!("SELECT true{}", " and true".repeat(100_000)),
    ] {
        assert_eq!(sqlstate(&client.simple_query(&deep).await.unwrap_err()), "54001");
    }
    let longest = format!(
        "SELECT {}1{}{}",
        "(".repeat(49),
        ")".repeat(49),
        " + 1".repeat(200)
    );
    client
        .simple_query(&longest)
        .await
        .expect("what is let through is not too much for the stack");
    client
        .simple_query("SELECT 1")
        .await
        .expect("errors leave the session usable");
}

#[tokio::test(start_paused = true)]
async fn settings_are_shown_set_and_reset() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    let show =
        async |name: &str| text(&client.simple_query(&format!("SHOW {name}")).await.unwrap())[0][0].clone();
    for (set, name, value) in [
        ("SET statement_timeout = 5000", "statement_timeout", "5s"),
        ("SET statement_timeout TO '1500ms'", "statement_timeout", "1500ms"),
        (
            "SET SESSION statement_timeout TO DEFAULT",
            "statement_timeout",
            "0",
        ),
        ("SET TIME ZONE 'Europe/Berlin'", "TimeZone", "Europe/Berlin"),
        ("SET search_path TO a, b", "search_path", "a, b"),
        ("SET my.own = 'x'", "my.own", "x"),
        ("SET extra_float_digits = -1", "extra_float_digits", "-1"),
        ("RESET ALL", "search_path", "\"$user\", public"),
    ] {
        client
            .batch_execute(set)
            .await
            .unwrap_or_else(|error| panic!("{set}: {error:?}"));
        assert_eq!(show(name).await.as_deref(), Some(value), "{set}");
    }
    assert_eq!(show("transaction_read_only").await.as_deref(), Some("off"));
    assert_eq!(show("application_name").await.as_deref(), Some("test"));
    client
        .batch_execute("SET application_name = 'renamed'")
        .await
        .unwrap();
    assert_eq!(sim.sessions()[0].application_name, "renamed");
}

#[tokio::test(start_paused = true)]
async fn a_text_of_several_statements_is_one_transaction() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    let messages = client
        .simple_query("INSERT INTO ledger VALUES (1, 'one'); SELECT count(*) FROM ledger; ; SELECT 2 -- done")
        .await
        .unwrap();
    assert_eq!(text(&messages), [[Some("1".to_owned())], [Some("2".to_owned())]]);
    let error = client
        .simple_query("INSERT INTO ledger VALUES (2); SELECT 1/0; INSERT INTO ledger VALUES (3)")
        .await;
    assert_eq!(sqlstate(&error.unwrap_err()), "22012");
    let error = client
        .simple_query("INSERT INTO ledger VALUES (4); SELEC 1")
        .await;
    assert_eq!(sqlstate(&error.unwrap_err()), "42601");
    assert_eq!(
        sim.ledger().into_iter().collect::<Vec<_>>(),
        [(1, Some("one".to_owned()))]
    );
    assert!(
        client.simple_query("").await.is_ok(),
        "an empty text has an answer of its own"
    );
}

#[tokio::test(start_paused = true)]
async fn the_ledger_takes_inserts_updates_and_deletes() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    let insert = "INSERT INTO ledger (id, note) VALUES ($1, $2), ($3, 'three') RETURNING id, note";
    let rows = client.query(insert, &[&1i64, &"one", &3i64]).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(),
        [1, 3]
    );
    assert_eq!(
        client
            .execute("INSERT INTO ledger VALUES ($1)", &[&2i64])
            .await
            .unwrap(),
        1
    );
    let error = client
        .execute("INSERT INTO ledger VALUES (2)", &[])
        .await
        .unwrap_err();
    assert_eq!(sqlstate(&error), "23505");
    assert_eq!(
        client
            .execute("UPDATE ledger SET note = 'x' || id WHERE id >= $1", &[&2i64])
            .await
            .unwrap(),
        2
    );
    assert_eq!(
        client
            .execute("DELETE FROM ledger WHERE id = 1", &[])
            .await
            .unwrap(),
        1
    );
    let rows = client
        .query("SELECT id, note FROM ledger ORDER BY id", &[])
        .await
        .unwrap();
    let rows: Vec<(i64, Option<String>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(rows, [(2, Some("x2".to_owned())), (3, Some("x3".to_owned()))]);
    assert_eq!(sim.ledger().into_iter().collect::<Vec<_>>(), rows);
}

#[tokio::test(start_paused = true)]
async fn every_server_shows_the_same_ledger_and_a_standby_refuses_to_write_it() {
    let sim = Sim::new(1);
    sim.server("b").demote();
    let (a, b) = (client(&sim, "a").await, client(&sim, "b").await);
    a.batch_execute("INSERT INTO ledger VALUES (1)").await.unwrap();
    let row = b.query_one("SELECT count(*) FROM ledger", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
    assert_eq!(
        sqlstate(
            &b.batch_execute("INSERT INTO ledger VALUES (2)")
                .await
                .unwrap_err()
        ),
        "25006"
    );
    assert!(
        b.query_one("SELECT pg_is_in_recovery()", &[])
            .await
            .unwrap()
            .get::<_, bool>(0)
    );
    sim.server("b").promote();
    b.batch_execute("INSERT INTO ledger VALUES (2)").await.unwrap();
    assert_eq!(sim.ledger().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn long_results_arrive_whole() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    let rows = client
        .query(
            "SELECT generate_series, 'some padding' FROM generate_series(1, $1)",
            &[&20_000],
        )
        .await;
    let rows = rows.unwrap();
    assert_eq!(rows.len(), 20_000);
    assert_eq!(rows[19_999].get::<_, i32>(0), 20_000);
}
