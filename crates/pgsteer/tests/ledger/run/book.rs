//! What callers were told of their transfers, held against what is there afterwards. Pure: it knows no server, no clock and
//! no pool, and both real servers and simulated ones are judged by it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

/// What the caller of a transfer was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// That it is done.
    Done,
    /// That it failed, and with what.
    NotDone(String),
    /// That nobody knows, and why.
    Unknown(String),
    /// Nothing: the caller's future was dropped.
    Dropped,
}

impl Told {
    /// Whether it is true of a transfer that is there so many times.
    pub(crate) fn is_true_of(&self, times: usize) -> bool {
        match self {
            Told::Done => times == 1,
            Told::NotDone(_) => times == 0,
            Told::Unknown(_) | Told::Dropped => times <= 1,
        }
    }
}

/// What is written down of one transfer.
#[derive(Clone, Debug)]
struct Entry {
    told: Told,
    /// What became of its attempts, for people.
    trail: String,
}

/// What everybody was told, by the transfer's id.
#[derive(Default)]
pub(crate) struct Book(BTreeMap<i64, Entry>);

impl Book {
    /// Writes down what the caller of this transfer was told, and what became of its attempts.
    pub(crate) fn note(&mut self, id: i64, told: Told, trail: String) {
        let before = self.0.insert(id, Entry { told, trail });
        assert!(before.is_none(), "{id} is not an id of its own");
    }

    /// Holds what was told against how often each id is there; ids that are not there may be left out.
    pub(crate) fn judge(&self, there: &BTreeMap<i64, usize>) -> Judgement {
        let mut judgement = Judgement::default();
        for (id, Entry { told, trail }) in &self.0 {
            let times = there.get(id).copied().unwrap_or(0);
            match told {
                Told::Done => judgement.done += 1,
                Told::NotDone(why) => *judgement.not_done.entry(why.clone()).or_default() += 1,
                Told::Unknown(why) => judgement.unknown.entry(why.clone()).or_default().count(times),
                Told::Dropped => judgement.dropped.count(times),
            }
            if !told.is_true_of(times) {
                judgement.wrong.push(Wrong {
                    id: *id,
                    told: Some(told.clone()),
                    times,
                    trail: trail.clone(),
                });
            }
        }
        let strangers = there.iter().filter(|(id, _)| !self.0.contains_key(id));
        judgement.wrong.extend(strangers.map(|(id, times)| Wrong {
            id: *id,
            told: None,
            times: *times,
            trail: String::new(),
        }));
        judgement
    }
}

/// What came of holding the book against what is there.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    /// Told to be done.
    pub(crate) done: u64,
    /// Told to have failed, by what with.
    pub(crate) not_done: BTreeMap<String, u64>,
    /// Told that nobody knows, by why.
    pub(crate) unknown: BTreeMap<String, Either>,
    /// Told nothing.
    pub(crate) dropped: Either,
    /// Told what is not true.
    pub(crate) wrong: Vec<Wrong>,
}

impl Judgement {
    /// All that were told to have failed.
    pub(crate) fn failed(&self) -> u64 {
        self.not_done.values().sum()
    }

    /// All that were told that nobody knows.
    pub(crate) fn nobody_knows(&self) -> Either {
        let mut all = Either::default();
        for either in self.unknown.values() {
            all += *either;
        }
        all
    }
}

/// Transfers that may be there or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Either {
    pub(crate) there: u64,
    pub(crate) not_there: u64,
}

impl Either {
    fn count(&mut self, times: usize) {
        match times {
            0 => self.not_there += 1,
            _ => self.there += 1,
        }
    }
}

impl AddAssign for Either {
    fn add_assign(&mut self, other: Either) {
        self.there += other.there;
        self.not_there += other.not_there;
    }
}

/// A transfer of which something was told that is not true.
#[derive(Clone, Debug)]
pub(crate) struct Wrong {
    pub(crate) id: i64,
    /// `None` for one that nobody has begun.
    pub(crate) told: Option<Told>,
    /// How often it is there.
    pub(crate) times: usize,
    /// What became of its attempts.
    pub(crate) trail: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrong {
            id,
            told,
            times,
            trail,
        } = self;
        match told {
            Some(told) => write!(
                f,
                "{id} was told to be {told:?} and is there {times} times; {trail}"
            ),
            None => write!(f, "{id} was begun by nobody and is there {times} times"),
        }
    }
}
