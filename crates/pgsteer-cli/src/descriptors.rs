//! How many descriptors the process may have open.

/// Raises the limit as far as the system lets an ordinary process raise it. Where it does not, the old one stays, and the
/// connection that meets it says so.
pub fn raise_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the limit on descriptors stays {:?}", limit.current);
        }
    }
}
