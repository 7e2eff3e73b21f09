//! Password files as libpq has them: `host:port:database:user:password` per line, read only on request.
//!
//! The first line that fits a host gives its password. `*` fits everything; a backslash takes the next character as it
//! is; lines that begin with `#` and lines without all five parts are passed over. What is in the file is never printed.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pgsteer_core::host::HostKey;

use super::{Config, ConfigError, Password};

/// Socket directories that libpq is built with; in the file they are called `localhost`.
const SOCKET_DIRECTORIES: [&str; 3] = ["/tmp", "/var/run/postgresql", "/run/postgresql"];

impl Config {
    /// Takes the password from the user's own password file, unless one is given: `~/.pgpass`, on Windows
    /// `%APPDATA%\postgresql\pgpass.conf`. Without such a file nothing changes. `PGPASSFILE` is not looked at; that is done
    /// by [`with_environment`](Config::with_environment).
    ///
    /// See [`with_pgpass_file`](Config::with_pgpass_file).
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or others than its user may read or change it; also if the place of the user's files is
    /// not known.
    pub fn with_pgpass(self) -> Result<Self, ConfigError> {
        let path = own_file().ok_or_else(|| ConfigError::PasswordFile {
            path: PathBuf::from(".pgpass"),
            reason: "cannot be looked for: the environment does not say where the user's files are"
                .to_owned(),
        })?;
        match path.try_exists() {
            Ok(false) => Ok(self),
            _ => self.with_pgpass_file(path),
        }
    }

    /// Takes the password from a password file in libpq's format, unless one is given. The file is read now, blocking the
    /// thread; hosts, user and database it is looked up for are those the configuration has in the end.
    ///
    /// All configured hosts must find the same password, because one password is for all servers, those that discovery
    /// finds included. A fixed password or a source, given before or afterwards, and `PGPASSWORD` win.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or others than its user may read or change it. That the hosts find different passwords
    /// is an error of [`check`](Config::check).
    pub fn with_pgpass_file(mut self, path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        if !self.password.is_given() {
            self.password = Password::File(Arc::new(PassFile::read(path.as_ref())?));
        }
        Ok(self)
    }
}

#[cfg(not(windows))]
fn own_file() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(Path::new(&home).join(".pgpass"))
}

#[cfg(windows)]
fn own_file() -> Option<PathBuf> {
    let data = std::env::var_os("APPDATA").filter(|data| !data.is_empty())?;
    Some(Path::new(&data).join("postgresql").join("pgpass.conf"))
}

/// The lines of one file.
pub(crate) struct PassFile {
    path: PathBuf,
    lines: Vec<Line>,
}

struct Line {
    host: Part,
    port: Part,
    database: Part,
    user: Part,
    password: Arc<[u8]>,
}

enum Part {
    Any,
    Only(Vec<u8>),
}

impl Part {
    fn fits(&self, text: &str) -> bool {
        match self {
            Part::Any => true,
            Part::Only(expected) => expected == text.as_bytes(),
        }
    }
}

impl PassFile {
    fn read(path: &Path) -> Result<Self, ConfigError> {
        let failed = |reason: String| ConfigError::PasswordFile {
            path: path.to_owned(),
            reason,
        };
        let unreadable = |error: io::Error| failed(format!("cannot be read: {error}"));
        // The opened file is judged, so that it cannot be another one by the time it is read.
        let mut file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(failed("is no plain file".to_owned()));
        }
        if open_to_others(&metadata) {
            return Err(failed(
                "can be read or changed by others than its user; make it private first (chmod 0600)"
                    .to_owned(),
            ));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        Ok(PassFile {
            path: path.to_owned(),
            lines: bytes.split(|byte| *byte == b'\n').filter_map(line).collect(),
        })
    }

    /// The password these hosts have in common, `None` if none of them has one.
    pub(super) fn password(
        &self,
        hosts: &[HostKey],
        database: &str,
        user: &str,
    ) -> Result<Option<Arc<[u8]>>, ConfigError> {
        let mut found = hosts.iter().map(|host| self.find(host, database, user));
        let first = found.next().flatten();
        if found.any(|password| password != first) {
            return Err(ConfigError::PasswordFile {
                path: self.path.clone(),
                reason: "does not have one password for all hosts; give the password in another way, for example by a \
                         line with * for the host"
                    .to_owned(),
            });
        }
        Ok(first.filter(|password| !password.is_empty()).cloned())
    }

    fn find(&self, host: &HostKey, database: &str, user: &str) -> Option<&Arc<[u8]>> {
        let name = match host.name() {
            directory if SOCKET_DIRECTORIES.contains(&directory) => "localhost",
            name => name,
        };
        let port = host.port().to_string();
        let fits = |line: &&Line| {
            line.host.fits(name)
                && line.port.fits(&port)
                && line.database.fits(database)
                && line.user.fits(user)
        };
        self.lines.iter().find(fits).map(|line| &line.password)
    }
}

