//! What of a server's certificate is checked, by mode, name and roots; and in which words it is told.

use pgsteer_core::hosts::FailureKind;
use rcgen::date_time_ymd;

use super::*;

const REJECTED: HostEffect = HostEffect::Failed(FailureKind::Rejected);

/// Dials a server with this certificate by this name, which is at 127.0.0.1. It refuses the login over TLS, so a
/// handshake that succeeds ends as a refused login.
async fn dial_as(name: &str, server: &Certified, settings: Settings) -> DialError {
    let world = Scripted::default();
    world
        .name("localhost", &["127.0.0.1"])
        .host("127.0.0.1:5432", refuses_over_tls(server.server()));
    world
        .dialler_by(settings)
        .dial(&HostKey::new(name, 5432), Purpose::Pool, Ask::default())
        .await
        .unwrap_err()
}

/// Asserts that the handshake succeeded (no words) or failed with all of these.
fn assert_outcome(case: &str, error: &DialError, words: &[&str]) {
    if words.is_empty() {
        assert_eq!(error.sqlstate(), Some("28P01"), "{case}: {error}");
        return;
    }
    assert_eq!(
        (error.stage(), error.evidence(), error.host_effect()),
        (Stage::Tls, Evidence::Tls, REJECTED),
        "{case}: {error}"
    );
    let text = error.to_string();
    assert!(words.iter().all(|&word| text.contains(word)), "{case}: {error}");
}

/// Covers: E-333, E-334, E-335, E-337, E-338
#[tokio::test(start_paused = true)]
async fn the_certificate_must_be_for_the_host_dialled_or_the_name_set() {
    let ca = Authority::new("ours");
    let full = SslMode::VerifyFull;
    /// Dialled, names in the certificate, mode, name set, words of the failure if it is one.
    type Case<'a> = (&'a str, &'a [&'a str], SslMode, Option<&'a str>, &'a [&'a str]);
    let cases: [Case<'_>; 11] = [
        ("localhost", &["localhost"], full, None, &[]),
        (
            "127.0.0.1",
            &["localhost"],
            full,
            None,
            &["not for 127.0.0.1, but for localhost"],
        ),
        ("127.0.0.1", &["127.0.0.1"], full, None, &[]),
        (
            "localhost",
            &["127.0.0.1"],
            full,
            None,
            &["not for localhost, but for 127.0.0.1"],
        ),
        (
            "localhost",
            &["db.test", "*.db.test", "localhost"],
            full,
            None,
            &[],
        ),
        (
            "localhost",
            &["localhost"],
            full,
            Some("db.test"),
            &["not for db.test, but for localhost"],
        ),
        ("localhost", &["db.test"], full, Some("db.test"), &[]),
        ("127.0.0.1", &["db.test"], full, Some("db.test"), &[]),
        ("127.0.0.1", &["localhost"], SslMode::VerifyCa, None, &[]),
        (
            "localhost",
            &["localhost"],
            SslMode::VerifyCa,
            Some("db.test"),
            &[],
        ),
        (
            "localhost",
            &[],
            full,
            None,
            &["not for localhost, but for no name at all"],
        ),
    ];
    for (dialled, names, mode, server_name, words) in cases {
        let case = format!("{dialled} {names:?} {mode:?} {server_name:?}");
        let mut settings = with_tls(mode, trusting(&ca));
        settings.tls.server_name = server_name.map(str::to_owned);
        let error = dial_as(dialled, &ca.signs(names), settings).await;
        assert_outcome(&case, &error, words);
    }
}

/// Covers: E-339
#[tokio::test(start_paused = true)]
async fn a_certificate_of_another_ca_fails_whatever_the_name() {
    let (ours, theirs, namesake) = (
        Authority::new("ours"),
        Authority::new("theirs"),
        Authority::new("ours"),
    );
    let good = theirs.signs(&["localhost", "127.0.0.1", "db.test"]);
    let imitated = namesake.signs(&["localhost", "127.0.0.1", "db.test"]);
    for mode in [
        SslMode::Prefer,
        SslMode::Require,
        SslMode::VerifyCa,
        SslMode::VerifyFull,
    ] {
        for (name, server_name) in [
            ("localhost", None),
            ("127.0.0.1", None),
            ("localhost", Some("db.test")),
        ] {
            for (server, words) in [
                (&good, "the CA that signed the server's certificate is not known"),
                (&imitated, "not signed by the CA of that name"),
            ] {
                let mut settings = with_tls(mode, trusting(&ours));
                settings.tls.server_name = server_name.map(str::to_owned);
                let error = dial_as(name, server, settings).await;
                assert_outcome(
                    &format!("{mode:?} {name} {server_name:?}"),
                    &error,
                    &[words, "sslrootcert"],
                );
            }
        }
    }
}

