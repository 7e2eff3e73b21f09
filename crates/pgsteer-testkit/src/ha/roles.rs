//! What changes who is who in a set: promotion, following another primary, rejoining, cold standbys, synchronous
//! commit.

use std::fs;

use rustix::process::Signal;

use super::{HaSet, is_true, is_writable};
use crate::DATABASE;
use crate::failure::{During as _, Failure, Outcome, or_fail};
use crate::listing::literal;
use crate::postmaster::LIMIT;
use crate::processes::wait_until;
use crate::server::Server;
use crate::sql::ADMIN;

/// How a node came back as a standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejoined {
    /// `pg_rewind` took back what it had written alone.
    Rewound,
    /// Its data folder was made anew, since it could not be rewound: it crashed as a standby, or the log that leads
    /// back to the common history is gone.
    BaseBackup,
}

impl HaSet {
    /// Makes a standby, hot or cold, a primary, and returns when it takes writes. Whoever was primary is left as it
    /// is: when it still runs, the set has a split brain. The other standbys go on following whom they followed; see
    /// [`HaSet::follow`].
    ///
    /// # Panics
    /// When the node is not a running standby, or is frozen.
    #[track_caller]
    pub fn promote(&self, node: usize) {
        or_fail(self.try_promote(node));
    }

    fn try_promote(&self, index: usize) -> Outcome<()> {
        let node = self.try_node(index)?;
        if !node.is_set_to_follow() {
            return Err(Failure::new(format!("node {index} is no standby")));
        }
        node.try_write_file("promote", "")?;
        node.tell_postmaster(Signal::USR1)?;
        if wait_until(LIMIT, || is_writable(node)) {
            return Ok(());
        }
        Err(self.stuck(index, "was promoted but takes no writes"))
    }

    /// Lets a standby stream from another node, without a restart unless it is cold, and returns when it does.
    ///
    /// # Panics
    /// When the standby's history is not part of the other's; [`HaSet::rejoin`] mends that.
    #[track_caller]
    pub fn follow(&self, standby: usize, primary: usize) {
        or_fail(self.try_follow(standby, primary));
    }

    fn try_follow(&self, standby: usize, primary: usize) -> Outcome<()> {
        let node = self.try_node(standby)?;
        if !node.is_set_to_follow() {
            return Err(Failure::new(format!(
                "node {standby} is no standby; let it rejoin"
            )));
        }
        let upstream = self.upstream(standby, primary)?;
        if node.is_cold() {
            node.try_stop_fast()?;
            node.note_settings(&[upstream_setting(&upstream)]);
            node.try_start()?;
        } else {
            node.try_reload_settings(&[upstream_setting(&upstream)])?;
        }
        self.wait_streaming(standby, primary)
    }

    /// Brings a node back as a standby of this primary, whatever the node was: stops it if it runs, takes back what
    /// it has written alone, starts it, and returns when it streams.
    ///
    /// # Panics
    /// When the other node is no running primary.
    #[track_caller]
    pub fn rejoin(&self, node: usize, primary: usize) -> Rejoined {
        or_fail(self.try_rejoin(node, primary))
    }

    fn try_rejoin(&self, index: usize, primary: usize) -> Outcome<Rejoined> {
        let node = self.try_node(index)?;
        if index == primary || !is_writable(self.try_node(primary)?) {
            return Err(Failure::new(format!("node {primary} is no primary to rejoin")));
        }
        if node.is_running() {
            node.try_stop_fast()?;
        }
        let how = self.catch_up_files(index, primary)?;
        self.set_to_follow(index, primary)?;
        node.note_settings(&[(SYNCHRONOUS, "")]);
        node.try_start()?;
        self.wait_streaming(index, primary)?;
        Ok(how)
    }

