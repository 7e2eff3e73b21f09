//! One ready-made data folder per server version and account, per kind, which each server of a set starts from as a copy:
//! initdb takes a second, a copy a few hundredths. It is made under a file lock and moved into place when it is
//! complete, so a template that is there is whole, whoever made it and whatever was killed meanwhile.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::failure::{During as _, Failure, Outcome};
use crate::listing::{literal, table_sql};
use crate::log::LINE_PREFIX;
use crate::postmaster::{Readiness, start_bare};
use crate::programs::Programs;
use crate::settings::RELOADED;
use crate::spec::{RESERVED_SESSIONS, SESSIONS};
use crate::sql::{ADMIN, Session};
use crate::watcher::Watcher;
use crate::{DATABASE, PASSWORD, USER};

/// What a template is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Servers that share nothing.
    Single,
    /// A primary and its standbys: all begin as copies of one cleanly stopped primary.
    Replicated,
}

/// Settings of every server: quick to start, careless of crashes of the machine, talkative about logins.
fn settings(kind: Kind) -> String {
    let replication = match kind {
        Kind::Single => "full_page_writes = off\nmax_wal_senders = 0\nwal_level = minimal\n",
        // pg_rewind insists on full pages in its source and on hints in the log of its target.
        Kind::Replicated => {
            "wal_level = replica\nfull_page_writes = on\nwal_log_hints = on\nwal_keep_size = 256MB\n\
             max_wal_senders = 10\nhot_standby = on\nwal_retrieve_retry_interval = 100ms\n\
             wal_receiver_status_interval = 1s\nwal_receiver_timeout = 5s\nwal_sender_timeout = 5s\n"
        }
    };
    format!(
        "shared_buffers = 8MB\nfsync = off\nautovacuum = off\nhuge_pages = off\ndynamic_shared_memory_type = mmap\n\
         logging_collector = off\nlog_destination = 'stderr'\nlog_connections = on\nlog_disconnections = on\n\
         log_line_prefix = '{LINE_PREFIX}'\nlog_checkpoints = off\nallow_system_table_mods = on\n\
         password_encryption = 'scram-sha-256'\nmax_connections = {}\n\
         {replication}include_if_exists = '{RELOADED}'\n",
        SESSIONS + RESERVED_SESSIONS
    )
}

/// Leaves two databases, the tests' own and the one that CREATE DATABASE copies: most of a cluster's files are the
/// catalogues of its databases, and the fewer there are the sooner a copy is made.
fn setup_sql() -> Vec<(&'static str, String)> {
    vec![
        (
            "template1",
            format!("CREATE ROLE {USER} LOGIN PASSWORD {}", literal(Some(PASSWORD))),
        ),
        (
            "template1",
            format!("ALTER DATABASE postgres RENAME TO {DATABASE}"),
        ),
        ("template1", format!("ALTER DATABASE {DATABASE} OWNER TO {USER}")),
        (
            "template1",
            "ALTER DATABASE template0 IS_TEMPLATE false".to_owned(),
        ),
        ("template1", "DROP DATABASE template0".to_owned()),
        (DATABASE, table_sql()),
    ]
}

/// Where servers live: in memory where the machine has plenty, since making a thousand small files costs seconds on
/// some disks; else in the temporary folder. `TMPDIR` overrides both.
pub(crate) fn base_folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    if std::env::var_os("TMPDIR").is_none() && free >= MEMORY_WANTED {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// Room for a hundred servers at once.
const MEMORY_WANTED: u64 = 3 << 30;

/// The testkit's folder for this account, shared by all test processes.
pub(crate) fn shared_folder(programs: &Programs) -> Outcome<PathBuf> {
    let name = format!("pgsteer-testkit-{}", programs.user());
    let folder = base_folder().join(name);
    fs::create_dir_all(&folder).at("cannot make", &folder)?;
    let folder = fs::canonicalize(&folder).at("cannot resolve", &folder)?;
    let owner = fs::metadata(&folder).at("cannot look at", &folder)?.uid();
    if owner != programs.user() && owner != rustix::process::geteuid().as_raw() {
        return Err(Failure::new(format!(
            "{} belongs to another account",
            folder.display()
        )));
    }
    programs.give(&folder)?;
    Ok(folder)
}

/// The template for this version, made first if there is none.
pub(crate) fn ready(programs: &Programs, shared: &Path, kind: Kind) -> Outcome<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (&programs.version, settings(kind), setup_sql()).hash(&mut hasher);
    let template = shared.join(format!("template-{:016x}", hasher.finish()));
    let lock_path = shared.join("template.lock");
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path);
    let lock = lock.at("cannot open", &lock_path)?;
    flock(&lock, FlockOperation::LockExclusive)
        .map_err(std::io::Error::from)
        .at("cannot lock", &lock_path)?;
    if !template.join("PG_VERSION").is_file() {
        make(programs, shared, &template, kind)?;
    }
    Ok(template)
}

fn make(programs: &Programs, shared: &Path, template: &Path, kind: Kind) -> Outcome<()> {
    let unfinished = tempfile::Builder::new().prefix("making-").tempdir_in(shared);
    let unfinished = unfinished.at("cannot make a folder in", shared)?;
    programs.give(unfinished.path())?;
    let data = unfinished.path().join("data");
    let watcher = Watcher::over(unfinished.path(), programs)?;
    let mut initdb = programs.server_program("initdb");
    initdb.current_dir(unfinished.path()).arg("-D").arg(&data);
    initdb.args([
        "-U",
        ADMIN,
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
        "--wal-segsize=1",
    ]);
    programs.run(initdb)?;
    append(&data.join("postgresql.conf"), &settings(kind))?;
    let setting = [
        ("listen_addresses".to_owned(), String::new()),
        ("port".to_owned(), "5432".to_owned()),
    ];
    let mut server = start_bare(
        programs,
        &data,
        unfinished.path(),
        &unfinished.path().join("log"),
        5432,
        &setting,
        Readiness::Sessions,
    )?;
    for (database, sql) in setup_sql() {
        Session::open(unfinished.path(), 5432, database)?.run(&sql)?;
    }
    server.shut_down(&data)?;
    fs::rename(&data, template).at("cannot move the template to", template)?;
    drop(watcher);
    Ok(())
}

/// Copies the template to a server's data folder, owned by the servers' account.
pub(crate) fn copy(programs: &Programs, template: &Path, data: &Path) -> Outcome<()> {
    let mut copy = programs.command(Path::new("cp"));
    copy.current_dir("/")
        .args(["-R", "-p", "--reflink=auto"])
        .arg(template)
        .arg(data);
    programs.run(copy)
}

fn append(path: &Path, text: &str) -> Outcome<()> {
    let mut file: File = OpenOptions::new()
        .append(true)
        .open(path)
        .at("cannot open", path)?;
    file.write_all(text.as_bytes()).at("cannot write", path)
}