/// Neither what is in it nor how much.
impl fmt::Debug for PassFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

#[cfg(unix)]
fn open_to_others(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o077 != 0
}

/// Elsewhere the folder of the user's files is private.
#[cfg(not(unix))]
fn open_to_others(_: &std::fs::Metadata) -> bool {
    false
}

/// One line, `None` if it is a comment or has not all parts.
fn line(text: &[u8]) -> Option<Line> {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    if text.starts_with(b"#") {
        return None;
    }
    let mut rest = text;
    let mut parts = || {
        let (part, behind) = take_part(rest)?;
        rest = behind;
        Some(part)
    };
    let (host, port, database, user) = (parts()?, parts()?, parts()?, parts()?);
    let mut password = Vec::new();
    let mut bytes = rest.iter();
    while let Some(byte) = bytes.next() {
        let escaped = if *byte == b'\\' { bytes.next() } else { None };
        password.push(*escaped.unwrap_or(byte));
    }
    Some(Line {
        host,
        port,
        database,
        user,
        password: password.into(),
    })
}

/// The part before the next colon, and what follows it.
fn take_part(text: &[u8]) -> Option<(Part, &[u8])> {
    if let Some(behind) = text.strip_prefix(b"*:") {
        return Some((Part::Any, behind));
    }
    let mut part = Vec::new();
    let mut bytes = text.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b':' => return Some((Part::Only(part), &text[at + 1..])),
            b'\\' => part.push(*bytes.next()?.1),
            byte => part.push(*byte),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, host: &str, port: u16, database: &str, user: &str) -> Option<String> {
        let file = PassFile {
            path: PathBuf::from("test"),
            lines: file
                .as_bytes()
                .split(|byte| *byte == b'\n')
                .filter_map(line)
                .collect(),
        };
        let hosts = [HostKey::new(host, port)];
        let password = file.password(&hosts, database, user).expect("one host");
        password.map(|secret| String::from_utf8_lossy(&secret).into_owned())
    }

    #[test]
    fn lines_are_read_by_libpqs_rules() {
        let rows = [
            ("h:1:d:u:secret", Some("secret")),
            ("h:1:d:u:secret\r", Some("secret")),
            ("*:*:*:*:secret", Some("secret")),
            ("h:1:*:u:secret", Some("secret")),
            ("h:1:d:u:with:colons", Some("with:colons")),
            (r"h:1:d:u:a\:b\\c", Some(r"a:b\c")),
            (r"\h:1:d:u:secret", Some("secret")),
            (r"h:1:d:u:end\", Some(r"end\")),
            ("x:1:d:u:no\nh:1:d:u:second", Some("second")),
            ("*:*:*:*:first\nh:1:d:u:second", Some("first")),
            ("#h:1:d:u:comment\nh:1:d:u:secret", Some("secret")),
            ("\n\nh:1:d:u:secret\n", Some("secret")),
            ("h:1:d:u:", None),
            ("h:1:d:u", None),
            ("h:1:d", None),
            ("nonsense", None),
            ("h:01:d:u:no", None),
            ("h*:1:d:u:no", None),
            ("H:1:d:u:no", None),
            (r"\*:1:d:u:no", None),
            (" h:1:d:u:no", None),
            ("h :1:d:u:no", None),
        ];
        for (file, expected) in rows {
            assert_eq!(found(file, "h", 1, "d", "u").as_deref(), expected, "{file:?}");
        }
    }

    #[test]
    fn names_with_colons_and_backslashes_are_escaped() {
        assert_eq!(
            found(r"\:\:1:1:d:u:six", "::1", 1, "d", "u").as_deref(),
            Some("six")
        );
        assert_eq!(
            found(r"h:1:d\\b:u:back", "h", 1, r"d\b", "u").as_deref(),
            Some("back")
        );
        assert_eq!(found("::1:1:d:u:no", "::1", 1, "d", "u"), None);
    }

    #[test]
    fn usual_socket_directories_are_called_localhost() {
        for directory in ["/tmp", "/var/run/postgresql", "/run/postgresql"] {
            assert_eq!(
                found("localhost:1:d:u:secret", directory, 1, "d", "u").as_deref(),
                Some("secret")
            );
        }
        assert_eq!(
            found("/srv/pg:1:d:u:secret", "/srv/pg", 1, "d", "u").as_deref(),
            Some("secret")
        );
        assert_eq!(found("localhost:1:d:u:secret", "/srv/pg", 1, "d", "u"), None);
    }

    #[test]
    fn a_host_dialled_at_an_address_is_looked_up_by_its_name() {
        let file = PassFile {
            path: PathBuf::from("test"),
            lines: line(b"db:1:d:u:secret").into_iter().collect(),
        };
        let hosts = [HostKey::new("db", 1).at([10, 0, 0, 1].into())];
        assert!(file.password(&hosts, "d", "u").expect("one host").is_some());
    }
}
