//! TLS: whether a connection uses it, how it is begun, and how the stream then reaches tokio-postgres.
//!
//! The handshake is done here and not by tokio-postgres, so that it is under our deadline, its failures keep their
//! evidence, and the tap gets the clear side. Nothing here retries in clear text what failed with TLS.

#[cfg(feature = "tls")]
mod binding;
mod established;
#[cfg(feature = "tls")]
mod files;
#[cfg(feature = "tls")]
mod handshake;
mod request;
#[cfg(feature = "tls")]
mod stream;
#[cfg(feature = "tls")]
mod verify;
#[cfg(feature = "tls")]
mod words;

use pgsteer_core::host::HostKey;
use pgsteer_core::verdict::{Stage, may_want_tls};
use tokio_postgres::tls::ChannelBinding as Binding;

pub(super) use established::{Encrypted, Established};

use super::error::{Failure, Observed};
use super::limit::Limit;
use crate::config::{self, ChannelBinding, ConfigError, RootCerts, SslMode, SslNegotiation, TlsConnector};
use crate::error::shortened;
use crate::world::{Endpoint, Socket};
use request::{Answer, ask_for_tls};

/// What one attempt does about TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// Clear text.
    Never,
    /// TLS if the server offers it.
    IfOffered,
    /// TLS or nothing.
    Always,
}

/// A stream that the login can go over: clear text, on top of TLS or not.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: Socket,
    pub(super) encrypted: bool,
    /// To be given to tokio-postgres with the stream.
    pub(super) established: Established,
}

/// How connections of one configuration use TLS.
#[derive(Debug)]
pub(crate) struct Tls {
    mode: SslMode,
    direct: bool,
    channel_binding: ChannelBinding,
    server_name: Option<String>,
    means: Means,
}

/// What does the handshake.
#[derive(Debug)]
enum Means {
    /// Nothing can, or nothing may.
    None,
    #[cfg(feature = "tls")]
    Rustls(handshake::Rustls),
    Given(TlsConnector),
}

impl Tls {
    /// Reads and judges everything the options name. Blocks for as long as reading a few files takes.
    ///
    /// # Errors
    ///
    /// A certificate or key that cannot be used, by option and path; a mode that this build has no means for.
    pub(super) fn new(options: &config::Tls) -> Result<Self, ConfigError> {
        Ok(Tls {
            mode: options.mode,
            direct: options.negotiation == SslNegotiation::Direct,
            channel_binding: options.channel_binding,
            server_name: options.server_name.clone(),
            means: means(options)?,
        })
    }

    /// What the first attempt at an address does. Unix sockets never have TLS, whatever the mode: nobody stands between,
    /// and PostgreSQL does not offer it there.
    pub(super) fn first_demand(&self, endpoint: &Endpoint) -> Demand {
        if matches!(self.means, Means::None) || matches!(endpoint, Endpoint::Unix(_)) {
            return Demand::Never;
        }
        match self.mode {
            SslMode::Disable | SslMode::Allow => Demand::Never,
            SslMode::Prefer => Demand::IfOffered,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => Demand::Always,
        }
    }

    /// What to do instead at an address that refused the login in clear text, if there is something.
    pub(super) fn second_demand(&self, endpoint: &Endpoint, refused: &Failure) -> Option<Demand> {
        let may = self.mode == SslMode::Allow
            && !matches!(self.means, Means::None)
            && !matches!(endpoint, Endpoint::Unix(_))
            && matches!(&refused.observed, Observed::Server { sqlstate, .. } if may_want_tls(sqlstate));
        may.then_some(Demand::Always)
    }

    /// Whether a login must be bound to TLS.
    pub(super) fn channel_binding(&self) -> tokio_postgres::config::ChannelBinding {
        match self.channel_binding {
            ChannelBinding::Disable => tokio_postgres::config::ChannelBinding::Disable,
            ChannelBinding::Prefer => tokio_postgres::config::ChannelBinding::Prefer,
            ChannelBinding::Require => tokio_postgres::config::ChannelBinding::Require,
        }
    }

    /// Brings a socket that has just connected to where the login can begin.
    ///
    /// Cancel safe: the socket goes with the future.
    pub(super) async fn open(
        &self,
        mut socket: Socket,
        host: &HostKey,
        demand: Demand,
        limit: &Limit<'_>,
    ) -> Result<Link, Failure> {
        if demand == Demand::Never {
            return self.clear(socket, limit.endpoint);
        }
        if !self.direct {
            let asking = ask_for_tls(&mut socket);
            let answer = limit
                .hold(Stage::Connect, "did not answer the request for TLS", asking)
                .await??;
            match (answer, demand) {
                (Answer::Offered, _) => {}
                (Answer::NotOffered, Demand::Always) => return Err(self.not_offered(limit.endpoint)),
                (Answer::NotOffered, _) => return self.clear(socket, limit.endpoint),
            }
        }
        let handshake = self.handshake(socket, host, limit);
        let (socket, binding) = limit
            .hold(Stage::Tls, "did not finish the TLS handshake", handshake)
            .await??;
        Ok(Link {
            socket,
            encrypted: true,
            established: Established::new(binding),
        })
    }

