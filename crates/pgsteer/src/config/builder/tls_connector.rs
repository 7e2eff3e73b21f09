//! TLS by something else than rustls: any connector made for tokio-postgres, behind one type.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

use crate::config::Config;
use crate::world::{BoxFuture, Socket};

/// What a connector fails with.
type ConnectorError = Box<dyn Error + Send + Sync>;

impl Config {
    /// Does TLS with this connector instead of rustls, with or without the feature `tls`. Default: rustls.
    ///
    /// Any connector that tokio-postgres takes: one on OpenSSL, on the operating system's own TLS, or on rustls with
    /// another provider of cryptography (for FIPS, say). pgsteer still decides by `sslmode` and `sslnegotiation` whether
    /// and how TLS is begun, within `connect_timeout`, and passes the name to check: the host dialled, or the server
    /// name set. Everything else is the connector's: what of a certificate is checked, whatever `sslmode` says (every
    /// mode from `require` on means only that there is TLS), client certificates, and the ALPN protocol `postgresql`
    /// that direct negotiation needs. `sslrootcert`, `sslcert` and `sslkey` beside it are an error. It is cloned for
    /// each connection.
    #[must_use]
    pub fn tls_connector<M>(mut self, connector: M) -> Self
    where
        M: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        M::Stream: Send + 'static,
        M::TlsConnect: Send,
        <M::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        self.tls.connector = Some(TlsConnector(Arc::new(connector)));
        self
    }
}

/// A connector, whatever its type. Clone is cheap.
#[derive(Clone)]
pub(crate) struct TlsConnector(Arc<dyn Connect>);

impl TlsConnector {
    /// Does the handshake for a server of this name: the clear side, and what the login may be bound to.
    pub(crate) async fn connect(
        &self,
        name: &str,
        socket: Socket,
    ) -> Result<(Socket, ChannelBinding), ConnectorError> {
        self.0.connect(name, socket).await
    }
}

/// The same connector, not one like it: what is in it is not to be seen.
impl PartialEq for TlsConnector {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TlsConnector {}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConnector")
    }
}

/// [`MakeTlsConnect`] in a form that can be a trait object.
trait Connect: Send + Sync {
    fn connect<'a>(
        &'a self,
        name: &'a str,
        socket: Socket,
    ) -> BoxFuture<'a, Result<(Socket, ChannelBinding), ConnectorError>>;
}

impl<M> Connect for M
where
    M: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    M::Stream: Send + 'static,
    M::TlsConnect: Send,
    <M::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    fn connect<'a>(
        &'a self,
        name: &'a str,
        socket: Socket,
    ) -> BoxFuture<'a, Result<(Socket, ChannelBinding), ConnectorError>> {
        Box::pin(async move {
            let handshake = connecting(self.clone(), name, socket)?;
            let stream = handshake.await?;
            let binding = stream.channel_binding();
            Ok((Socket::other(stream), binding))
        })
    }
}

/// The handshake as a future; apart, so that the connector itself is not held across it.
fn connecting<M>(
    mut connector: M,
    name: &str,
    socket: Socket,
) -> Result<impl Future<Output = Result<M::Stream, ConnectorError>> + Send + use<M>, ConnectorError>
where
    M: MakeTlsConnect<Socket>,
    <M::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let handshake = connector
        .make_tls_connect(name)
        .map_err(Into::into)?
        .connect(socket);
    Ok(async move { handshake.await.map_err(Into::into) })
}
