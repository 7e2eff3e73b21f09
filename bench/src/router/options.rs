//! The command line of this part.

use std::path::PathBuf;

pub const USAGE: &str = "\
usage: pgsteer-bench router --program FILE [--quick] [--parts frames,dial,backends,idle] [--out FILE]
  --program  the pgsteer program, release build: its route, echo and load are what is measured with
  --quick    fewer and shorter rounds: for seeing that it works, not for figures
  --parts    frames: lasting client connections, by size and number; dial: a connection for each request;
             backends: warm connections to backends beside dialling one for each request; idle: memory of clients
             that say nothing; all unless told otherwise
  --out      also writes the section into this file, between its lines `<!-- router: begin -->` and
             `<!-- router: end -->`
It needs HAProxy (apt-get install haproxy).";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Frames,
    Dial,
    Backends,
    Idle,
}

const PARTS: [(&str, Part); 4] = [
    ("frames", Part::Frames),
    ("dial", Part::Dial),
    ("backends", Part::Backends),
    ("idle", Part::Idle),
];

#[derive(Debug)]
pub struct Options {
    pub program: PathBuf,
    pub quick: bool,
    pub parts: Vec<Part>,
    pub out: Option<PathBuf>,
}

impl Options {
    pub fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut program = None;
        let mut options = Options {
            program: PathBuf::new(),
            quick: false,
            parts: PARTS.map(|(_, part)| part).to_vec(),
            out: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--program" => program = Some(value()?.into()),
                "--quick" => options.quick = true,
                "--parts" => options.parts = parts(&value()?)?,
                "--out" => options.out = Some(value()?.into()),
                _ => return Err(format!("there is no option {argument}")),
            }
        }
        options.program = program.ok_or("--program is missing")?;
        Ok(options)
    }

    /// Turns of a load whose requests take no more than a few hundredths of a second.
    pub fn short_turns(&self) -> Turns {
        self.turns(Turns {
            rounds: 15,
            warmup: "0.2",
            seconds: "0.6",
        })
    }

    /// Turns of any load.
    pub fn long_turns(&self) -> Turns {
        self.turns(Turns {
            rounds: 5,
            warmup: "0.3",
            seconds: "1.3",
        })
    }

    fn turns(&self, turns: Turns) -> Turns {
        let quick = Turns {
            rounds: 1,
            warmup: "0.1",
            seconds: "0.3",
        };
        if self.quick { quick } else { turns }
    }
}

/// How often each contender's turn comes, and how long it is. Many short ones tell more than a few long ones: what the machine
/// does meanwhile lasts for seconds.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    pub rounds: usize,
    /// Seconds of warming up.
    pub warmup: &'static str,
    /// Seconds of measuring.
    pub seconds: &'static str,
}

fn parts(list: &str) -> Result<Vec<Part>, String> {
    let part = |word: &str| {
        let known = PARTS.iter().find(|(name, _)| *name == word);
        known
            .map(|(_, part)| *part)
            .ok_or_else(|| format!("there is no part {word}"))
    };
    list.split(',').map(part).collect()
}