    /// Goes on without TLS, if that is allowed.
    fn clear(&self, socket: Socket, endpoint: &Endpoint) -> Result<Link, Failure> {
        if self.channel_binding == ChannelBinding::Require {
            let text = "channel_binding=require needs TLS, and this connection would be in clear text";
            return Err(failed(endpoint, text));
        }
        Ok(Link {
            socket,
            encrypted: false,
            established: Established::new(Binding::none()),
        })
    }

    fn not_offered(&self, endpoint: &Endpoint) -> Failure {
        let text = format!(
            "the server does not offer TLS, and sslmode={} demands it: switch TLS on there (ssl = on) or choose \
             another sslmode",
            in_words(self.mode)
        );
        Failure {
            observed: Observed::TlsNotOffered,
            ..failed(endpoint, &text)
        }
    }

    async fn handshake(
        &self,
        socket: Socket,
        host: &HostKey,
        limit: &Limit<'_>,
    ) -> Result<(Socket, Binding), Failure> {
        let name = self.server_name.as_deref().unwrap_or(host.name());
        match &self.means {
            Means::None => Err(failed(limit.endpoint, "this build of pgsteer has no TLS")),
            #[cfg(feature = "tls")]
            Means::Rustls(rustls) => {
                let (stream, binding) = rustls.handshake(socket, name, limit.endpoint).await?;
                if binding.is_none() && self.channel_binding == ChannelBinding::Require {
                    let text = "channel_binding=require, but no channel binding is defined for how the server's \
                                certificate is signed";
                    return Err(failed(limit.endpoint, text));
                }
                let binding = binding.map_or_else(Binding::none, Binding::tls_server_end_point);
                Ok((Socket::other(stream), binding))
            }
            Means::Given(connector) => {
                let shaken = connector.connect(name, socket).await;
                shaken.map_err(|error| failed(limit.endpoint, &in_full(&*error)))
            }
        }
    }
}

/// What does the handshake by these options.
fn means(options: &config::Tls) -> Result<Means, ConfigError> {
    if options.mode == SslMode::Disable {
        return Ok(Means::None);
    }
    if let Some(connector) = &options.connector {
        let ours = [
            ("sslrootcert", options.roots != RootCerts::Unset),
            ("sslcert", options.client_cert.is_some()),
            ("sslkey", options.client_key.is_some()),
        ];
        return match ours.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(ConfigError::InvalidOption {
                name,
                value: "given".to_owned(),
                allowed: "nothing beside a TLS connector, which has certificates of its own",
            }),
            None => Ok(Means::Given(connector.clone())),
        };
    }
    #[cfg(feature = "tls")]
    return handshake::Rustls::new(options).map(Means::Rustls);
    #[cfg(not(feature = "tls"))]
    match options.mode {
        SslMode::Disable | SslMode::Allow | SslMode::Prefer => Ok(Means::None),
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => Err(ConfigError::InvalidOption {
            name: "sslmode",
            value: in_words(options.mode).to_owned(),
            allowed: "disable, allow or prefer: pgsteer is built without its feature tls, and no connector is given",
        }),
    }
}

/// Something was wrong with TLS at this address. Texts of servers and libraries may be of any length.
fn failed(endpoint: &Endpoint, text: &str) -> Failure {
    let text = format!("TLS with {endpoint}: {}", shortened(text));
    Failure::new(Stage::Tls, Observed::Tls, text)
}

/// What TLS has to say of a login that failed, if it is TLS that failed.
pub(super) fn blamed_for(error: &tokio_postgres::Error) -> Option<Failure> {
    #[cfg(feature = "tls")]
    return words::after_the_handshake(error);
    #[cfg(not(feature = "tls"))]
    {
        let _ = error;
        None
    }
}

/// A mode as it is written.
fn in_words(mode: SslMode) -> &'static str {
    match mode {
        SslMode::Disable => "disable",
        SslMode::Allow => "allow",
        SslMode::Prefer => "prefer",
        SslMode::Require => "require",
        SslMode::VerifyCa => "verify-ca",
        SslMode::VerifyFull => "verify-full",
    }
}

/// An error with everything behind it that it does not say itself.
fn in_full(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut behind = error.source();
    while let Some(error) = behind {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        behind = error.source();
    }
    text
}
