//! A promotion behind servers that take nothing but TLS.

use pgsteer::{Config, Pool};
use pgsteer_testkit::{HaSet, Tls};

use crate::log::record_log;
use crate::rig::{LIMIT, QUICK};

///
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_follows_the_primary_over_tls() {
    record_log();
    let set = HaSet::builder()
        .standbys(1)
        .configure_all(|spec| spec.tls(Tls::new().required()))
        .start();
    let options = format!(
        "target_session_attrs=read-write&sslmode=verify-full&sslrootcert={}&pool_size=2&checkout_timeout=1min&{QUICK}",
        set.tls_files().ca.display()
    );
    let config: Config = format!("{}?{options}", set.url()).parse().unwrap();
    let pool = Pool::start(config).unwrap();
    assert_eq!(writable_over_tls(&pool).await, set.node(0).address());
    set.node(0).kill();
    set.promote(1);
    assert_eq!(writable_over_tls(&pool).await, set.node(1).address());
    pool.close(LIMIT).await;
}

/// The address of the primary that a checkout gets to over TLS, once one does.
async fn writable_over_tls(pool: &Pool) -> String {
    let asks = "SELECT host(inet_server_addr()) || ':' || inet_server_port() FROM pg_stat_ssl \
                WHERE pid = pg_backend_pid() AND ssl AND NOT pg_is_in_recovery()";
    let asked = tokio::time::timeout(LIMIT, async {
        loop {
            let Ok(conn) = pool.get().await else { continue };
            if let Ok(row) = conn.query_one(asks, &[]).await {
                return row.get(0);
            }
        }
    });
    asked.await.unwrap()
}
