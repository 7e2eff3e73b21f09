//! The PostgreSQL server programs, and the account that they run as. A server refuses to run as root, so root's
//! tests run it as `postgres`, or as `nobody` where there is no such account.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{During as _, Failure, Outcome};

/// Names the folder of the server programs, before any other place.
const GIVEN: &str = "PGSTEER_PG_BIN";

/// Where Debian and Ubuntu put the server programs.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Where the programs are and who runs them.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    folder: PathBuf,
    /// User and group to run as; `None` when the test's own account will do.
    account: Option<(u32, u32)>,
    /// `postgres --version`, which tells templates of different servers apart.
    pub(crate) version: String,
}

impl Programs {
    /// Finds them, or says what to install.
    pub(crate) fn find() -> Outcome<Self> {
        let folder = find_folder(env::var_os(GIVEN), env::var_os("PATH"), Path::new(DEBIAN))?;
        let account = if rustix::process::geteuid().is_root() {
            Some(unprivileged_account()?)
        } else {
            None
        };
        let output = Command::new(folder.join("postgres"))
            .arg("--version")
            .output()
            .at("cannot run postgres of", &folder)?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Self {
            folder,
            account,
            version,
        })
    }

    /// A command that runs one of the server programs as the servers' account.
    pub(crate) fn server_program(&self, name: &str) -> Command {
        self.command(&self.folder.join(name))
    }

    /// One of the programs that only some tests need, run as the servers' account.
    pub(crate) fn further_program(&self, name: &str) -> Outcome<Command> {
        Ok(self.command(&self.further_path(name)?))
    }

    /// Where one of those programs is.
    pub(crate) fn further_path(&self, name: &str) -> Outcome<PathBuf> {
        let path = self.folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
        Err(Failure::new(format!(
            "{name} is not in {}. On Debian and Ubuntu the package `postgresql` brings it (apt-get install \
             postgresql); elsewhere install the client programs of the same version beside the server",
            self.folder.display()
        )))
    }

    /// A command that runs as the servers' account, without standard input and in a process group of its own, so
    /// that a Ctrl-C in the terminal does not reach it before the test has cleaned up.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).process_group(0).env("LC_ALL", "C");
        if let Some((user, group)) = self.account {
            // With a user given and no groups, the standard library drops root's supplementary groups too.
            command.uid(user).gid(group);
        }
        command
    }

    /// The user that owns the servers' files.
    pub(crate) fn user(&self) -> u32 {
        self.account
            .map_or_else(|| rustix::process::geteuid().as_raw(), |(user, _)| user)
    }

    /// Gives a file or folder to the servers' account.
    pub(crate) fn give(&self, path: &Path) -> Outcome<()> {
        match self.account {
            Some((user, group)) => chown(path, Some(user), Some(group)).at("cannot give away", path),
            None => Ok(()),
        }
    }

    /// Runs a short command to its end.
    pub(crate) fn run(&self, mut command: Command) -> Outcome<()> {
        let what = format!("{command:?}");
        let output = command.output().during(&what)?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(Failure::new(format!(
            "{what} failed with {}: {}",
            output.status,
            words.trim()
        )))
    }
}

/// Where the programs are, by the environment's word, by `PATH`, or where Debian puts them.
fn find_folder(given: Option<OsString>, path: Option<OsString>, debian: &Path) -> Outcome<PathBuf> {
    if let Some(folder) = given {
        let folder = PathBuf::from(folder);
        return if is_complete(&folder) {
            Ok(folder)
        } else {
            Err(Failure::new(format!(
                "{GIVEN} is {}, but initdb and postgres are not there",
                folder.display()
            )))
        };
    }
    let in_path = path.iter().flat_map(env::split_paths);
    // A link in PATH is followed: the server finds its libraries beside the real program.
    let in_path =
        in_path.filter_map(|folder| Some(fs::canonicalize(folder.join("initdb")).ok()?.parent()?.to_owned()));
    in_path.chain(versions_in(debian)).find(|folder| is_complete(folder)).ok_or_else(|| {
        Failure::new(format!(
            "the PostgreSQL server programs initdb and postgres are neither in PATH nor under {}. On Debian and \
             Ubuntu install the package `postgresql` (apt-get install postgresql); elsewhere set {GIVEN} to the \
             folder that holds them",
            debian.display()
        ))
    })
}

/// Debian keeps a folder per major version; the newest comes first.
fn versions_in(folder: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse().ok()?,
                entry.path().join("bin"),
            ))
        })
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, folder)| folder).collect()
}

fn is_complete(folder: &Path) -> bool {
    ["initdb", "postgres"]
        .iter()
        .all(|name| folder.join(name).is_file())
}

fn unprivileged_account() -> Outcome<(u32, u32)> {
    let accounts = fs::read_to_string("/etc/passwd").during("cannot read the list of accounts")?;
    ["postgres", "nobody"]
        .iter()
        .find_map(|name| account(&accounts, name))
        .ok_or_else(|| {
            Failure::new(
                "tests run as root need an unprivileged account for the servers: `postgres` or `nobody`",
            )
        })
}

fn account(accounts: &str, wanted: &str) -> Option<(u32, u32)> {
    accounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, user, group, ..] = fields[..] else {
            return None;
        };
        if name != wanted {
            return None;
        }
        Some((user.parse().ok()?, group.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with empty files of these names.
    fn folder_with(programs: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for program in programs {
            let path = folder.path().join(program);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    #[test]
    fn without_postgresql_the_failure_names_the_package() {
        let empty = folder_with(&[]);
        let failure = find_folder(None, Some(empty.path().into()), empty.path())
            .unwrap_err()
            .to_string();
        assert!(failure.contains("apt-get install postgresql"), "{failure}");
    }

    #[test]
    fn a_given_folder_without_the_programs_is_no_reason_to_look_elsewhere() {
        let complete = folder_with(&["initdb", "postgres"]);
        let half = folder_with(&["initdb"]);
        let path = Some(OsString::from(complete.path()));
        let failure = find_folder(Some(half.path().into()), path, complete.path())
            .unwrap_err()
            .to_string();
        assert!(failure.contains(GIVEN), "{failure}");
    }

    #[test]
    fn path_comes_before_debian_and_debians_newest_comes_first() {
        let debian = folder_with(&[
            "9/bin/initdb",
            "9/bin/postgres",
            "15/bin/initdb",
            "15/bin/postgres",
            "16/bin/initdb",
        ]);
        let in_path = folder_with(&["initdb", "postgres"]);
        let found = |path: &Path| find_folder(None, Some(path.into()), debian.path()).unwrap();
        assert_eq!(found(in_path.path()), fs::canonicalize(in_path.path()).unwrap());
        assert_eq!(found(Path::new("/nowhere")), debian.path().join("15/bin"));
    }

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let accounts =
            "postgresql:x:7:8::/:/bin/sh\npostgres:x:101:104:PostgreSQL:/var/lib:/bin/bash\nbroken\n";
        assert_eq!(account(accounts, "postgres"), Some((101, 104)));
        assert_eq!(account(accounts, "nobody"), None);
    }
}
