//! `pgsteer topology` on a simulated cluster.

use pgsteer_sim::{Auth, Death, ServerSpec, Sim};
use serde_json::{Value, json};

use crate::rig::{Cluster, Going, json_lines, run};

/// Placement of the tests' preferred server, and of all.
const KEYS: &str = "load_balance=any&topology_keys=gcp.us-east1.us-east1-b:1,gcp.us-east1.*:2";

fn three_zones() -> Cluster {
    let server = |name, zone| ServerSpec::new(name).placement("gcp", "us-east1", zone);
    let builder = Sim::builder(1)
        .server(server("a", "us-east1-b"))
        .server(server("b", "us-east1-c"));
    Cluster::start(builder.server(server("c", "us-east1-d").standby()))
}

/// The row of the server that listens at this address.
fn row<'a>(look: &'a Value, address: &str) -> &'a Value {
    let rows = look["servers"].as_array().expect("servers are a list");
    let at = |row: &Value| format!("{}:{}", row["host"].as_str().unwrap_or(""), row["port"]);
    rows.iter()
        .find(|row| at(row) == address)
        .unwrap_or_else(|| panic!("no {address} in {look}"))
}

#[test]
fn json_tells_each_server_s_place_level_use_and_times() {
    let cluster = three_zones();

    let run = run(&["topology", &cluster.url("b", KEYS), "--json"]);

    assert_eq!(run.code, Some(0), "{run:?}");
    let looks = json_lines(&run);
    assert_eq!(looks.len(), 1, "{run:?}");
    let look = &looks[0];
    assert_eq!(
        (&look["discovering"], &look["discovered"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(look["servers"].as_array().map(Vec::len), Some(3));
    assert_eq!(look["breaker"]["state"], json!("closed"));
    let expected = [
        ("a", "us-east1-b", 1, true, false),
        ("b", "us-east1-c", 2, false, false),
        ("c", "us-east1-d", 2, false, true),
    ];
    for (server, zone, level, used, standby) in expected {
        let row = row(look, &cluster.address(server));
        assert_eq!(
            row["placement"],
            json!({"cloud": "gcp", "region": "us-east1", "zone": zone}),
            "{server}"
        );
        assert_eq!(row["node_type"], json!("primary"), "{server}");
        assert_eq!(row["source"], json!("discovered"), "{server}");
        assert_eq!(row["level"], json!(level), "{server}");
        assert_eq!(
            (&row["chosen"], &row["allowed"]),
            (&json!(used), &json!(used)),
            "{server}"
        );
        assert_eq!(row["connections"], json!(u32::from(used)), "{server}");
        assert_eq!(
            (&row["reachable"], &row["in_recovery"]),
            (&json!(true), &json!(standby)),
            "{server}"
        );
        assert!(row["connect_us"].as_u64() > Some(0), "{row}");
        assert!(row["round_trip_us"].is_u64(), "{row}");
        assert_eq!(
            (&row["failure"], &row["error"]),
            (&Value::Null, &Value::Null),
            "{server}"
        );
    }
}

#[test]
fn a_dead_server_is_told_with_its_reason_and_the_next_level_is_used() {
    let cluster = three_zones();
    let dead = cluster.address("a");
    cluster.sim.server("a").kill(Death::Rst);

    let run = run(&["topology", &cluster.url("b", KEYS), "--json"]);

    assert_eq!(run.code, Some(0), "{run:?}");
    let look = &json_lines(&run)[0];
    let gone = row(look, &dead);
    assert_eq!(
        (&gone["reachable"], &gone["chosen"]),
        (&json!(false), &json!(false)),
        "{gone}"
    );
    assert_eq!(gone["failure"]["kind"], json!("down"), "{gone}");
    assert!(
        gone["failure"]["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("refused")),
        "{gone}"
    );
    assert!(
        gone["failure"]["probe_due_in_seconds"]
            .as_f64()
            .is_some_and(|left| left > 0.0 && left <= 5.0),
        "{gone}"
    );
    assert!(gone["error"].is_string(), "{gone}");
    for server in ["b", "c"] {
        let row = row(look, &cluster.address(server));
        assert_eq!(
            (&row["chosen"], &row["connections"]),
            (&json!(true), &json!(1)),
            "{row}"
        );
    }
    assert!(
        run.stderr.contains(&format!("warning: {dead} cannot be reached")),
        "{run:?}"
    );
}

#[test]
fn the_table_has_a_row_per_server() {
    let cluster = three_zones();

    let run = run(&["topology", &cluster.url("a", KEYS)]);

    assert_eq!(run.code, Some(0), "{run:?}");
    let rows: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(rows.len(), 4, "{run:?}");
    assert!(rows[0].starts_with("SERVER"), "{run:?}");
    assert!(
        rows[1].starts_with(&cluster.address("a")) && rows[1].contains("gcp.us-east1.us-east1-b"),
        "{run:?}"
    );
    assert!(rows[3].contains("standby"), "{run:?}");
    assert!(rows[1..].iter().all(|row| row.ends_with("ok")), "{run:?}");
}

#[test]
fn without_any_server_it_fails_with_a_hint() {
    let cluster = three_zones();
    let url = cluster.url("a", "load_balance=any");
    for server in cluster.sim.servers() {
        server.kill(Death::Rst);
    }

    let run = run(&["topology", &url, "--json"]);

    assert_eq!(run.code, Some(1), "{run:?}");
    let looks = json_lines(&run);
    assert_eq!(looks.len(), 1, "{run:?}");
    let breaker = &looks[0]["breaker"];
    assert_eq!(
        (&breaker["state"], &breaker["streak"]),
        (&json!("closed"), &json!(1))
    );
    assert!(
        run.stderr.contains("hint: ") && run.stderr.contains("error: no server could be reached"),
        "{run:?}"
    );
}

#[test]
fn a_refused_login_names_the_credentials_and_keeps_the_password() {
    let builder = Sim::builder(1)
        .server(ServerSpec::new("a"))
        .login(Auth::Scram, "app", "right");
    let cluster = Cluster::start(builder);
    let url = format!("postgresql://app:wr0ng-s3cr3t@{}/app", cluster.address("a"));

    let run = run(&["topology", &url]);

    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(
        run.stderr.contains("hint: check the user, the password"),
        "{run:?}"
    );
    assert!(
        !(run.stdout + &run.stderr).contains("wr0ng"),
        "the password is repeated"
    );
}

#[cfg(unix)]
#[test]
fn watch_tells_that_the_breaker_has_opened_and_why() {
    let cluster = three_zones();
    let mut going = Going::start(&[
        "topology",
        &cluster.url("b", "breaker_threshold=2"),
        "--watch",
        "--interval",
        "0.05",
        "--json",
    ]);
    going.line().expect("a first look");
    for server in cluster.sim.servers() {
        server.kill(Death::Rst);
    }

    let open = std::iter::from_fn(|| going.line())
        .take(100)
        .find(|look| look.contains("\"state\":\"open\""));
    going.interrupt();
    going.end();

    let look: Value = serde_json::from_str(&open.expect("it opens")).expect("JSON");
    let breaker = &look["breaker"];
    assert_eq!(breaker["trips"], json!(1), "{breaker}");
    assert_eq!(breaker["outages"], json!(1), "{breaker}");
    assert!(breaker["retry_after_ms"].as_u64() <= Some(1200), "{breaker}");
    assert!(
        breaker["last_error"]
            .as_str()
            .is_some_and(|error| error.contains("refused")),
        "{breaker}"
    );
}

#[test]
fn without_a_breaker_json_says_so() {
    let cluster = three_zones();

    let run = run(&["topology", &cluster.url("b", "breaker_threshold=0"), "--json"]);

    assert_eq!(json_lines(&run)[0]["breaker"], Value::Null, "{run:?}");
}

#[cfg(unix)]
#[test]
fn watch_looks_again_until_interrupted() {
    let cluster = three_zones();
    let mut going = Going::start(&[
        "topology",
        &cluster.url("b", KEYS),
        "--watch",
        "--interval",
        "0.1",
        "--json",
    ]);
    let first = going.line().expect("a first look");
    cluster.sim.server("a").kill(Death::Rst);

    let dead = format!(
        "\"port\":{}",
        cluster
            .sim
            .server("a")
            .listening()
            .expect("it had an address")
            .port()
    );
    let seen_dead = |look: &String| look.contains(&dead) && look.contains("\"kind\":\"down\"");
    let found = std::iter::from_fn(|| going.line())
        .take(50)
        .any(|look| seen_dead(&look));
    going.interrupt();
    let run = going.end();

    assert!(!seen_dead(&first), "{first}");
    assert!(found, "the dead server was not seen");
    assert_eq!(run.code, Some(0), "{run:?}");
}
