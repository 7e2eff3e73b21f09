//! Reading `yb_servers()` and looking up the names in it.

use pgsteer_core::host::NodeType;
use pgsteer_core::hosts::{Addresses, DiscoveredRow};
use pgsteer_core::topology::Placement;
use tokio::time::Instant;

use super::*;

const COLUMNS: [&str; 7] = [
    "host",
    "port",
    "node_type",
    "cloud",
    "region",
    "zone",
    "public_ip",
];

/// A server that answers the one question with this.
fn lists(answer: Vec<u8>) -> Host {
    serves(move |mut peer| {
        let answer = answer.clone();
        async move {
            peer.accept().await;
            assert_eq!(peer.query().await.as_deref(), Some("SELECT * FROM yb_servers()"));
            peer.send(&[answer, ready(b'I')].concat()).await;
            peer.end().await;
        }
    })
}

fn table(names: &[&str], rows: &[&[Option<&str>]]) -> Vec<u8> {
    let rows = rows.iter().flat_map(|values| row(values));
    columns(names)
        .into_iter()
        .chain(rows)
        .chain(completed("SELECT"))
        .collect()
}

async fn discover(world: &Scripted) -> Discovered {
    let dialler = world.dialler(config());
    let dialled = dialler
        .dial(&db(), Purpose::Discovery, Ask::default())
        .await
        .unwrap();
    dialler.discover(&db(), dialled).await
}

