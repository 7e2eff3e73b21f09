//! Each sslmode against servers with and without TLS: whether the session is encrypted, clear or does not come about.

use super::*;

/// How a login reached the server.
type Reached = Arc<Mutex<Vec<&'static str>>>;

/// What a server does about TLS and about logins in clear text.
#[derive(Clone, Copy)]
struct Server {
    offers: bool,
    /// The code that a login in clear text is refused with.
    refuses_clear: Option<&'static str>,
    refuses_tls: Option<&'static str>,
}

const OPEN: Server = Server {
    offers: true,
    refuses_clear: None,
    refuses_tls: None,
};
const NONE: Server = Server {
    offers: false,
    ..OPEN
};

/// A server that is asked for TLS or gets a login at once, and notes what came.
fn server(server: Server, config: ServerConfig) -> (Host, Reached) {
    let reached = Reached::default();
    let config = Arc::new(config);
    let host = serves({
        let reached = Arc::clone(&reached);
        move |mut peer| {
            let (config, reached) = (Arc::clone(&config), Arc::clone(&reached));
            async move {
                let mut head = [0; 8];
                peer.stream.read_exact(&mut head).await.unwrap();
                let asked = head == [0, 0, 0, 8, 4, 210, 22, 47];
                if asked && server.offers {
                    peer.send(b"S").await;
                    let Ok(mut peer) = peer.handshake(&config).await else {
                        return;
                    };
                    peer.startup().await;
                    reached.lock().unwrap().push("tls");
                    answer(&mut peer, server.refuses_tls).await;
                    return;
                }
                if asked {
                    peer.send(b"N").await;
                    peer.startup().await;
                } else {
                    let length = u32::from_be_bytes(head[..4].try_into().unwrap());
                    let mut rest = vec![0; length as usize - 8];
                    peer.stream.read_exact(&mut rest).await.unwrap();
                }
                reached
                    .lock()
                    .unwrap()
                    .push(if asked { "clear after N" } else { "clear" });
                answer(&mut peer, server.refuses_clear).await;
            }
        }
    });
    (host, reached)
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(peer: &mut Peer<S>, refusal: Option<&str>) {
    match refusal {
        Some(code) => peer.send(&fatal(code)).await,
        None => peer.send(&[accepted(), ready(b'I')].concat()).await,
    }
    peer.end().await;
}

#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn each_mode_takes_what_it_allows_of_a_server_with_and_without_tls() {
    use SslMode::{Allow, Disable, Prefer, Require, VerifyCa, VerifyFull};
    let ca = Authority::new("ours");
    let only_tls = Server {
        refuses_clear: Some("28000"),
        ..OPEN
    };
    let only_tls_without = Server {
        refuses_clear: Some("28000"),
        ..NONE
    };
    let no_password = Server {
        refuses_clear: Some("28P01"),
        ..OPEN
    };
    let only_clear = Server {
        refuses_tls: Some("28000"),
        ..OPEN
    };
    let not_offered = "the server does not offer TLS";
    /// Mode, server, how the logins reached it, words of the failure if it is one.
    type Case<'a> = (SslMode, &'a str, Server, &'a [&'a str], Option<&'a str>);
    let cases: [Case<'_>; 21] = [
        (Disable, "offers", OPEN, &["clear"], None),
        (Disable, "has none", NONE, &["clear"], None),
        (Disable, "TLS only", only_tls, &["clear"], Some("28000")),
        (Allow, "offers", OPEN, &["clear"], None),
        (Allow, "has none", NONE, &["clear"], None),
        (Allow, "TLS only", only_tls, &["clear", "tls"], None),
        (
            Allow,
            "TLS only, but has none",
            only_tls_without,
            &["clear"],
            Some("28000"),
        ),
        (Allow, "wrong password", no_password, &["clear"], Some("28P01")),
        (Prefer, "offers", OPEN, &["tls"], None),
        (Prefer, "has none", NONE, &["clear after N"], None),
        (Prefer, "TLS only", only_tls, &["tls"], None),
        (Prefer, "clear only", only_clear, &["tls"], Some("28000")),
        (Require, "offers", OPEN, &["tls"], None),
        (Require, "has none", NONE, &[], Some(not_offered)),
        (Require, "TLS only", only_tls, &["tls"], None),
        (Require, "clear only", only_clear, &["tls"], Some("28000")),
        (VerifyCa, "offers", OPEN, &["tls"], None),
        (VerifyCa, "has none", NONE, &[], Some(not_offered)),
        (VerifyFull, "offers", OPEN, &["tls"], None),
        (VerifyFull, "has none", NONE, &[], Some(not_offered)),
        (VerifyFull, "clear only", only_clear, &["tls"], Some("28000")),
    ];
    for (mode, case, kind, expected, failure) in cases {
        let (host, reached) = server(kind, ca.signs(&["db"]).server());
        let dialled = dial_by(host, with_tls(mode, trusting(&ca))).await;
        let error = dialled.err().map(|error| error.to_string());
        assert_eq!(*reached.lock().unwrap(), expected, "{mode:?} {case}: {error:?}");
        match (&error, failure) {
            (None, None) => {}
            (Some(error), Some(words)) => assert!(error.contains(words), "{mode:?} {case}: {error}"),
            (error, _) => panic!("{mode:?} {case}: {error:?}"),
        }
    }
}

