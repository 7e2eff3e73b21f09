//! The password of a configuration: none, a fixed one, or one that is asked for at each dial.
//!
//! Nothing here prints a secret; what a source's own error says is passed on as it is, so a source must keep secrets
//! out of its errors.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::error::REDACTED;
use super::passfile::PassFile;

/// Why a [`PasswordSource`] had no password to give. Its text is logged and shown, so it must not hold secrets.
pub type PasswordError = Box<dyn Error + Send + Sync>;

/// Gives the password for each new connection, for short-lived tokens and passwords that rotate.
///
/// It is asked once per attempt to open a connection, discovery's and probes' included, inside `connect_timeout`; the
/// future is dropped when that runs out. Nothing is cached here. Every closure
/// `Fn() -> impl Future<Output = Result<impl Into<Vec<u8>>, impl Into<PasswordError>>>` is one.
///
/// ```
/// use pgsteer::config::Config;
///
/// async fn token() -> Result<String, std::io::Error> {
///     tokio::fs::read_to_string("/run/secrets/db-token").await
/// }
///
/// let config = Config::new().host("db1").user("app").password_source(token);
/// # let _ = config;
/// ```
pub trait PasswordSource: Send + Sync + 'static {
    /// The password to log in with now: any bytes but NUL.
    ///
    /// # Errors
    ///
    /// Whatever kept the source from having one. The attempt fails with it, without sending anything to the server.
    fn password(&self) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, PasswordError>> + Send + '_>>;
}

impl<Ask, Answer, Secret, Failure> PasswordSource for Ask
where
    Ask: Fn() -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Secret, Failure>> + Send + 'static,
    Secret: Into<Vec<u8>>,
    Failure: Into<PasswordError>,
{
    fn password(&self) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, PasswordError>> + Send + '_>> {
        let answer = self();
        Box::pin(async move { answer.await.map(Into::into).map_err(Into::into) })
    }
}

/// How a connection gets its password.
#[derive(Clone, Default)]
pub(crate) enum Password {
    /// There is none; a server that asks for one refuses the login.
    #[default]
    None,
    /// Always this one. Any bytes but NUL, not necessarily UTF-8.
    Secret(Arc<[u8]>),
    /// Asked for at each dial.
    Source(Arc<dyn PasswordSource>),
    /// Still to be looked up, once hosts, user and database are known. No checked configuration has it.
    File(Arc<PassFile>),
}

impl Password {
    /// The password to log in with now, `None` if there is none.
    pub(crate) async fn ask(&self) -> Result<Option<Arc<[u8]>>, PasswordError> {
        match self {
            Password::None | Password::File(_) => Ok(None),
            Password::Secret(secret) => Ok(Some(Arc::clone(secret))),
            Password::Source(source) => source.password().await.map(|secret| Some(secret.into())),
        }
    }

    /// Whether both are the same secret, or one and the same source.
    pub(crate) fn is_same(&self, other: &Password) -> bool {
        match (self, other) {
            (Password::None, Password::None) => true,
            (Password::Secret(ours), Password::Secret(theirs)) => ours == theirs,
            (Password::Source(ours), Password::Source(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => false,
        }
    }

    /// Whether there is one that no environment and no file replaces.
    pub(super) fn is_given(&self) -> bool {
        matches!(self, Password::Secret(_) | Password::Source(_))
    }

    /// Whether there is one, fixed or asked for.
    pub(super) fn is_set(&self) -> bool {
        !matches!(self, Password::None)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { REDACTED } else { "none" })
    }
}