/// Covers: E-060, E-062
#[tokio::test(start_paused = true)]
async fn without_roots_given_a_certificate_is_checked_only_where_the_mode_says_so() {
    let ca = Authority::new("nobody's");
    let server = ca.signs(&["elsewhere"]);
    for (mode, words) in [
        (SslMode::Prefer, &[][..]),
        (SslMode::Require, &[]),
        (SslMode::VerifyCa, &["the operating system's trust store"]),
        (SslMode::VerifyFull, &["the operating system's trust store"]),
    ] {
        let error = dial_as("localhost", &server, with_tls(mode, |_| ())).await;
        assert_outcome(&format!("{mode:?}"), &error, words);
    }
    let settings = with_tls(SslMode::Require, |tls| tls.roots = RootCerts::System);
    let error = dial_as("localhost", &server, settings).await;
    assert_outcome("require, system", &error, &["the operating system's trust store"]);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_out_of_its_time_is_told_with_its_date() {
    let ca = Authority::new("ours");
    let expired = ca.signs_as(&["localhost"], |wanted| {
        wanted.not_before = date_time_ymd(2019, 1, 1);
        wanted.not_after = date_time_ymd(2021, 2, 3);
    });
    let to_come = ca.signs_as(&["localhost"], |wanted| {
        wanted.not_before = date_time_ymd(2990, 1, 1);
        wanted.not_after = date_time_ymd(2999, 1, 1);
    });
    for mode in [SslMode::Prefer, SslMode::VerifyCa, SslMode::VerifyFull] {
        let error = dial_as("localhost", &expired, with_tls(mode, trusting(&ca))).await;
        assert_outcome(
            "expired",
            &error,
            &["expired at 2021-02-03T00:00:00Z", "days ago", "renew"],
        );
        let error = dial_as("localhost", &to_come, with_tls(mode, trusting(&ca))).await;
        assert_outcome(
            "to come",
            &error,
            &["valid only from 2990-01-01T00:00:00Z on", "clock"],
        );
        // Nothing is checked if no root is given and the mode does not ask for it.
        if mode == SslMode::Prefer {
            let error = dial_as("localhost", &expired, with_tls(mode, |_| ())).await;
            assert_outcome("unchecked", &error, &[]);
        }
    }
}

/// OpenSSL makes self-signed certificates that say they are a CA's, and takes them as a server's own if they are given
/// as root.
#[tokio::test(start_paused = true)]
async fn a_servers_own_certificate_may_be_given_as_its_root() {
    let own = |until| {
        let key = KeyPair::generate().unwrap();
        let mut wanted = CertificateParams::new(["localhost".to_owned()]).unwrap();
        wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        wanted.not_after = date_time_ymd(until, 1, 1);
        let certificate = wanted.self_signed(&key).unwrap();
        Certified {
            der: certificate.der().clone(),
            pem: certificate.pem(),
            key,
        }
    };
    let given = |server: &Certified| {
        let roots = RootCerts::Given(Pem::Bytes(server.pem.clone().into_bytes().into()));
        with_tls(SslMode::VerifyFull, |tls| tls.roots = roots)
    };
    let (good, expired, another) = (own(2990), own(2021), own(2990));
    for (case, name, server, settings, words) in [
        ("itself", "localhost", &good, given(&good), &[][..]),
        (
            "by address",
            "127.0.0.1",
            &good,
            given(&good),
            &["not for 127.0.0.1, but for localhost"],
        ),
        (
            "expired",
            "localhost",
            &expired,
            given(&expired),
            &["expired at 2021-01-01"],
        ),
        (
            "another",
            "localhost",
            &another,
            given(&good),
            &["certificate of a CA as its own", "sslrootcert"],
        ),
    ] {
        assert_outcome(case, &dial_as(name, server, settings).await, words);
    }
}

#[tokio::test(start_paused = true)]
async fn a_chain_may_lead_over_intermediates_the_server_sends() {
    let root = Authority::new("root");
    let mut wanted = CertificateParams::new([]).unwrap();
    wanted.distinguished_name.push(DnType::CommonName, "between");
    wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let between = CertifiedIssuer::signed_by(wanted, KeyPair::generate().unwrap(), &root.0).unwrap();
    let (sent, between) = (between.der().clone(), Authority(between));
    let server = between.signs(&["db"]);
    for (chain, complete) in [
        (vec![server.der.clone(), sent], true),
        (vec![server.der.clone()], false),
    ] {
        let config = server_side()
            .with_no_client_auth()
            .with_single_cert(chain, server.key_der())
            .unwrap();
        let settings = with_tls(SslMode::VerifyFull, trusting(&root));
        let dialled = dial_by(accepts_over_tls(config), settings).await;
        assert_eq!(dialled.is_ok(), complete, "{:?}", dialled.err());
    }
}

/// The name a server is told (SNI), by what is dialled.
#[tokio::test(start_paused = true)]
async fn the_server_is_told_the_name_dialled_but_never_an_address() {
    let ca = Authority::new("ours");
    let server = ca.signs(&["db", "db.test", "10.0.0.1"]);
    let by_name = HostKey::new("db", 5432);
    let by_address = HostKey::new("10.0.0.1", 5432);
    let cases = [
        (by_name.clone(), None, Some("db")),
        (by_name.clone().at("10.0.0.1".parse().unwrap()), None, Some("db")),
        (by_address.clone(), None, None),
        (by_address, Some("db.test"), Some("db.test")),
        (by_name, Some("db.test"), Some("db.test")),
    ];
    for (host, server_name, told) in cases {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let serve = {
            let heard = Arc::clone(&heard);
            move |mut peer: TlsPeer| {
                let name = peer.stream.get_ref().1.server_name().map(str::to_owned);
                heard.lock().unwrap().push(name);
                async move { peer.accept().await }
            }
        };
        let mut settings = with_tls(SslMode::VerifyFull, trusting(&ca));
        settings.tls.server_name = server_name.map(str::to_owned);
        let world = Scripted::with(serves_tls(server.server(), serve));
        world
            .dialler_by(settings)
            .dial(&host, Purpose::Pool, Ask::default())
            .await
            .unwrap();
        assert_eq!(
            *heard.lock().unwrap(),
            [told.map(str::to_owned)],
            "{host} {server_name:?}"
        );
    }
}

/// An address given with the name is dialled instead of the name's own, and the name is still what is checked.
#[tokio::test(start_paused = true)]
async fn a_name_with_an_address_of_its_own_is_checked_and_not_looked_up() {
    let ca = Authority::new("ours");
    for (names, words) in [
        (&["db.test"][..], &[][..]),
        (&["10.0.0.1"], &["not for db.test, but for 10.0.0.1"]),
    ] {
        let world = Scripted::with(refuses_over_tls(ca.signs(names).server()));
        let error = world
            .dialler_by(with_tls(SslMode::VerifyFull, trusting(&ca)))
            .dial(
                &HostKey::new("db.test", 5432).at("10.0.0.1".parse().unwrap()),
                Purpose::Pool,
                Ask::default(),
            )
            .await
            .unwrap_err();
        assert_outcome("hostaddr", &error, words);
        assert_eq!(world.dialled(), ["10.0.0.1:5432"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_no_certificate_can_have_matters_only_where_names_are_checked() {
    let ca = Authority::new("ours");
    for (mode, words) in [
        (SslMode::VerifyCa, &[][..]),
        (
            SslMode::VerifyFull,
            &["no certificate can be for the name `no..name`"],
        ),
    ] {
        let world = Scripted::default();
        world
            .name("no..name", &["10.0.0.1"])
            .host("10.0.0.1:5432", refuses_over_tls(ca.signs(&["db"]).server()));
        let error = world
            .dialler_by(with_tls(mode, trusting(&ca)))
            .dial(&HostKey::new("no..name", 5432), Purpose::Pool, Ask::default())
            .await
            .unwrap_err();
        assert_outcome(&format!("{mode:?}"), &error, words);
    }
}

/// Covers: E-157
#[tokio::test(start_paused = true)]
async fn every_purpose_is_checked_alike() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let bad = [
        ("another CA", theirs.signs(&["db"]), "is not known"),
        (
            "another name",
            ours.signs(&["elsewhere"]),
            "not for db, but for elsewhere",
        ),
        (
            "expired",
            ours.signs_as(&["db"], |wanted| wanted.not_after = date_time_ymd(2021, 1, 1)),
            "expired at 2021-01-01",
        ),
    ];
    for purpose in [
        Purpose::Pool,
        Purpose::Cluster,
        Purpose::Discovery,
        Purpose::Probe,
    ] {
        for (case, server, words) in &bad {
            let error = Scripted::with(accepts_over_tls(server.server()))
                .dialler_by(with_tls(SslMode::VerifyFull, trusting(&ours)))
                .dial(&db(), purpose, Ask::default())
                .await
                .unwrap_err();
            assert_outcome(&format!("{purpose:?}: {case}"), &error, &[words]);
        }
        Scripted::with(accepts_over_tls(ours.signs(&["db"]).server()))
            .dialler_by(with_tls(SslMode::VerifyFull, trusting(&ours)))
            .dial(&db(), purpose, Ask::default())
            .await
            .unwrap();
    }
}