    /// Makes a stopped node's files such that it can follow the primary.
    fn catch_up_files(&self, index: usize, primary: usize) -> Outcome<Rejoined> {
        let (node, source) = (self.try_node(index)?, self.try_node(primary)?);
        // pg_rewind looks for the new timeline in the source's control file, where a checkpoint puts it.
        source.try_sql("CHECKPOINT")?;
        if !has_crashed_as_standby(node)? {
            let mut rewind = node.programs.further_program("pg_rewind")?;
            rewind.current_dir(&node.folder).arg("--no-sync");
            rewind.arg("-D").arg(node.data_folder());
            rewind
                .arg("--source-server")
                .arg(format!("{} dbname={DATABASE}", connection(source)));
            // It would not start a standby to recover it.
            let signal_file = node.data_folder().join("standby.signal");
            if signal_file.exists() {
                fs::remove_file(&signal_file).at("cannot remove", &signal_file)?;
            }
            if node.programs.run(rewind).is_ok() {
                return Ok(Rejoined::Rewound);
            }
        }
        let data = node.data_folder();
        fs::remove_dir_all(&data).at("cannot remove", &data)?;
        let mut backup = node.programs.further_program("pg_basebackup")?;
        backup.current_dir(&node.folder).arg("-D").arg(&data);
        backup.args(["--no-sync", "--wal-method=stream", "--checkpoint=fast"]);
        backup.arg("-d").arg(connection(source));
        node.programs.run(backup)?;
        Ok(Rejoined::BaseBackup)
    }

    /// Restarts a node so that, as a standby, it takes sessions or not. A cold standby replays all the same, and
    /// answers each login with 57P03 until it is promoted.
    #[track_caller]
    pub fn set_hot_standby(&self, node: usize, hot: bool) {
        self.node(node)
            .set_setting("hot_standby", if hot { "on" } else { "off" });
    }

    /// Whether each commit on a node waits until a standby, any one, has it on disk. While no standby streams from
    /// the node such a commit waits for ever, the testkit's own included.
    #[track_caller]
    pub fn set_synchronous(&self, primary: usize, on: bool) {
        let whom = if on { "ANY 1 (*)" } else { "" };
        self.node(primary).reload_settings(&[(SYNCHRONOUS, whom)]);
    }

    /// Has a node follow another one from its next start on.
    pub(super) fn set_to_follow(&self, standby: usize, primary: usize) -> Outcome<()> {
        let node = self.try_node(standby)?;
        node.note_settings(&[upstream_setting(&self.upstream(standby, primary)?)]);
        node.try_write_file("standby.signal", "")
    }

    fn upstream(&self, standby: usize, primary: usize) -> Outcome<String> {
        if standby == primary {
            return Err(Failure::new(format!("node {standby} cannot follow itself")));
        }
        let source = connection(self.try_node(primary)?);
        Ok(format!(
            "{source} application_name={} connect_timeout=2",
            name(standby)
        ))
    }

    /// Waits until a standby streams from another node.
    pub(super) fn wait_streaming(&self, standby: usize, primary: usize) -> Outcome<()> {
        let source = self.try_node(primary)?;
        let sql = format!(
            "SELECT count(*) > 0 FROM pg_stat_replication WHERE state = 'streaming' AND application_name = {}",
            literal(Some(&name(standby)))
        );
        if wait_until(LIMIT, || is_true(source, &sql)) {
            return Ok(());
        }
        Err(self.stuck(standby, &format!("does not stream from node {primary}")))
    }
}

/// The setting that names the standbys which a commit waits for.
const SYNCHRONOUS: &str = "synchronous_standby_names";

/// What a standby calls itself where its primary lists it.
fn name(node: usize) -> String {
    format!("node{node}")
}

fn upstream_setting(upstream: &str) -> (&str, &str) {
    ("primary_conninfo", upstream)
}

/// The testkit's own way in, as libpq takes it.
fn connection(node: &Server) -> String {
    format!(
        "host='{}' port={} user={ADMIN}",
        node.socket_folder().display(),
        node.port()
    )
}

/// Whether a stopped node was killed while it was a standby. Its recovery, run by pg_rewind as if it were a primary,
/// would write a log of its own that pg_rewind does not see.
fn has_crashed_as_standby(node: &Server) -> Outcome<bool> {
    let mut command = node.programs.further_program("pg_controldata")?;
    command.arg("-D").arg(node.data_folder());
    let output = command.output().during("cannot run pg_controldata")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let state = text
        .lines()
        .find_map(|line| line.strip_prefix("Database cluster state:"));
    let state = state.ok_or_else(|| Failure::new(format!("pg_controldata tells no state: {text}")))?;
    Ok(state.trim() == "in archive recovery")
}
