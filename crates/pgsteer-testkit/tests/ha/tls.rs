//! Servers with TLS, as libpq sees them.

use pgsteer_testkit::{HaSet, Server, Tls, TlsFiles, Universe};

const WHO: &str = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";

/// Connection parameters that trust the set's authority.
fn verify(mode: &str, files: &TlsFiles) -> String {
    format!("sslmode={mode} sslrootcert={}", files.ca.display())
}

/// Asserts that a login is refused with these words.
#[track_caller]
fn assert_refused(server: &Server, parameters: &str, words: &str) {
    let refusal = server.libpq(parameters, WHO).unwrap_err();
    assert!(refusal.contains(words), "{parameters}: {refusal}");
}

#[test]
fn a_server_speaks_tls_only_if_told_to() {
    let universe = Universe::builder()
        .servers(2)
        .configure(0, |spec| spec.tls(Tls::new()))
        .start();
    let [with, without] = [0, 1].map(|index| universe.server(index));
    assert_eq!(with.libpq("sslmode=prefer", WHO).as_deref(), Ok("t"));
    assert_eq!(with.libpq("sslmode=disable", WHO).as_deref(), Ok("f"));
    assert_eq!(without.libpq("sslmode=prefer", WHO).as_deref(), Ok("f"));
    assert_refused(without, "sslmode=require", "server does not support SSL");
}

#[test]
fn each_node_has_its_own_certificate_and_keeps_it_when_it_rejoins() {
    let set = HaSet::builder()
        .standbys(1)
        .configure_all(|spec| spec.tls(Tls::new()))
        .start();
    let by_address = verify("verify-full", set.tls_files());
    for node in set.nodes() {
        assert_eq!(node.libpq(&by_address, WHO).as_deref(), Ok("t"));
        let by_name = format!("{by_address} host=localhost hostaddr={}", node.host());
        assert_eq!(node.libpq(&by_name, WHO).as_deref(), Ok("t"));
        let neighbour = format!("{by_address} host=127.0.0.9 hostaddr={}", node.host());
        assert_refused(node, &neighbour, "does not match host name");
    }
    set.promote(1);
    set.rejoin(0, 1);
    assert_eq!(set.node(0).libpq(&by_address, WHO).as_deref(), Ok("t"));
}

#[test]
fn certificates_can_be_wrong_in_each_way() {
    let set = HaSet::builder().standbys(0).start();
    let node = set.node(0);
    let full = verify("verify-full", set.tls_files());
    let ca = verify("verify-ca", set.tls_files());
    for (tls, parameters, words) in [
        (Tls::new().expired(), &ca, "certificate verify failed"),
        (Tls::new().another_authority(), &ca, "certificate verify failed"),
        (Tls::new().names(["other.test"]), &full, "for \"other.test\""),
        (Tls::new().names(["localhost"]), &full, "does not match host name"),
        (Tls::new().names([]), &full, "does not match host name"),
    ] {
        node.set_tls(tls);
        assert_refused(node, parameters, words);
        assert_eq!(node.libpq("sslmode=require", WHO).as_deref(), Ok("t"));
    }
    // libpq tells the server alone what it does not like about a certificate.
    let log = node.log();
    for alert in ["certificate expired", "unknown ca"] {
        assert!(
            log.lines().iter().any(|line| line.message.contains(alert)),
            "{alert}: {log:?}"
        );
    }
    node.set_tls(Tls::new().names(["other.test"]));
    assert_eq!(node.libpq(&ca, WHO).as_deref(), Ok("t"));
    node.set_tls(Tls::new());
    assert_eq!(node.libpq(&full, WHO).as_deref(), Ok("t"));
    node.set_tls(None);
    assert_refused(node, &full, "server does not support SSL");
}

#[test]
fn a_server_that_requires_tls_has_no_rule_for_plain_text() {
    let universe = Universe::builder()
        .servers(1)
        .configure(0, |spec| spec.tls(Tls::new().required()))
        .start();
    let server = universe.server(0);
    assert_refused(server, "sslmode=disable", "no encryption");
    assert_eq!(server.libpq("sslmode=require", WHO).as_deref(), Ok("t"));
}

#[test]
fn a_client_certificate_can_be_wanted_beside_the_password_or_instead_of_it() {
    let universe = Universe::builder()
        .servers(2)
        .configure(0, |spec| spec.tls(Tls::new().client_certificate()))
        .configure(1, |spec| spec.tls(Tls::new().client_certificate_only()))
        .start();
    let files = universe.tls_files();
    let full = verify("verify-full", files);
    let shown = |certificate: &std::path::Path, key: &std::path::Path| {
        format!(
            "{full} sslcert={} sslkey={}",
            certificate.display(),
            key.display()
        )
    };
    let good = shown(&files.client_certificate, &files.client_key);
    let other = shown(&files.other_client_certificate, &files.other_client_key);
    let nothing = format!("{full} sslcert=none");
    for server in universe.servers() {
        assert_eq!(server.libpq(&good, WHO).as_deref(), Ok("t"));
        assert_refused(server, &nothing, "valid client certificate");
        assert_refused(server, &other, "unknown ca");
        assert_refused(server, "sslmode=disable", "no encryption");
    }
    let wrong_password = format!("{good} password=wrong");
    assert_refused(
        universe.server(0),
        &wrong_password,
        "password authentication failed",
    );
    assert_eq!(universe.server(1).libpq(&wrong_password, WHO).as_deref(), Ok("t"));
}

#[test]
fn channel_binding_is_there_for_clients_that_require_it() {
    let universe = Universe::builder()
        .servers(2)
        .configure_all(|spec| spec.tls(Tls::new()))
        .configure(1, |spec| spec.auth("md5"))
        .start();
    let required = "sslmode=require channel_binding=require";
    assert_eq!(universe.server(0).libpq(required, WHO).as_deref(), Ok("t"));
    assert_refused(universe.server(1), required, "channel binding required");
    assert_refused(
        universe.server(0),
        "sslmode=disable channel_binding=require",
        "channel binding required",
    );
}
