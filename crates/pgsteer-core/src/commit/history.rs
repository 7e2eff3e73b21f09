//! Where a server stands in its history, as it says itself, and whether it has gone on from there without a crash.

use std::fmt;

/// What a server is asked, in this order; `pgsteer` has the question.
pub const COLUMNS: [&str; 16] = [
    "version",
    "version number",
    "other product",
    "in recovery",
    "system identifier",
    "log file",
    "position",
    "checkpoint",
    "checkpoint's redo",
    "checkpoint's time",
    "wal_level",
    "start",
    "statistics reset",
    "synchronous_commit",
    "synchronous_standby_names",
    "transaction id",
];

/// Hexadecimal digits of the timeline at the beginning of a log file's name, and of the whole name.
const TIMELINE_DIGITS: usize = 8;
const FILE_NAME_DIGITS: usize = 24;

/// A position in the write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// From its text, two hexadecimal numbers with a slash between them.
    fn parse(text: &str) -> Option<Self> {
        let (high, low) = text.split_once('/')?;
        let half = |digits: &str| {
            let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            u32::from_str_radix(digits, 16).ok().filter(|_| plain)
        };
        Some(Position(u64::from(half(high)?) << 32 | u64::from(half(low)?)))
    }
}

/// The last checkpoint that the control file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Where its record is.
    pub at: Position,
    /// From where the log is to be replayed. The same as `at` if nothing was written while it was made.
    pub redo: Position,
    /// When it was made, as the server writes that; only to be compared.
    pub time: String,
}

/// A server's version number, such as 150004.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(pub u32);

impl Version {
    /// Those whose ways are known: what this rule relies on was read in their sources.
    const KNOWN: std::ops::RangeInclusive<u32> = 10..=18;
    /// From this one on statistics are kept in memory that is shared, and begin anew with it.
    const STATISTICS_IN_MEMORY: u32 = 15;

    fn major(self) -> u32 {
        self.0 / 10_000
    }
}

/// Whether a server can be asked at all, by the `server_version` that it reports at the login. What it answers is judged
/// by [`History::read`]; this keeps the question from those it could do harm to, as where there are no savepoints.
///
/// # Errors
/// Why it cannot.
pub fn may_be_asked(server_version: Option<&str>) -> Result<(), Obstacle> {
    let said = server_version.unwrap_or_default();
    if OTHERS.iter().any(|other| said.contains(other)) {
        return Err(Obstacle::OtherProduct(shortened(said)));
    }
    let digits = said
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(said.len());
    let major: u32 = said[..digits]
        .parse()
        .map_err(|_| Obstacle::Unclear(COLUMNS[0]))?;
    match Version::KNOWN.contains(&major) {
        true => Ok(()),
        false => Err(Obstacle::OtherVersion(major.saturating_mul(10_000))),
    }
}

/// What a commit waits for beyond its own server's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// A standby has received it.
    RemoteWrite,
    /// A standby has it on disk.
    RemoteFlush,
    /// A standby shows it.
    RemoteApply,
}

impl Wait {
    /// The value of `synchronous_commit` that asks for it.
    pub fn as_setting(self) -> &'static str {
        match self {
            Wait::RemoteWrite => "remote_write",
            Wait::RemoteFlush => "on",
            Wait::RemoteApply => "remote_apply",
        }
    }

    /// `None` where it waits for no standby. The error is that it is none of the known values.
    fn from_setting(setting: &str) -> Result<Option<Self>, ()> {
        match setting {
            "off" | "local" => Ok(None),
            "remote_write" => Ok(Some(Wait::RemoteWrite)),
            "on" => Ok(Some(Wait::RemoteFlush)),
            "remote_apply" => Ok(Some(Wait::RemoteApply)),
            _ => Err(()),
        }
    }
}

/// Where a server stands in its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Its version.
    pub version: Version,
    /// Which database cluster it is.
    pub system: String,
    /// The timeline it writes on. Not that of the last checkpoint, which is behind after a promotion.
    pub timeline: u32,
    /// Up to where its log was when it was asked.
    pub position: Position,
    /// Its last checkpoint.
    pub checkpoint: Checkpoint,
    /// Whether a checkpoint made while work goes on writes something between its beginning and its record.
    pub online_checkpoints_show: bool,
    /// When it was started; only to be compared.
    pub start: String,
    /// When its statistics were begun anew; only to be compared. Asked from PostgreSQL 15 on.
    pub statistics_reset: Option<String>,
    /// What a commit of the session that was asked waits for, if there are standbys to wait for.
    pub wait: Option<Wait>,
    /// Whether there are: standbys that are named as synchronous, be they connected or not.
    pub has_synchronous_standbys: bool,
}

