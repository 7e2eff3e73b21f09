//! The command line of this part.

use std::path::PathBuf;
use std::time::Duration;

pub const USAGE: &str = "\
usage: pgsteer-bench ledger [--minutes N] [--seed N] [--servers ha,universe] [--resolve off,on]
                            [--out FILE]
  --minutes  how long each run is; 3 unless told otherwise
  --seed     what faults and transfers are drawn from; a new one unless told otherwise, and printed
  --servers  ha is a primary with two standbys, universe three servers that share nothing; both unless told otherwise
  --resolve  resolve_commit; a run with each unless told otherwise
  --out      also writes the figures into this file, between its lines `<!-- measured: begin -->` and
             `<!-- measured: end -->`";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    Ha,
    Universe,
}

#[derive(Debug)]
pub struct Options {
    pub time: Duration,
    pub seed: u64,
    pub servers: Vec<Servers>,
    pub resolve: Vec<bool>,
    pub out: Option<PathBuf>,
}

impl Options {
    pub fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Options {
            time: Duration::from_secs(180),
            seed: fastrand::u64(..),
            servers: vec![Servers::Ha, Servers::Universe],
            resolve: vec![false, true],
            out: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--minutes" => options.time = minutes(&value()?)?,
                "--seed" => options.seed = number(&value()?)?,
                "--servers" => options.servers = servers(&value()?)?,
                "--resolve" => options.resolve = resolve(&value()?)?,
                "--out" => options.out = Some(value()?.into()),
                _ => return Err(format!("there is no option {argument}")),
            }
        }
        Ok(options)
    }

    /// The runs to be made: on which servers, and whether `resolve_commit` is on.
    pub fn runs(&self) -> Vec<(Servers, bool)> {
        let servers = self.servers.iter();
        servers
            .flat_map(|servers| self.resolve.iter().map(|resolve| (*servers, *resolve)))
            .collect()
    }

    /// What has to be said to draw the same once more.
    pub fn told(&self) -> String {
        format!(
            "--minutes {} --seed {}",
            self.time.as_secs_f64() / 60.0,
            self.seed
        )
    }
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes = text
        .parse()
        .ok()
        .filter(|minutes| (0.1..=600.0).contains(minutes));
    let minutes: f64 = minutes.ok_or_else(|| format!("{text} is no number of minutes from 0.1 to 600"))?;
    Ok(Duration::from_secs_f64(minutes * 60.0))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is no whole number"))
}

fn resolve(list: &str) -> Result<Vec<bool>, String> {
    let resolve = |word: &str| match word {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("resolve_commit is on or off, not {word}")),
    };
    list.split(',').map(resolve).collect()
}

fn servers(list: &str) -> Result<Vec<Servers>, String> {
    let servers = |word: &str| match word {
        "ha" => Ok(Servers::Ha),
        "universe" => Ok(Servers::Universe),
        _ => Err(format!("there are no servers {word}; ha, universe")),
    };
    list.split(',').map(servers).collect()
}