async fn listed(answer: Vec<u8>) -> (Vec<DiscoveredRow>, Addresses, Vec<String>) {
    match discover(&Scripted::with(lists(answer))).await {
        Discovered::Servers {
            rows,
            addresses,
            oddities,
        } => (rows, addresses, oddities),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_is_read_by_column_name() {
    let answer = table(
        &[
            "uuid",
            "zone",
            "host",
            "public_ip",
            "num_connections",
            "port",
            "node_type",
            "cloud",
            "region",
        ],
        &[&[
            Some("x"),
            Some("US-East1-B"),
            Some("10.0.0.7"),
            Some("34.0.0.7"),
            Some("0"),
            Some("5434"),
            Some("read_replica"),
            Some("gcp"),
            Some("us-east1"),
        ]],
    );
    let (rows, _, oddities) = listed(answer).await;
    assert_eq!(
        rows,
        [DiscoveredRow {
            host: "10.0.0.7".to_owned(),
            port: 5434,
            node_type: NodeType::ReadReplica,
            placement: Placement::new("gcp", "us-east1", "us-east1-b"),
            public_ip: Some("34.0.0.7".to_owned()),
        }]
    );
    assert!(oddities.is_empty());
}

#[tokio::test(start_paused = true)]
async fn whatever_is_missing_or_null_has_a_default() {
    let nulls: &[Option<&str>] = &[Some("10.0.0.7"), None, None, None, None, None, None];
    for answer in [
        table(&["host"], &[&[Some("10.0.0.7")]]),
        table(&COLUMNS, &[nulls]),
    ] {
        let (rows, _, oddities) = listed(answer).await;
        assert_eq!(
            rows,
            [DiscoveredRow {
                host: "10.0.0.7".to_owned(),
                port: 5433,
                node_type: NodeType::Primary,
                placement: Placement::default(),
                public_ip: None,
            }]
        );
        assert!(oddities.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn anything_but_a_read_replica_is_a_primary() {
    for kind in ["primary", "READ_REPLICA", "", "witness"] {
        let (rows, ..) = listed(table(&["host", "node_type"], &[&[Some("10.0.0.7"), Some(kind)]])).await;
        assert_eq!(rows[0].node_type, NodeType::Primary, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_make_no_sense_are_told_and_the_others_kept() {
    let answer = table(
        &["host", "port"],
        &[
            &[Some(""), Some("5433")],
            &[None, Some("5433")],
            &[Some("10.0.0.1"), Some("0")],
            &[Some("10.0.0.2"), Some("65536")],
            &[Some("10.0.0.3"), Some("-1")],
            &[Some("10.0.0.4"), Some("many")],
            &[Some("10.0.0.5"), Some("65535")],
        ],
    );
    let (rows, addresses, oddities) = listed(answer).await;
    assert_eq!(
        rows.iter().map(|row| &*row.host).collect::<Vec<_>>(),
        ["10.0.0.5"]
    );
    assert_eq!(addresses.host.len(), 1);
    assert_eq!(oddities.len(), 6);
    assert!(
        oddities[3].contains("10.0.0.2") && oddities[3].contains("65536"),
        "{oddities:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_rows_are_no_failure() {
    let (rows, _, oddities) = listed(table(&COLUMNS, &[])).await;
    assert!(rows.is_empty() && oddities.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_without_the_function_is_told_from_one_that_failed() {
    let world = |code| Scripted::with(lists(report(b'E', "ERROR", code, "no")));
    assert!(matches!(discover(&world("42883")).await, Discovered::NoFunction));
    match discover(&world("42501")).await {
        Discovered::Failed(reason) => assert_eq!(reason, "no (SQLSTATE 42501)"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_before_the_answer_is_a_failure() {
    let host = serves(|mut peer| async move {
        peer.accept().await;
        peer.query().await;
    });
    match discover(&Scripted::with(host)).await {
        Discovered::Failed(reason) => {
            assert_eq!(reason, "the connection ended: the server closed the connection");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn names_resolve_to_their_first_ipv4_address_and_hanging_ones_to_none_all_within_one_deadline() {
    let answer = table(
        &["host", "public_ip"],
        &[
            &[Some("both"), Some("mapped")],
            &[Some("six"), Some("")],
            &[Some("hangs"), Some("hangs-too")],
            &[Some("missing"), None],
            &[Some("::ffff:127.0.0.1"), Some("34.0.0.1")],
        ],
    );
    let world = Scripted::with(lists(answer));
    world
        .name("both", &["fd00::1", "10.0.0.11", "10.0.0.12"])
        .name("mapped", &["fd00::1", "::ffff:10.0.0.13"])
        .name("six", &["fd00::2", "fd00::3"])
        .name_that_hangs("hangs")
        .name_that_hangs("hangs-too");
    let began = Instant::now();
    let Discovered::Servers { addresses, .. } = discover(&world).await else {
        panic!("no servers")
    };
    let address = |text: &str| Some(text.parse::<IpAddr>().unwrap());
    assert_eq!(
        addresses,
        Addresses {
            answered: address("10.0.0.1"),
            host: vec![
                address("10.0.0.11"),
                address("fd00::2"),
                None,
                None,
                address("127.0.0.1")
            ],
            public_ip: vec![address("10.0.0.13"), None, None, None, address("34.0.0.1")],
        }
    );
    assert_eq!(began.elapsed(), CONNECT_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_dialled_name_that_no_longer_resolves_is_a_failure() {
    let world = Scripted::with(lists(table(&["host"], &[&[Some("10.0.0.7")]])));
    let dialler = world.dialler(config());
    let dialled = dialler
        .dial(&db(), Purpose::Discovery, Ask::default())
        .await
        .unwrap();
    world.0.lock().unwrap().names.clear();
    assert!(matches!(
        dialler.discover(&db(), dialled).await,
        Discovered::Failed(_)
    ));
}

#[tokio::test(start_paused = true)]
async fn the_connection_is_closed_politely_after_the_answer() {
    let (closed, on_close) = tokio::sync::oneshot::channel();
    let closed = Arc::new(Mutex::new(Some(closed)));
    let host = serves(move |mut peer| {
        let closed = closed.clone();
        async move {
            peer.accept().await;
            peer.query().await;
            peer.send(&[table(&["host"], &[]), ready(b'I')].concat()).await;
            assert_eq!(peer.next().await, Some((b'X', vec![])));
            closed.lock().unwrap().take().unwrap().send(()).unwrap();
        }
    });
    discover(&Scripted::with(host)).await;
    on_close.await.unwrap();
}
