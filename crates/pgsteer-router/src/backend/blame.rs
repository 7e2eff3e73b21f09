//! Whose fault a dial is that came to nothing.

use std::io;

/// Whether a dial failed for want of something on this side: descriptors, memory, ports to dial from. That says nothing of
/// the backend, which is not left out for it.
pub(super) fn is_ours(error: &io::Error) -> bool {
    /// Too many open files, in the system and in the process. The same numbers on every Unix.
    const TOO_MANY_FILES: [i32; 2] = [23, 24];
    let files = cfg!(unix)
        && error
            .raw_os_error()
            .is_some_and(|code| TOO_MANY_FILES.contains(&code));
    files
        || matches!(
            error.kind(),
            io::ErrorKind::OutOfMemory | io::ErrorKind::AddrNotAvailable
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_here_is_not_the_backends_fault() {
        let table = [
            (io::Error::from_raw_os_error(24), cfg!(unix)),
            (io::Error::from_raw_os_error(23), cfg!(unix)),
            (io::ErrorKind::AddrNotAvailable.into(), true),
            (io::ErrorKind::OutOfMemory.into(), true),
            (io::ErrorKind::ConnectionRefused.into(), false),
            (io::ErrorKind::TimedOut.into(), false),
            (io::Error::other("the name has no address"), false),
        ];
        for (error, ours) in table {
            assert_eq!(is_ours(&error), ours, "{error}");
        }
    }
}