/// Why a server's answer is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It is in recovery.
    InRecovery,
    /// It is not PostgreSQL itself but something made of it, or like it, and it is not known what its word means.
    OtherProduct(String),
    /// A version whose ways are not known.
    OtherVersion(u32),
    /// It gave no answer, or none that makes sense, to this.
    Unclear(&'static str),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::InRecovery => f.write_str("the server is in recovery"),
            Obstacle::OtherProduct(product) => {
                write!(
                    f,
                    "{product} is not PostgreSQL itself, of which alone it is known what its word is worth"
                )
            }
            Obstacle::OtherVersion(number) => {
                let (first, last) = Version::KNOWN.into_inner();
                write!(
                    f,
                    "its version is {number}, and only PostgreSQL {first} to {last} is known well enough"
                )
            }
            Obstacle::Unclear(column) => write!(f, "it did not say, or not clearly: {column}"),
        }
    }
}

/// A product name from a server, for people: it may be anything.
fn shortened(text: &str) -> String {
    text.chars()
        .filter(|letter| !letter.is_control())
        .take(60)
        .collect()
}

/// Words by which products that are made of PostgreSQL give themselves away in `version()`.
const OTHERS: [&str; 4] = ["-YB-", "Greenplum", "Redshift", "Cloudberry"];

impl History {
    /// Reads what a server answered: text or NULL for each of [`COLUMNS`], except the last, which is not looked at.
    ///
    /// # Errors
    /// What makes the answer useless.
    pub fn read<'a>(column: impl Fn(usize) -> Option<&'a str>) -> Result<Self, Obstacle> {
        let unclear = |at: usize| Obstacle::Unclear(COLUMNS[at]);
        let text = |at| {
            column(at)
                .filter(|text| !text.is_empty())
                .ok_or_else(|| unclear(at))
        };
        let position = |at| text(at).and_then(|text| Position::parse(text).ok_or_else(|| unclear(at)));
        let said = text(0)?;
        if !said.starts_with("PostgreSQL ") || OTHERS.iter().any(|other| said.contains(other)) {
            return Err(Obstacle::OtherProduct(shortened(said)));
        }
        if let Some(product) = column(2) {
            return Err(Obstacle::OtherProduct(shortened(product)));
        }
        let number = text(1)?.parse().map_err(|_| unclear(1))?;
        let version = Version(number);
        if !Version::KNOWN.contains(&version.major()) {
            return Err(Obstacle::OtherVersion(number));
        }
        match text(3)? {
            "f" => {}
            "t" => return Err(Obstacle::InRecovery),
            _ => return Err(unclear(3)),
        }
        let statistics_reset = column(12).map(str::to_owned);
        if version.major() >= Version::STATISTICS_IN_MEMORY && statistics_reset.is_none() {
            return Err(unclear(12));
        }
        Ok(History {
            version,
            system: text(4)?.to_owned(),
            timeline: timeline(text(5)?).ok_or_else(|| unclear(5))?,
            position: position(6)?,
            checkpoint: Checkpoint {
                at: position(7)?,
                redo: position(8)?,
                time: text(9)?.to_owned(),
            },
            online_checkpoints_show: matches!(text(10)?, "replica" | "logical"),
            start: text(11)?.to_owned(),
            statistics_reset,
            wait: Wait::from_setting(text(13)?).map_err(|()| unclear(13))?,
            has_synchronous_standbys: !column(14).ok_or_else(|| unclear(14))?.is_empty(),
        })
    }

    /// Whether the server has gone on from here to `now` without losing its memory, and with it ids it had given: no crash,
    /// no start after one.
    ///
    /// From PostgreSQL 15 on, statistics are in the shared memory, are written to disk by an orderly stop alone, and begin
    /// anew, from that moment, where a start finds that there was none. Before that, it is told by there having been no
    /// checkpoint: recovery from a crash always ends with one, and it has a place and a time of its own.
    pub fn has_gone_on(&self, now: &History) -> bool {
        let set_back = now.position < self.position || now.checkpoint.at < self.checkpoint.at;
        if set_back || self.version.major() != now.version.major() {
            return false;
        }
        if self.version.major() >= Version::STATISTICS_IN_MEMORY {
            return self.statistics_reset.is_some() && self.statistics_reset == now.statistics_reset;
        }
        self.checkpoint == now.checkpoint && self.start == now.start
    }

    /// Whether what the server wrote from here on was lost by a crash before `now`: its last checkpoint is the one that a
    /// recovery has ended with, and it is in front of where the log already was.
    ///
    /// Such a checkpoint is made while nobody writes, so its record is where its redo begins. One that is made while work
    /// goes on has a record of the running transactions in between, unless `wal_level` is `minimal`. The one that an
    /// orderly stop makes comes after everything else.
    pub fn has_lost(&self, now: &History) -> bool {
        let last = &now.checkpoint;
        let of_recovery =
            self.online_checkpoints_show && last.at == last.redo && last.at > self.checkpoint.at;
        of_recovery && last.at < self.position
    }
}

fn timeline(file: &str) -> Option<u32> {
    let is_name = file.len() == FILE_NAME_DIGITS && file.bytes().all(|digit| digit.is_ascii_hexdigit());
    let digits = file.get(..TIMELINE_DIGITS).filter(|_| is_name)?;
    u32::from_str_radix(digits, 16)
        .ok()
        .filter(|timeline| *timeline > 0)
}
