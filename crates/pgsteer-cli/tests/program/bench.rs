//! `pgsteer bench` on a simulated cluster.

use std::thread::sleep;
use std::time::{Duration, Instant};

use pgsteer_sim::{Death, Effect, Script, ServerSpec, Sim};
use serde_json::{Value, json};

use crate::rig::{Cluster, Going, json_lines, run};

fn two_servers() -> Cluster {
    Cluster::start(
        Sim::builder(1)
            .server(ServerSpec::new("a"))
            .server(ServerSpec::new("b")),
    )
}

#[test]
fn json_has_an_object_per_second_and_a_total_that_adds_up() {
    let cluster = two_servers();
    let url = cluster.url("a", "load_balance=any");

    let run = run(&[
        "bench",
        &url,
        "--pool-size",
        "4",
        "--tasks",
        "8",
        "--seconds",
        "2",
        "--warmup",
        "0.2",
        "--json",
    ]);

    assert_eq!(run.code, Some(0), "{run:?}");
    let lines = json_lines(&run);
    let kinds: Vec<&Value> = lines.iter().map(|line| &line["type"]).collect();
    assert_eq!(kinds, [&json!("second"), &json!("second"), &json!("total")]);
    assert_eq!((&lines[0]["second"], &lines[1]["second"]), (&json!(1), &json!(2)));
    for line in &lines {
        assert!(
            line["ops"].as_u64() > Some(0) && line["ops_per_s"].as_f64() > Some(0.0),
            "{line}"
        );
        assert_eq!(line["errors"], json!({}), "{line}");
        for times in ["latency_us", "checkout_us"] {
            let times: Vec<f64> = ["p50", "p90", "p99", "p999", "max"]
                .iter()
                .filter_map(|figure| line[times][figure].as_f64())
                .collect();
            assert_eq!(times.len(), 5, "{line}");
            assert!(times[0] > 0.0 && times.is_sorted(), "{line}");
        }
        assert_eq!(line["status"]["size"], json!(4), "{line}");
        for host in ["a", "b"] {
            assert!(line["by_host"][cluster.address(host)].is_u64(), "{line}");
        }
    }
    let ops = |line: &Value| line["ops"].as_u64().unwrap_or(0);
    assert!(ops(&lines[2]) >= ops(&lines[0]) + ops(&lines[1]), "{run:?}");
}

#[test]
fn errors_are_counted_by_class() {
    let cluster = Cluster::start(Sim::builder(1).server(ServerSpec::new("a")));
    cluster
        .sim
        .server("a")
        .script(Script::on("SELECT 7", Effect::error("40001")).times(5));
    let url = cluster.url("a", "");

    let run = run(&[
        "bench",
        &url,
        "--query",
        "SELECT 7",
        "--tasks",
        "1",
        "--seconds",
        "1",
        "--warmup",
        "0",
        "--json",
    ]);

    assert_eq!(run.code, Some(0), "{run:?}");
    let lines = json_lines(&run);
    assert_eq!(
        lines.last().map(|total| &total["errors"]),
        Some(&json!({"sqlstate_40001": 5})),
        "{run:?}"
    );
}

#[test]
fn a_query_that_never_succeeds_fails_the_run_and_says_why() {
    let cluster = Cluster::start(Sim::builder(1).server(ServerSpec::new("a")));

    let run = run(&[
        "bench",
        &cluster.url("a", ""),
        "--query",
        "nonsense",
        "--seconds",
        "0.5",
        "--warmup",
        "0",
    ]);

    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(
        run.stderr.contains("no operation succeeded (sqlstate_42601"),
        "{run:?}"
    );
}

#[test]
fn text_ends_with_the_connections_by_host() {
    let cluster = Cluster::start(Sim::builder(1).server(ServerSpec::new("a")));

    let run = run(&[
        "bench",
        &cluster.url("a", ""),
        "--pool-size",
        "3",
        "--seconds",
        "0.5",
        "--warmup",
        "0",
    ]);

    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("total"), "{run:?}");
    assert!(
        run.stdout
            .contains(&format!("{}: 3 connections", cluster.address("a"))),
        "{run:?}"
    );
}

