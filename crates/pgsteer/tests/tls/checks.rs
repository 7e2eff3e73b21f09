//! What is checked of a real server's certificate, by pools, discovery and probes; and how it is logged.

use pgsteer::Pool;
use pgsteer_testkit::{Tls, Universe};

use crate::log::logged;
use crate::rig::{
    LIMIT, QUICK, assert_failed, becomes, config, encrypted, encrypted_by, key, one, rig, trusting,
};

/// The ways a certificate can be wrong, and the words for each.
fn wrong() -> [(&'static str, Option<Tls>, &'static str); 5] {
    [
        (
            "another CA",
            Some(Tls::new().another_authority()),
            "not signed by the CA of that name",
        ),
        (
            "expired",
            Some(Tls::new().expired()),
            "expired at 2021-01-01T00:00:00Z",
        ),
        (
            "another name",
            Some(Tls::new().names(["other.test"])),
            "but for other.test",
        ),
        (
            "only a name, not the address",
            Some(Tls::new().names(["localhost"])),
            "but for localhost",
        ),
        ("no TLS", None, "does not offer TLS"),
    ]
}

/// The server in the middle has it, its neighbours are good: it is left out with its reason, in one warning, while the
/// pool fills elsewhere; probes go on over TLS, and find it back when it is mended.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_wrong_certificate_is_rejected_until_a_probe_finds_it_mended() {
    let universe = rig(Universe::builder()
        .servers(3)
        .configure_all(|spec| spec.tls(Tls::new().required())))
    .await;
    let bad = key(universe.server(1));
    for (case, tls, words) in wrong() {
        universe.server(1).set_tls(tls);
        let options = format!(
            "pool_size=6&load_balance=any&{QUICK}&{}",
            trusting(&universe, "verify-full")
        );
        let pool = Pool::start(config(&universe.addresses(), &options)).unwrap();
        becomes(vec![bad.clone()], || pool.cluster().snapshot().rejected()).await;
        let counts = || -> Vec<u32> {
            let by_host = pool.status().by_host;
            let count = |server| by_host.get(&key(server)).copied().unwrap_or(0);
            universe.servers().iter().map(count).collect()
        };
        becomes(vec![3, 0, 3], counts).await;
        let failure = pool.cluster().snapshot().failures[&bad].clone();
        assert!(failure.reason.contains(words), "{case}: {}", failure.reason);
        let warnings = logged(&["WARN", &bad.to_string(), words]);
        assert_eq!(
            warnings.len(),
            1,
            "{case}: one for the run of failures: {warnings:?}"
        );

        universe.server(1).set_tls(Tls::new().required());
        becomes(vec![2, 2, 2], counts).await;
        assert!(pool.cluster().snapshot().failures.is_empty(), "{case}");
        pool.close(LIMIT).await;
    }
}

/// The only seed has a wrong certificate: discovery does not speak to it either.
#[tokio::test(flavor = "multi_thread")]
async fn discovery_asks_no_server_whose_certificate_is_wrong() {
    let universe = rig(Universe::builder()
        .servers(2)
        .configure_all(|spec| spec.tls(Tls::new())))
    .await;
    let seed = universe.server(0);
    let options = format!("load_balance=any&{QUICK}&{}", trusting(&universe, "verify-full"));
    for (case, tls, words) in wrong() {
        seed.set_tls(tls);
        let outcome = encrypted_by(config(&seed.address(), &options)).await;
        assert_failed(case, outcome, words);
    }
    seed.set_tls(Tls::new());
    let pool = Pool::start(config(&seed.address(), &format!("pool_size=2&{options}"))).unwrap();
    pool.ready(2, LIMIT).await.unwrap();
    let hosts: Vec<_> = pool.status().by_host.into_keys().collect();
    assert_eq!(hosts, [key(seed), key(universe.server(1))]);
    pool.close(LIMIT).await;
}

/// Covers: E-333, E-334, E-335, E-337, E-338
#[tokio::test(flavor = "multi_thread")]
async fn the_name_checked_is_the_host_dialled_or_the_one_set() {
    let universe = one(Tls::new()).await;
    let server = universe.server(0);
    let address = server.host();
    let by_name = |parameters: &str| {
        let options = format!(
            "hostaddr={address}&{}&{parameters}",
            trusting(&universe, "verify-full")
        );
        config(&format!("localhost:{}", server.port()), &options)
    };
    let by_address = |mode| config(&server.address(), &trusting(&universe, mode));
    let set = "ssl_server_name=db.test";

    server.set_tls(Tls::new().names(["localhost"]));
    assert!(encrypted_by(by_name("")).await.unwrap());
    assert_failed(
        "by address",
        encrypted_by(by_address("verify-full")).await,
        "but for localhost",
    );
    assert_failed(
        "name set",
        encrypted_by(by_name(set)).await,
        "not for db.test, but for localhost",
    );
    assert!(encrypted_by(by_address("verify-ca")).await.unwrap());

    server.set_tls(Tls::new().names([address]));
    assert!(encrypted_by(by_address("verify-full")).await.unwrap());
    assert_failed("by name", encrypted_by(by_name("")).await, "not for localhost");

    server.set_tls(Tls::new().names(["db.test"]));
    assert!(encrypted_by(by_name(set)).await.unwrap());
}

/// Covers: E-060, E-062, E-339
#[tokio::test(flavor = "multi_thread")]
async fn roots_that_are_given_are_checked_in_every_mode_that_begins_with_tls() {
    let universe = one(Tls::new()).await;
    let other = universe.tls_files().other_ca.display().to_string();
    for mode in ["prefer", "require", "verify-ca", "verify-full"] {
        let given = encrypted(&universe, &format!("sslmode={mode}&sslrootcert={other}")).await;
        assert_failed(mode, given, "not signed by the CA of that name");
    }
    for mode in ["prefer", "require"] {
        assert!(
            encrypted(&universe, &format!("sslmode={mode}")).await.unwrap(),
            "{mode}"
        );
    }
    let system = encrypted(&universe, "sslmode=verify-full").await;
    assert_failed("verify-full", system, "trust store");
}
