//! Several pools on one cluster: what they share, what is each one's own, and when the cluster ends.

use pgsteer::config::{ConfigError, HostOrder, LoadBalance, SslMode, TargetSessionAttrs};
use pgsteer::{Config, Conn, Error, Pool};

use crate::rig::*;

/// The standard configuration with a pool of this size.
fn sized(size: u32) -> Config {
    abc().pool_size(size)
}

async fn filled(pool: &Pool) {
    pool.ready(u32::MAX, seconds(60)).await.expect("the pool fills");
}

#[tokio::test(start_paused = true)]
async fn connections_of_all_pools_count_as_the_load_of_their_hosts() {
    let sim = three().build();
    let cluster = cluster(&sim, abc()).await;
    let six = Pool::start_on(&cluster, sized(6)).unwrap();
    filled(&six).await;
    let three = Pool::start_on(&cluster, sized(3)).unwrap();
    filled(&three).await;
    assert_eq!(counted(&cluster.snapshot()), "a:3 b:3 c:3");
    assert_eq!(
        (placed(&six.status()), placed(&three.status())),
        ("a:2 b:2 c:2".into(), "a:1 b:1 c:1".into())
    );
    assert_eq!(discoveries(&sim), 1, "one cluster is discovered once");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_failed_for_one_pool_is_left_out_by_the_other() {
    let sim = three().build();
    let cluster = cluster(&sim, abc()).await;
    sim.server("a").kill(pgsteer_sim::Death::Fin);
    let first = Pool::start_on(&cluster, sized(4)).unwrap();
    filled(&first).await;
    let tried = attempts(&sim, "a");
    let second = Pool::start_on(&cluster, sized(4)).unwrap();
    filled(&second).await;
    assert_eq!(attempts(&sim, "a"), tried);
    assert_eq!(placed(&second.status()), "b:2 c:2");
}

#[tokio::test(start_paused = true)]
async fn closing_a_pool_leaves_the_other_and_the_cluster_as_they_are() {
    let sim = three().build();
    let first = full(&sim, sized(3)).await;
    let second = first.with_target(TargetSessionAttrs::Any).unwrap();
    filled(&second).await;

    assert_eq!(first.close(seconds(5)).await.still_out, 0);
    assert!(first.is_closed() && !second.is_closed());
    assert!(matches!(first.get().await, Err(Error::Closed)));
    drop(second.get().await.expect("the other works"));
    assert_eq!(sim.live(), 3, "the sessions of the closed pool are gone");

    // It still follows the cluster: a server that dies is replaced and found again.
    sim.server("a").kill(pgsteer_sim::Death::Fin);
    until("a's connection is replaced", || {
        placed(&second.status()).starts_with("b:")
    })
    .await;
    sim.server("a").start();
    pass(seconds(2)).await;
    second.cluster().refresh();
    until("a is found back", || {
        second.cluster().snapshot().failures.is_empty()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_a_pool_made_ends_with_the_last_pool_on_it() {
    let before = tasks();
    let sim = three().build();
    let first = full(&sim, sized(2)).await;
    let second = first.with_target(TargetSessionAttrs::Any).unwrap();
    filled(&second).await;
    let cluster = first.cluster().clone();
    first.close(seconds(5)).await;
    drop(first);
    cluster.connect().await.expect("the cluster goes on");

    second.close(seconds(5)).await;
    assert!(matches!(cluster.connect().await, Err(Error::Closed)));
    assert!(matches!(
        second.with_target(TargetSessionAttrs::Any),
        Err(Error::Closed)
    ));
    drop((second, cluster));
    within("nothing is left running", seconds(5), || tasks() == before).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_the_application_outlives_its_pools_and_lives_as_long_as_one_is_held() {
    let before = tasks();
    let sim = three().build();
    let cluster = cluster(&sim, abc()).await;
    let pool = Pool::start_on(&cluster, sized(3)).unwrap();
    filled(&pool).await;
    pool.close(seconds(5)).await;
    drop(pool);
    drop(cluster.connect().await.expect("the cluster goes on"));

    let pool = Pool::start_on(&cluster, sized(3)).unwrap();
    drop(cluster);
    filled(&pool).await;
    drop(pool.get().await.expect("a pool holds its cluster"));
    drop(pool);
    within("nothing is left running", seconds(5), || tasks() == before).await;
    assert_eq!(sim.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_pool_is_put_on_a_cluster_that_is_stopped() {
    let sim = three().build();
    let cluster = cluster(&sim, abc()).await;
    cluster.stop();
    assert!(matches!(Pool::start_on(&cluster, abc()), Err(Error::Closed)));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_pool_to_fill_ends_when_that_pool_is_closed() {
    let sim = three().build();
    sim.servers().iter().for_each(blackhole);
    let first = start(&sim, sized(3));
    let second = first.with_target(TargetSessionAttrs::Any).unwrap();
    let waiting = tokio::spawn({
        let first = first.clone();
        async move { first.ready(1, seconds(60)).await }
    });
    pass(millis(100)).await;
    first.close(seconds(1)).await;
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
    assert!(!second.is_closed());
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_the_cluster_must_be_the_same_for_each_pool_on_it() {
    type Change = fn(Config) -> Config;
    let others: [(&str, Change); 22] = [
        ("hosts", |config| config.hosts(["a", "b"])),
        ("user", |config| config.user("other")),
        ("password", |config| config.password("other-secret")),
        ("database", |config| config.database("other")),
        ("application_name", |config| config.application_name("other")),
        ("options", |config| config.options("-c geqo=off")),
        ("statement_timeout", |config| config.statement_timeout(seconds(1))),
        ("connect_timeout", |config| config.connect_timeout(seconds(1))),
        ("keepalives", |config| config.keepalives(false)),
        ("tcp_user_timeout", |config| config.tcp_user_timeout(seconds(1))),
        ("load_balance", |config| {
            config.load_balance(LoadBalance::PreferPrimary)
        }),
        ("topology_keys", |config| config.topology_keys(NEAR_A)),
        ("fallback_to_topology_keys_only", |config| {
            config.fallback_to_topology_keys_only(true)
        }),
        ("yb_servers_refresh_interval", |config| {
            config.yb_servers_refresh_interval(seconds(1))
        }),
        ("failed_host_reconnect_delay_secs", |config| {
            config.failed_host_reconnect_delay_secs(7)
        }),
        ("failed_host_max_delay_secs", |config| {
            config.failed_host_max_delay_secs(9)
        }),
        ("role_ttl", |config| config.role_ttl(seconds(1))),
        ("load_balance_hosts", |config| {
            config.load_balance_hosts(HostOrder::Random)
        }),
        ("connect_race_delay", |config| {
            config.connect_race_delay(seconds(1))
        }),
        ("drain_stale_addresses", |config| {
            config.drain_stale_addresses(false)
        }),
        ("sslmode", |config| config.ssl_mode(SslMode::Allow)),
        ("the other ssl options", |config| config.ssl_server_name("other")),
    ];
    let sim = three().build();
    let cluster = cluster(&sim, abc().password("s3cret")).await;
    for (option, change) in others {
        match Pool::start_on(&cluster, change(abc().password("s3cret"))) {
            Err(Error::Config(error)) => {
                assert!(
                    matches!(&*error, ConfigError::InvalidOption { name, .. } if *name == option),
                    "{option}: {error}"
                );
                assert!(!error.to_string().contains("secret"), "{error}");
            }
            other => panic!("{option}: {:?}", other.map(drop)),
        }
    }
    let own = abc()
        .password("s3cret")
        .pool_size(2)
        .min_idle(1)
        .max_lifetime(seconds(60))
        .checkout_timeout(millis(700))
        .rebalance_interval(seconds(9))
        .target_session_attrs(TargetSessionAttrs::PreferStandby);
    let pool = Pool::start_on(&cluster, own).expect("the rest is the pool's own");
    let _held: [Conn; 2] = [pool.get().await.unwrap(), pool.get().await.unwrap()];
    let (refused, waited) = timed(pool.get()).await;
    assert!(matches!(refused, Err(Error::CheckoutTimeout(_))));
    assert_eq!(waited, millis(700));
}

#[tokio::test(start_paused = true)]
async fn a_pool_dropped_in_the_middle_of_an_open_leaves_no_reservation_with_the_cluster() {
    let sim = three().build();
    let cluster = cluster(&sim, abc()).await;
    sim.servers().iter().for_each(blackhole);
    let pool = Pool::start_on(&cluster, sized(3)).unwrap();
    until("an open is under way", || !cluster.snapshot().pending.is_empty()).await;
    drop(pool);
    within("it is given up", seconds(1), || {
        cluster.snapshot().pending.is_empty()
    })
    .await;
    assert!(cluster.snapshot().failures.is_empty());
    assert_eq!(cluster.snapshot().counts.values().sum::<u32>(), 0);
}
