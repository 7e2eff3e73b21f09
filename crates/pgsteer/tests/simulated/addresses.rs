//! Host or public address: decided by what names resolve to, with the resolver in play.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use pgsteer::world::{BoxFuture, Resolve, World};
use pgsteer::{Cluster, Snapshot};
use pgsteer_sim::{Resolution, ServerSpec, Sim};

use crate::rig::*;

fn used(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.servers.iter().map(|server| server.key.name()).collect()
}

fn address(text: &str) -> Resolution {
    Resolution::Addresses(vec![text.parse().unwrap()])
}

/// Servers with a private host each and the public names pub-a to pub-d, the last unlisted so far.
fn with_public_names() -> Sim {
    let server = |name, host: &str, public: &str| ServerSpec::new(name).host(host).public_ip(public);
    Sim::builder(1)
        .server(server("a", "10.0.0.1", "pub-a"))
        .server(server("b", "10.0.0.2", "pub-b"))
        .server(server("c", "10.0.0.3", "pub-c"))
        .server(server("d", "10.0.0.4", "pub-d").unlisted())
        .server(
            ServerSpec::new("yb")
                .address("192.168.0.1".parse().unwrap())
                .unlisted(),
        )
        .build()
}

/// Covers: E-222
#[tokio::test(start_paused = true)]
async fn the_choice_of_public_addresses_outlives_the_server_it_came_from() {
    let sim = with_public_names();
    let cluster = cluster(&sim, config(&["pub-a", "yb"])).await;
    assert_eq!(used(&cluster.snapshot()), ["pub-a", "pub-b", "pub-c"]);
    let _open = open(&cluster, 3).await;
    ["a", "b", "c"].iter().for_each(|name| refuse(&sim.server(name)));
    sim.server("d").list();
    cluster.refresh();
    until("the fourth is found", || cluster.snapshot().servers.len() == 4).await;
    assert_eq!(used(&cluster.snapshot()), ["pub-a", "pub-b", "pub-c", "pub-d"]);
}

/// Covers: E-223
#[tokio::test(start_paused = true)]
async fn a_seed_that_resolves_to_a_public_address_chooses_the_public_ones() {
    let server = |name, n: u8| {
        ServerSpec::new(name)
            .host(&format!("10.0.0.{n}"))
            .public_ip(&format!("34.0.0.{n}"))
    };
    let sim = Sim::builder(1)
        .server(server("a", 1))
        .server(server("b", 2))
        .server(server("c", 3))
        .build();
    sim.set_name("yb.example.com", address("34.0.0.2"));
    let cluster = cluster(&sim, config(&["yb.example.com"])).await;
    assert_eq!(used(&cluster.snapshot()), ["34.0.0.1", "34.0.0.2", "34.0.0.3"]);
    assert!(landing(&cluster).await.starts_with("34."));
}

/// Covers: E-224
#[tokio::test(start_paused = true)]
async fn a_seed_that_resolves_to_a_private_address_chooses_the_hosts() {
    let server = |name, host: &str, public: &str| ServerSpec::new(name).host(host).public_ip(public);
    let sim = Sim::builder(1)
        .server(server("a", "yb-1.svc", "34.0.0.1"))
        .server(server("b", "yb-2.svc", "34.0.0.2"))
        .server(server("c", "yb-3.svc", "34.0.0.3"))
        .build();
    sim.set_name("yb.svc", address("10.0.0.2"));
    let cluster = cluster(&sim, config(&["yb.svc"])).await;
    assert_eq!(used(&cluster.snapshot()), ["yb-1.svc", "yb-2.svc", "yb-3.svc"]);
}

/// Covers: E-226
#[tokio::test(start_paused = true)]
async fn behind_a_balancer_the_guess_follows_what_the_servers_list() {
    let sim = with_public_names();
    let cluster = cluster(&sim, config(&["yb"])).await;
    let public = ["pub-a", "pub-b", "pub-c"];
    let hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    assert_eq!(used(&cluster.snapshot()), public);

    sim.server("c")
        .change_row(|row| row.public_ip = Some(String::new()));
    cluster.refresh();
    until("hosts are used", || used(&cluster.snapshot()) == hosts).await;

    sim.server("c")
        .change_row(|row| row.public_ip = Some("pub-nowhere".to_owned()));
    cluster.refresh();
    pass(seconds(1)).await;
    assert_eq!(
        used(&cluster.snapshot()),
        hosts,
        "one that does not resolve is as good as none"
    );

    sim.server("c")
        .change_row(|row| row.public_ip = Some("pub-c".to_owned()));
    cluster.refresh();
    until("public addresses are used again", || {
        used(&cluster.snapshot()) == public
    })
    .await;
}

/// Covers: E-227
#[tokio::test(start_paused = true)]
async fn a_seed_whose_name_does_not_resolve_is_passed_over_and_decides_nothing() {
    let sim = with_public_names();
    sim.set_name("ghost", Resolution::Unknown);
    sim.set_name("a.internal", Resolution::Unknown);
    sim.set_name("second", address("34.0.0.1"));
    sim.server("a")
        .change_row(|row| row.host = Some("a.internal".to_owned()));
    let cluster = cluster(&sim, config(&["ghost", "second"])).await;
    // Once to connect to it, and once to see what addresses the name has.
    assert_eq!(sim.look_ups("ghost"), 2);
    assert_eq!(used(&cluster.snapshot()), ["pub-a", "pub-b", "pub-c"]);
}

/// A name that is never answered holds discovery up for a connect timeout and no longer.
///
///
#[tokio::test(start_paused = true)]
async fn a_resolver_that_never_answers_bounds_discovery_by_the_connect_timeout() {
    let sim = with_public_names();
    sim.set_name("pub-b", Resolution::Hang);
    let (cluster, took) = timed(cluster(&sim, config(&["yb"]).connect_timeout(seconds(2)))).await;
    assert!((seconds(2)..seconds(3)).contains(&took), "{took:?}");
    assert_eq!(used(&cluster.snapshot()), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
}

/// The operating system's resolver for `localhost`, in a world that is simulated otherwise. No other name is known.
struct OnlyLocalhost(World);

impl Resolve for OnlyLocalhost {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        if host == "localhost" || host.parse::<IpAddr>().is_ok() {
            self.0.resolver().resolve(host)
        } else {
            Box::pin(async { Err(io::ErrorKind::NotFound.into()) })
        }
    }
}

/// Real time: the operating system's resolver answers in its own.
///
/// Covers: E-229
#[tokio::test]
async fn an_address_in_ipv6_clothes_is_the_same_address() {
    let server = |name, address: &str| ServerSpec::new(name).address(address.parse().unwrap());
    let sim = Sim::builder(1)
        .server(server("a", "127.0.0.1").public_ip("::ffff:127.0.0.1"))
        .server(server("b", "127.0.0.2"))
        .server(server("c", "127.0.0.3"))
        .build();
    let world = World::new(
        Arc::new(OnlyLocalhost(World::real())),
        Arc::new(sim.clone()),
        Arc::new(Zero),
    );
    let cluster = Cluster::start_in(config(&["localhost"]), world).unwrap();
    cluster.ready().await.unwrap();
    assert_eq!(used(&cluster.snapshot()), ["::ffff:127.0.0.1", "b", "c"]);
    let three = open(&cluster, 3).await;
    assert_eq!(
        hosts_of(&three),
        ["::ffff:127.0.0.1"; 3],
        "the others' names are not known here"
    );
}

struct Zero;

impl pgsteer::world::Draw for Zero {
    fn draw(&self) -> u64 {
        0
    }
}
