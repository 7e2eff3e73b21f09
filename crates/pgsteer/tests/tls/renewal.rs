//! Certificates that are renewed on disk while a pool runs.

use std::fs;

use pgsteer::Pool;
use pgsteer_testkit::Tls;

use crate::log::logged;
use crate::rig::{LIMIT, config, one};

/// The authority changes on the server and in the client's file; connections that are there stay, new ones are checked
/// by what is in the file then. A file that cannot be used is told once, and the roots read before stay in use.
#[tokio::test(flavor = "multi_thread")]
async fn roots_renewed_on_disk_are_used_by_the_next_connection() {
    let universe = one(Tls::new()).await;
    let (server, files) = (universe.server(0), universe.tls_files());
    let path = files.ca.with_file_name("renewed ca.pem");
    fs::copy(&files.ca, &path).unwrap();
    let encoded = path.display().to_string().replace(' ', "%20");
    let options =
        format!("sslmode=verify-full&sslrootcert={encoded}&pool_size=1&failed_host_reconnect_delay_secs=1");
    let pool = Pool::start(config(&server.address(), &options)).unwrap();
    let first = pool.get().await.unwrap();

    server.set_tls(Tls::new().another_authority());
    fs::copy(&files.other_ca, &path).unwrap();
    first.simple_query("SELECT 1").await.unwrap();
    let _ = first
        .simple_query("SELECT pg_terminate_backend(pg_backend_pid())")
        .await;
    drop(first);
    let second = tokio::time::timeout(LIMIT, pool.get()).await.unwrap().unwrap();

    fs::write(&path, "nothing of use").unwrap();
    for _ in 0..3 {
        let cluster = pool.cluster();
        cluster
            .connect()
            .await
            .unwrap()
            .simple_query("SELECT 1")
            .await
            .unwrap();
    }
    let told = logged(&["WARN", "what was read before stays in use", "renewed ca.pem"]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("sslrootcert"), "{told:?}");
    drop(second);
    pool.close(LIMIT).await;
}
