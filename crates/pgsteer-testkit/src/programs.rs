//! The PostgreSQL server programs, and the account that they run as. A server refuses to run as root, so root's
//! tests run it as `postgres`, or as `nobody` where there is no such account.

use std::env;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{During as _, Failure, Outcome};

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
        let folder = find_folder()?;
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

fn find_folder() -> Outcome<PathBuf> {
    if let Some(folder) = env::var_os("PGSTEER_PG_BIN") {
        let folder = PathBuf::from(folder);
        return if is_complete(&folder) {
            Ok(folder)
        } else {
            Err(Failure::new(format!(
                "PGSTEER_PG_BIN is {}, but initdb and postgres are not there",
                folder.display()
            )))
        };
    }
    let in_path = env::var_os("PATH")
        .into_iter()
        .flat_map(|path| env::split_paths(&path).collect::<Vec<_>>());
    // A link in PATH is followed: the server finds its libraries beside the real program.
    let in_path = in_path.filter_map(|folder| {
        fs::canonicalize(folder.join("initdb"))
            .ok()?
            .parent()
            .map(Path::to_owned)
    });
    in_path.chain(debian_folders()).find(|folder| is_complete(folder)).ok_or_else(|| {
        Failure::new(
            "the PostgreSQL server programs initdb and postgres are neither in PATH nor under /usr/lib/postgresql. \
             On Debian and Ubuntu install the package `postgresql` (apt-get install postgresql); elsewhere set \
             PGSTEER_PG_BIN to the folder that holds them",
        )
    })
}

/// Debian keeps a folder per major version; the newest comes first.
fn debian_folders() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
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
