//! Servers that want a certificate of their clients.

use std::path::Path;

use pgsteer::Error;
use pgsteer_testkit::{Tls, Universe};

use crate::rig::{assert_failed, config, encrypted_by, rig, trusting};

/// Covers: E-061
#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_is_shown_where_it_is_wanted() {
    let universe = rig(Universe::builder()
        .servers(2)
        .configure(0, |spec| spec.tls(Tls::new().client_certificate()))
        .configure(1, |spec| spec.tls(Tls::new().client_certificate_only())))
    .await;
    let files = universe.tls_files();
    let shown = |certificate: &Path, key: &Path| {
        let full = trusting(&universe, "verify-full");
        format!(
            "{full}&sslcert={}&sslkey={}",
            certificate.display(),
            key.display()
        )
    };
    let good = shown(&files.client_certificate, &files.client_key);
    let other = shown(&files.other_client_certificate, &files.other_client_key);
    for server in universe.servers() {
        let by = |options: &str| encrypted_by(config(&server.address(), options));
        assert!(by(&good).await.unwrap());
        let none = by(&trusting(&universe, "verify-full")).await;
        assert!(matches!(none, Err(Error::Login(_))), "{none:?}");
        assert_failed("none", none, "valid client certificate");
        assert_failed(
            "another CA's",
            by(&other).await,
            "does not take the client's certificate",
        );
    }
}

/// A key that is not the certificate's is found out when the pool starts, not when it connects.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_does_not_fit_is_an_error_of_the_configuration() {
    let universe = rig(Universe::builder().servers(1)).await;
    let files = universe.tls_files();
    let options = format!(
        "sslmode=require&sslcert={}&sslkey={}",
        files.client_certificate.display(),
        files.other_client_key.display()
    );
    let error = pgsteer::Pool::start(config(&universe.addresses(), &options))
        .err()
        .unwrap();
    let text = error.to_string();
    assert!(matches!(error, Error::Config(_)), "{text}");
    assert!(
        text.contains("sslkey") && text.contains(&files.other_client_key.display().to_string()),
        "{text}"
    );
}