/// Covers: E-063, E-157
#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn a_server_without_tls_that_must_have_it_is_rejected() {
    let (host, _) = server(NONE, Authority::new("ours").signs(&["db"]).server());
    let error = dial_by(host, with_tls(SslMode::Require, |_| ()))
        .await
        .unwrap_err();
    assert_eq!((error.stage(), error.evidence()), (Stage::Tls, Evidence::Tls));
    assert!(error.to_string().contains("sslmode=require"), "{error}");
    let rejected = HostEffect::Failed(pgsteer_core::hosts::FailureKind::Rejected);
    assert_eq!(error.host_effect(), rejected);
}

/// Nothing is sent in clear text to a server whose certificate is wrong, in no mode that begins with TLS.
#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn a_failed_handshake_is_never_followed_by_clear_text() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    for mode in [
        SslMode::Prefer,
        SslMode::Require,
        SslMode::VerifyCa,
        SslMode::VerifyFull,
    ] {
        let (host, reached) = server(OPEN, theirs.signs(&["db"]).server());
        let world = Scripted::with(host);
        let error = world
            .dialler_by(with_tls(mode, trusting(&ours)))
            .dial(&db(), Purpose::Pool, Ask::default())
            .await
            .unwrap_err();
        assert_eq!(error.evidence(), Evidence::Tls, "{mode:?}");
        assert!(reached.lock().unwrap().is_empty(), "{mode:?}");
        assert_eq!(world.dialled().len(), 1, "{mode:?}");
    }
}

/// With `allow`, a certificate that fails after the refusal in clear text is what is told.
#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn allow_checks_the_certificate_of_its_second_try() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let kind = Server {
        refuses_clear: Some("28000"),
        ..OPEN
    };
    let (host, reached) = server(kind, theirs.signs(&["db"]).server());
    let error = dial_by(host, with_tls(SslMode::Allow, trusting(&ours)))
        .await
        .unwrap_err();
    assert_eq!(error.evidence(), Evidence::Tls);
    assert_eq!(*reached.lock().unwrap(), ["clear"]);
}

#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn over_a_unix_socket_there_is_never_tls() {
    let ca = Authority::new("ours");
    for mode in [
        SslMode::Allow,
        SslMode::Prefer,
        SslMode::Require,
        SslMode::VerifyFull,
    ] {
        let kind = Server {
            refuses_clear: (mode == SslMode::Allow).then_some("28000"),
            ..OPEN
        };
        let (host, reached) = server(kind, ca.signs(&["db"]).server());
        let world = Scripted::default();
        world.host("/run/pg/.s.PGSQL.5432", host);
        let dialled = world
            .dialler_by(with_tls(mode, trusting(&ca)))
            .dial(&HostKey::new("/run/pg", 5432), Purpose::Pool, Ask::default())
            .await;
        assert_eq!(dialled.is_ok(), mode != SslMode::Allow, "{mode:?}");
        assert_eq!(*reached.lock().unwrap(), ["clear"], "{mode:?}");
    }
}

#[cfg(not(feature = "tls"))]
#[tokio::test(start_paused = true)]
async fn a_build_without_tls_speaks_clear_text_and_refuses_to_promise_more() {
    let ca = Authority::new("ours");
    for mode in [SslMode::Disable, SslMode::Allow, SslMode::Prefer] {
        let (host, reached) = server(OPEN, ca.signs(&["db"]).server());
        dial_by(host, with_tls(mode, |_| ())).await.unwrap();
        assert_eq!(*reached.lock().unwrap(), ["clear"], "{mode:?}");
    }
    for mode in [SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull] {
        let settings = Arc::new(with_tls(mode, |_| ()));
        let error = Dialler::new(settings, Scripted::default().world()).err().unwrap();
        assert!(error.to_string().contains("feature tls"), "{mode:?}: {error}");
    }
}
