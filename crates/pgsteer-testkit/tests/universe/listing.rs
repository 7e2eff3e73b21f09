//! What `yb_servers()` reports, and how a test changes it.

use std::time::{Duration, Instant};

use pgsteer_testkit::{Row, Server, Universe, YbServers};

fn listed(server: &Server, columns: &str) -> Vec<String> {
    let rows = server.sql(&format!("SELECT {columns} FROM yb_servers()"));
    rows.into_iter()
        .map(|row| {
            row.into_iter()
                .map(|v| v.unwrap_or("NULL".into()))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

#[test]
fn every_server_lists_all_of_them_with_their_placement() {
    let universe = Universe::builder()
        .servers(3)
        .zones(["gcp.us-east1.us-east1-b", "aws.r.z"])
        .configure(2, |spec| spec.read_replica().public_ip("127.0.0.13"))
        .start();
    let port = universe.server(0).port();
    for server in universe.servers() {
        let rows = listed(server, "host, port, node_type, cloud, region, zone, public_ip");
        assert_eq!(
            rows,
            [
                format!("127.0.0.1 {port} primary gcp us-east1 us-east1-b "),
                format!("127.0.0.2 {port} primary aws r z "),
                format!("127.0.0.3 {port} read_replica gcp us-east1 us-east1-d 127.0.0.13"),
            ]
        );
    }
}

#[test]
fn the_columns_are_yugabytedbs_in_name_type_and_order() {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);
    let arguments = "SELECT pg_get_function_arguments('pg_catalog.yb_servers'::regproc)";
    let nine = "OUT host text, OUT port bigint, OUT num_connections bigint, OUT node_type text, OUT cloud text, \
                OUT region text, OUT zone text, OUT public_ip text, OUT uuid text";
    assert_eq!(server.sql(arguments), [[Some(nine.to_owned())]]);
    universe.set_yb_servers(YbServers::WithUniverse);
    assert_eq!(
        server.sql(arguments),
        [[Some(format!("{nine}, OUT universe_uuid text"))]]
    );
}

#[test]
fn forgotten_servers_are_listed_again_when_recalled() {
    let universe = Universe::builder().servers(3).start();
    universe.forget(1);
    assert_eq!(listed(universe.server(0), "host"), ["127.0.0.1", "127.0.0.3"]);
    assert_eq!(listed(universe.server(2), "host"), ["127.0.0.1", "127.0.0.3"]);
    universe.recall(1);
    assert_eq!(
        listed(universe.server(0), "host"),
        ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    );
}

#[test]
fn any_column_can_be_changed_or_made_null() {
    let universe = Universe::builder().servers(2).start();
    universe.set(1, "zone", "it's elsewhere");
    universe.set(1, "port", None);
    universe.set(0, "node_type", "READ_REPLICA");
    assert_eq!(
        listed(universe.server(0), "node_type, zone")[1],
        "primary it's elsewhere"
    );
    assert_eq!(listed(universe.server(1), "node_type, port")[1], "primary NULL");
    assert_eq!(listed(universe.server(1), "node_type")[0], "READ_REPLICA");
}

#[test]
#[should_panic(expected = "no column \"zzone\"")]
fn a_misspelt_column_fails_the_test() {
    Universe::builder().servers(1).start().set(0, "zzone", "x");
}

#[test]
fn a_server_that_was_down_learns_of_changes_when_it_starts() {
    let universe = Universe::builder().servers(2).start();
    universe.server(1).kill();
    universe.forget(0);
    universe.server(1).start();
    assert_eq!(listed(universe.server(1), "host"), ["127.0.0.2"]);
}

#[test]
fn rows_can_be_added_doubled_and_withheld() {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);
    universe.add_row(Row::new("10.9.9.9", 5433));
    universe.add_row(universe.row(0));
    assert_eq!(listed(server, "host"), ["127.0.0.1", "10.9.9.9", "127.0.0.1"]);
    universe.list_nothing(true);
    assert!(listed(server, "host").is_empty());
    universe.list_nothing(false);
    universe.remove_added_rows();
    assert_eq!(listed(server, "host"), ["127.0.0.1"]);
}

#[test]
fn the_function_can_be_missing_fail_or_be_slow() {
    let universe = Universe::builder()
        .servers(2)
        .configure(1, pgsteer_testkit::ServerSpec::plain)
        .start();
    let server = universe.server(0);
    let query = "SELECT host FROM yb_servers()";
    assert_eq!(universe.server(1).try_sql(query).unwrap_err().sqlstate, "42883");
    assert_eq!(server.sql(query).len(), 2);

    universe.set_yb_servers(YbServers::Missing);
    assert_eq!(server.try_sql(query).unwrap_err().sqlstate, "42883");

    universe.set_yb_servers(YbServers::Fails("XX000".to_owned()));
    assert_eq!(server.try_sql(query).unwrap_err().sqlstate, "XX000");

    universe.set_yb_servers(YbServers::Slow(Duration::from_millis(120)));
    let asked = Instant::now();
    assert_eq!(server.sql(query).len(), 2);
    assert!(asked.elapsed() >= Duration::from_millis(120));

    universe.set_yb_servers(YbServers::Works);
    assert_eq!(server.sql(query).len(), 2);
    assert_eq!(universe.server(1).try_sql(query).unwrap_err().sqlstate, "42883");
}
