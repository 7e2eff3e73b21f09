//! `yb_servers()`: the shared table, what single servers can say instead, and what is counted.

use crate::common::{client, sqlstate};
use pgsteer_sim::{Discovery, DiscoveryRow, ServerSpec, Sim};

const QUERY: &str = "SELECT host, port, node_type, cloud, region, zone, public_ip FROM yb_servers()";

async fn hosts(sim: &Sim, server: &str) -> Vec<Option<String>> {
    let rows = client(sim, server).await.query(QUERY, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn some(names: &[&str]) -> Vec<Option<String>> {
    names.iter().map(|name| Some((*name).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn every_server_lists_all_of_them_in_both_protocols() {
    let replica = ServerSpec::new("r")
        .placement("aws", "r1", "z1")
        .read_replica()
        .public_ip("pub-r")
        .port(6000);
    let balancer = ServerSpec::new("lb").unlisted();
    let sim = Sim::builder(1)
        .server(ServerSpec::new("a"))
        .server(replica)
        .server(balancer)
        .build();
    for server in ["a", "lb"] {
        let client = client(&sim, server).await;
        let rows = client.query(QUERY, &[]).await.unwrap();
        let row = |at: usize| {
            let text = |column: usize| rows[at].get::<_, String>(column);
            (
                text(0),
                rows[at].get::<_, i64>(1),
                text(2),
                text(3),
                text(4),
                text(5),
                text(6),
            )
        };
        let text = |text: &str| text.to_owned();
        assert_eq!(rows.len(), 2);
        assert_eq!(
            row(0),
            (
                text("a"),
                5433,
                text("primary"),
                text("gcp"),
                text("us-east1"),
                text("us-east1-b"),
                text("")
            )
        );
        assert_eq!(
            row(1),
            (
                text("r"),
                6000,
                text("read_replica"),
                text("aws"),
                text("r1"),
                text("z1"),
                text("pub-r")
            )
        );
        let all = client.query("SELECT * FROM yb_servers()", &[]).await.unwrap();
        assert_eq!((all.len(), all[0].len(), all[0].get::<_, i64>(2)), (2, 9, 0));
        let simple = client
            .simple_query("SELECT host FROM pg_catalog.yb_servers() AS s WHERE port > 6")
            .await
            .unwrap();
        assert_eq!(simple.len(), 4, "columns, two rows, a tag");
    }
    assert_eq!(sim.server("a").counts().discovery_queries, 3);
    assert!(sim.sessions().iter().all(|session| session.asked_for_servers));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_table_is_seen_on_every_server_at_once() {
    let sim = Sim::new(1);
    sim.server("b").unlist();
    assert_eq!(hosts(&sim, "a").await, some(&["a", "c"]));
    assert_eq!(hosts(&sim, "b").await, some(&["a", "c"]));
    sim.server("b").list();
    sim.server("b").list();
    sim.server("a").change_row(|row| row.host = Some("moved".into()));
    assert_eq!(hosts(&sim, "c").await, some(&["moved", "c", "b"]));
    sim.set_table(Vec::new());
    assert!(hosts(&sim, "a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_server_can_say_something_else() {
    let sim = Sim::new(1);
    let server = sim.server("a");
    let row = |host: Option<&str>| DiscoveryRow {
        host: host.map(str::to_owned),
        ..DiscoveryRow::default()
    };
    server.set_discovery(Discovery::Rows(vec![row(Some("x")), row(None), row(Some("x"))]));
    assert_eq!(
        hosts(&sim, "a").await,
        [Some("x".to_owned()), None, Some("x".to_owned())]
    );
    let rows = client(&sim, "a").await.query(QUERY, &[]).await.unwrap();
    assert_eq!(
        rows[0].get::<_, Option<i64>>(1),
        None,
        "what is not given is NULL"
    );
    server.set_discovery(Discovery::Missing);
    let error = client(&sim, "a").await.query(QUERY, &[]).await.unwrap_err();
    assert_eq!(sqlstate(&error), "42883");
    let error = client(&sim, "a").await.simple_query(QUERY).await.unwrap_err();
    assert_eq!(sqlstate(&error), "42883");
    assert_eq!(server.counts().discovery_queries, 4);
    server.set_discovery(Discovery::Fail("XX000".into()));
    let error = client(&sim, "a").await.query(QUERY, &[]).await.unwrap_err();
    assert_eq!(sqlstate(&error), "XX000");
    assert_eq!(hosts(&sim, "b").await, some(&["a", "b", "c"]));
}
