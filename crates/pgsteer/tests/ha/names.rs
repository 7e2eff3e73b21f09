//! Host names: ones that lead nowhere, and ones that move to another server.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgsteer::world::{BoxFuture, Dial, Draw, Endpoint, Resolve, Socket, SocketOptions, World};
use pgsteer::{Conn, HostKey, Pool};
use pgsteer_testkit::{HaSet, Server};

use crate::rig::{QUICK, backend, becomes, config, full, get, primary_with, rig, soon, stays, write};

/// The real world with a name service of the test's own.
#[derive(Clone)]
struct Names {
    addresses: Arc<Mutex<BTreeMap<String, IpAddr>>>,
    real: World,
}

impl Names {
    fn none() -> Self {
        Names {
            addresses: Arc::default(),
            real: World::real(),
        }
    }

    fn lead(&self, name: &str, server: &Server) {
        let address = server.host().parse().unwrap();
        self.addresses.lock().unwrap().insert(name.to_owned(), address);
    }

    fn forget(&self, name: &str) {
        self.addresses.lock().unwrap().remove(name);
    }

    fn pool(&self, addresses: &str, parameters: &str) -> Pool {
        let this = Arc::new(self.clone());
        let world = World::new(this.clone(), this.clone(), this);
        Pool::start_in(config(addresses, parameters), world).unwrap()
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let named = || self.addresses.lock().unwrap().get(host).copied();
        let found = host.parse().ok().or_else(named);
        Box::pin(async move {
            found
                .map(|address| vec![address])
                .ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }
}

impl Dial for Names {
    fn dial<'a>(
        &'a self,
        target: &'a Endpoint,
        socket: &'a SocketOptions,
    ) -> BoxFuture<'a, io::Result<Socket>> {
        self.real.dialler().dial(target, socket)
    }
}

impl Draw for Names {
    fn draw(&self) -> u64 {
        self.real.draw()
    }
}

/// Covers: F-02, Q-19
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_leads_nowhere_is_passed_over_and_named_when_nothing_else_is_left() {
    let set = rig(HaSet::builder().standbys(0)).await;
    let names = Names::none();
    let port = set.node(0).port();
    let pool = full(names.pool(&format!("gone.example,{}", set.addresses()), "pool_size=2")).await;
    let gone = HostKey::new("gone.example", 5432);
    assert_eq!(pool.cluster().snapshot().failed(), [gone]);

    let lone = names.pool(&format!("gone.example:{port}"), "pool_size=1");
    let error = soon(lone.get()).await.unwrap_err();
    assert!(error.to_string().contains("gone.example"), "{error}");
    assert_eq!(error.hosts_tried()[0].state, "down", "{error}");
}

/// Covers: F-02
#[tokio::test(flavor = "multi_thread")]
async fn connections_stay_when_their_hosts_name_no_longer_resolves() {
    let set = primary_with(0).await;
    let names = Names::none();
    names.lead("db.example", set.node(0));
    let address = format!("db.example:{}", set.node(0).port());
    let pool = full(names.pool(&address, &format!("pool_size=2&{QUICK}"))).await;
    let host = HostKey::new("db.example", set.node(0).port());
    becomes(true, || pool.cluster().snapshot().addresses.contains_key(&host)).await;
    names.forget("db.example");
    // Some refreshes.
    stays(2, Duration::from_secs(3), || pool.status().idle).await;
    assert_eq!(pool.status().totals.opened, 2);
}

/// Covers: F-19, Q-03, Q-20
#[tokio::test(flavor = "multi_thread")]
async fn when_a_name_moves_to_another_server_the_connections_move_too_and_the_one_in_use_when_it_is_back() {
    let set = primary_with(1).await;
    let names = Names::none();
    names.lead("db.example", set.node(0));
    let address = format!("db.example:{}", set.node(0).port());
    for target in ["any", "read-write"] {
        names.lead("db.example", set.node(0));
        let application = format!("moving-{target}");
        let parameters =
            format!("pool_size=4&target_session_attrs={target}&application_name={application}&{QUICK}");
        let pool = full(names.pool(&address, &parameters)).await;
        let held = get(&pool).await;
        let before = backend(&held).await;
        assert_eq!(set.spread(&application), [4, 0]);
        if target == "read-write" {
            set.promote(1);
        }

        names.lead("db.example", set.node(1));

        becomes(vec![1, 3], || set.spread(&application)).await;
        assert_eq!(backend(&held).await, before);
        drop(held);
        becomes(vec![0, 4], || set.spread(&application)).await;
        let conn = get(&pool).await;
        assert_eq!(Conn::host(&conn).to_string(), address);
        if target == "read-write" {
            write(&conn).await.unwrap();
        }
    }
}
