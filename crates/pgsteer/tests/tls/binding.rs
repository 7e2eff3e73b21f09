//! Channel binding with a real server's SCRAM-SHA-256-PLUS.

use pgsteer_testkit::{Tls, Universe};

use crate::middle::stand_before;
use crate::rig::{assert_failed, config, encrypted, encrypted_by, one, rig};

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_bound_where_the_server_can_and_required_to_be_where_that_is_asked() {
    let universe = rig(Universe::builder()
        .servers(2)
        .configure_all(|spec| spec.tls(Tls::new()))
        .configure(1, |spec| spec.auth("md5")))
    .await;
    let [scram, md5] = [0, 1].map(|index| universe.server(index).address());
    for binding in ["disable", "prefer", "require"] {
        let options = format!("sslmode=require&channel_binding={binding}");
        assert!(encrypted_by(config(&scram, &options)).await.unwrap(), "{binding}");
        let by_md5 = encrypted_by(config(&md5, &options)).await;
        match binding {
            "require" => assert_failed("MD5", by_md5, "did not use channel binding"),
            _ => assert!(by_md5.unwrap(), "{binding}"),
        }
    }
}

/// The man in the middle shows another certificate than the server has. Nothing is checked of it, and still a login that
/// is bound to the certificate does not get through him.
#[tokio::test(flavor = "multi_thread")]
async fn a_bound_login_does_not_get_through_a_man_in_the_middle() {
    let universe = one(Tls::new()).await;
    let middle = stand_before(universe.server(0).address()).await.to_string();
    for (binding, words) in [
        ("disable", None),
        ("prefer", Some("28000")),
        ("require", Some("28000")),
    ] {
        let options = format!("sslmode=require&channel_binding={binding}");
        let outcome = encrypted_by(config(&middle, &options)).await;
        match words {
            None => assert!(outcome.expect("the man in the middle passes on what is not bound")),
            Some(words) => assert_failed(binding, outcome, words),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn required_binding_never_logs_in_in_clear_text() {
    let universe = one(None).await;
    let outcome = encrypted(&universe, "sslmode=prefer&channel_binding=require").await;
    assert_failed("no TLS", outcome, "channel_binding=require needs TLS");
}
