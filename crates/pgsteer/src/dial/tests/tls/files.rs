//! Certificates and keys from files: judged when the dialler is made, read again when they change.

use std::path::PathBuf;

use super::*;

/// Everything that can be wrong with a file, and the option and words it is told with.
#[test]
fn what_cannot_be_used_is_told_with_its_option_and_path() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let (client, other) = (ours.signs(&["app"]), theirs.signs(&["app"]));
    let key = client.key.serialize_pem();
    let secret = key.lines().nth(1).unwrap().to_owned();
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let older = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n\
                 -----END RSA PRIVATE KEY-----\n";
    let certificate = write("client.pem", &client.pem);
    let missing = folder.path().join("missing");
    let root = |path| (Some(path), None, None);
    let pair = |certificate, key| (None, certificate, key);
    let cases = [
        ("sslrootcert", root(missing.clone()), "missing"),
        (
            "sslrootcert",
            root(write("empty", "")),
            "no certificate in PEM form",
        ),
        (
            "sslrootcert",
            root(write("key-as-root", &key)),
            "no certificate in PEM form",
        ),
        (
            "sslrootcert",
            root(write("broken", &client.pem.replace("-----END", "---END"))),
            "not in PEM form",
        ),
        (
            "sslrootcert",
            root(write(
                "nonsense",
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            )),
            "no good",
        ),
        (
            "sslcert",
            pair(Some(missing.clone()), Some(write("key", &key))),
            "missing",
        ),
        (
            "sslcert",
            pair(None, Some(write("key", &key))),
            "needs its certificate",
        ),
        ("sslkey", pair(Some(certificate.clone()), None), "needs its key"),
        (
            "sslkey",
            pair(Some(certificate.clone()), Some(missing)),
            "missing",
        ),
        (
            "sslkey",
            pair(Some(certificate.clone()), Some(certificate.clone())),
            "no private key",
        ),
        (
            "sslkey",
            pair(Some(certificate.clone()), Some(write("encrypted", &encrypted))),
            "encrypted",
        ),
        (
            "sslkey",
            pair(Some(certificate.clone()), Some(write("older", older))),
            "encrypted",
        ),
        (
            "sslkey",
            pair(
                Some(certificate),
                Some(write("other-key", &other.key.serialize_pem())),
            ),
            "does not belong to the certificate",
        ),
    ];
    for (option, (roots, certificate, key), words) in cases {
        let named = roots
            .iter()
            .chain(&certificate)
            .chain(&key)
            .cloned()
            .collect::<Vec<_>>();
        let settings = with_tls(SslMode::Require, |tls| {
            if let Some(path) = roots {
                tls.roots = RootCerts::Given(Pem::File(path));
            }
            tls.client_cert = certificate.map(Pem::File);
            tls.client_key = key.map(Pem::File);
        });
        let error = Dialler::new(Arc::new(settings), Scripted::default().world())
            .err()
            .unwrap();
        let text = error.to_string();
        assert!(
            text.contains(option) && text.contains(words),
            "{option} {words}: {text}"
        );
        let given = matches!(words, "needs its certificate" | "needs its key");
        assert!(
            given || named.iter().any(|path| text.contains(&*path.to_string_lossy())),
            "{option} {words}: {text}"
        );
        assert!(!format!("{text} {error:?}").contains(&secret), "{text}");
    }
}

#[test]
fn files_are_not_touched_where_tls_is_switched_off() {
    let settings = with_tls(SslMode::Disable, |tls| {
        tls.roots = RootCerts::Given(Pem::File("/nonexistent/ca.pem".into()));
    });
    assert!(Dialler::new(Arc::new(settings), Scripted::default().world()).is_ok());
}

/// Roots that are renewed while a pool runs are used by its next connection; what cannot be used changes nothing.
#[tokio::test]
async fn files_are_read_again_when_they_change_and_kept_where_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let write = |authority: &Authority| std::fs::write(&path, authority.0.pem()).unwrap();
    write(&old);
    let world = Scripted::with(accepts_over_tls(new.signs(&["db"]).server()));
    let roots = RootCerts::Given(Pem::File(path.clone()));
    let dialler = world.dialler_by(with_tls(SslMode::VerifyFull, |tls| tls.roots = roots));
    let works = async || dialler.dial(&db(), Purpose::Pool, Ask::default()).await.is_ok();

    assert!(!works().await);
    write(&new);
    assert!(works().await);
    std::fs::write(&path, "half written").unwrap();
    assert!(works().await);
    std::fs::remove_file(&path).unwrap();
    assert!(works().await);
    write(&old);
    assert!(!works().await);
}

/// A renewal writes the certificate first and the key a moment later: in between they do not fit.
#[tokio::test]
async fn a_renewed_client_certificate_is_shown_once_its_key_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate_path, key_path) = (folder.path().join("client.pem"), folder.path().join("client.key"));
    let (ca, first_clients, later_clients) = (
        Authority::new("ours"),
        Authority::new("first"),
        Authority::new("later"),
    );
    let (first, later) = (first_clients.signs(&["app"]), later_clients.signs(&["app"]));
    std::fs::write(&certificate_path, &first.pem).unwrap();
    std::fs::write(&key_path, first.key.serialize_pem()).unwrap();
    let wants = |clients: &Authority| {
        let mut roots = RootCertStore::empty();
        roots.add(clients.0.der().clone()).unwrap();
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let server = ca.signs(&["db"]);
        let config = server_side()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![server.der.clone()], server.key_der());
        accepts_over_tls(config.unwrap())
    };
    let world = Scripted::with(wants(&first_clients));
    let dialler = world.dialler_by(with_tls(SslMode::VerifyFull, |tls| {
        trusting(&ca)(tls);
        tls.client_cert = Some(Pem::File(certificate_path.clone()));
        tls.client_key = Some(Pem::File(key_path.clone()));
    }));
    let works = async || dialler.dial(&db(), Purpose::Pool, Ask::default()).await.is_ok();

    assert!(works().await);
    std::fs::write(&certificate_path, &later.pem).unwrap();
    assert!(works().await, "the first certificate with its key is still shown");
    std::fs::write(&key_path, later.key.serialize_pem()).unwrap();
    assert!(!works().await, "the server takes only the first");
    world.host("10.0.0.1:5432", wants(&later_clients));
    assert!(works().await);
}