#[test]
fn a_time_without_success_is_told_with_its_errors() {
    let cluster = Cluster::start(Sim::builder(1).server(ServerSpec::new("a")));
    let mut going = Going::start(&[
        "bench",
        &cluster.url(
            "a",
            "failed_host_reconnect_delay_secs=0&connect_timeout=1&checkout_timeout=300ms",
        ),
        "--tasks",
        "4",
        "--seconds",
        "4",
        "--warmup",
        "0",
        "--json",
    ]);
    going.line().expect("a first second");

    let killed = Instant::now();
    cluster.sim.server("a").kill(Death::Rst);
    sleep(Duration::from_millis(900));
    cluster.sim.server("a").start();
    let run = going.end();
    let most = killed.elapsed().as_secs_f64();

    assert_eq!(run.code, Some(0), "{run:?}");
    let lines = json_lines(&run);
    let total = lines.last().expect("a total");
    let outages = total["outages"].as_array().expect("a list");
    assert_eq!(outages.len(), 1, "{total}");
    let (outage, length) = (&outages[0], outages[0]["seconds"].as_f64().unwrap_or(0.0));
    assert!((0.8..most).contains(&length), "{total}");
    let times = (outage["from_unix_s"].as_f64(), outage["to_unix_s"].as_f64());
    let between = times.1.zip(times.0).map_or(0.0, |(to, from)| to - from);
    assert!((between - length).abs() < 0.002, "{total}");
    let errors = outage["errors"].as_object().expect("classes");
    let failed: u64 = errors.values().filter_map(Value::as_u64).sum();
    assert!(failed > 0, "{total}");
    let longest = total["longest_gap_ms"].as_f64().unwrap_or(0.0);
    assert!((longest - length * 1000.0).abs() < 1.0, "{total}");
    assert!(lines[0].get("outages").is_none(), "{}", lines[0]);
}

#[test]
fn an_open_breaker_is_in_the_figures_and_its_rejections_are_a_class_of_their_own() {
    let cluster = Cluster::start(Sim::builder(1).server(ServerSpec::new("a")));
    let mut going = Going::start(&[
        "bench",
        &cluster.url("a", "breaker_threshold=1&breaker_base=60s"),
        "--tasks",
        "4",
        "--seconds",
        "3",
        "--warmup",
        "0",
        "--json",
    ]);
    let first = going.line().expect("a first second");
    cluster.sim.server("a").kill(Death::Rst);
    let run = going.end();

    assert!(first.contains("\"state\":\"closed\""), "{first}");
    let lines = json_lines(&run);
    let total = lines.last().expect("a total");
    assert_eq!(total["status"]["breaker"]["state"], json!("open"), "{total}");
    assert!(total["errors"]["circuit_open"].as_u64() > Some(10), "{total}");
    let turned_away = total["status"]["totals"]["circuit_open"].as_u64();
    assert!(turned_away >= total["errors"]["circuit_open"].as_u64(), "{total}");
}

#[test]
fn text_tells_of_the_longest_time_without_success() {
    let cluster = Cluster::start(Sim::builder(1).server(ServerSpec::new("a")));

    let run = run(&[
        "bench",
        &cluster.url("a", ""),
        "--hold-ms",
        "300",
        "--tasks",
        "1",
        "--seconds",
        "1",
        "--warmup",
        "0",
        "--outage-ms",
        "200",
    ]);

    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stdout.contains("longest time without a success: 3") && run.stdout.contains("no success for 0.3"),
        "{run:?}"
    );
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_with_the_total() {
    let cluster = two_servers();
    let mut going = Going::start(&[
        "bench",
        &cluster.url("a", ""),
        "--seconds",
        "600",
        "--warmup",
        "0",
        "--json",
    ]);
    let first = going.line().expect("a first second");

    going.interrupt();
    let run = going.end();

    assert!(first.contains("\"type\":\"second\""), "{first}");
    assert_eq!(run.code, Some(0), "{run:?}");
    let lines = json_lines(&run);
    assert_eq!(
        lines.last().map(|line| &line["type"]),
        Some(&json!("total")),
        "{run:?}"
    );
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let cluster = two_servers();
    let mut going = Going::start(&[
        "bench",
        &cluster.url("a", ""),
        "--seconds",
        "600",
        "--warmup",
        "0",
        "--json",
    ]);
    going.line().expect("a first second");

    let run = going.stop_reading();

    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
}
