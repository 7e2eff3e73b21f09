//! TLS by a connector of the application's instead of pgsteer's own.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use pgsteer::tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use pgsteer::world::{BoxFuture, Socket};
use pgsteer_testkit::Tls;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::middle::connector;
use crate::rig::{config, encrypted_by, one};

/// Takes any certificate, and notes the names it was asked for.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<String>>>);

struct Connect(String);

struct Stream(tokio_rustls::client::TlsStream<Socket>);

impl MakeTlsConnect<Socket> for Noting {
    type Stream = Stream;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, name: &str) -> io::Result<Connect> {
        self.0.lock().unwrap().push(name.to_owned());
        Ok(Connect(name.to_owned()))
    }
}

impl TlsConnect<Socket> for Connect {
    type Stream = Stream;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Stream>>;

    fn connect(self, socket: Socket) -> Self::Future {
        let name = ServerName::try_from(self.0).unwrap();
        Box::pin(async move { connector().connect(name, socket).await.map(Stream) })
    }
}

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connector_that_is_given_does_the_handshake() {
    let universe = one(Tls::new().required()).await;
    let server = universe.server(0);
    for (options, name) in [
        ("sslmode=require", server.host()),
        ("sslmode=require&ssl_server_name=db.test", "db.test"),
    ] {
        let noting = Noting::default();
        let config = config(&server.address(), options).tls_connector(noting.clone());
        assert!(encrypted_by(config).await.unwrap(), "{options}");
        assert_eq!(*noting.0.lock().unwrap(), [name], "{options}");
    }
}
