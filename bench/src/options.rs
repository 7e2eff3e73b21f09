//! The command line.

use std::path::PathBuf;

pub const USAGE: &str = "\
usage: pgsteer-bench [--quick] [--sections 1,2,3,4,5,6,7,8] [--out FILE]
  --quick     fewer and shorter rounds: for seeing that it works, not for figures
  --sections  1 get and return, 2 contended, 3 SELECT 1, 4 pool sizes, 5 picking a host,
              6 circuit breakers, 7 one connection beside a bare one, 8 transactions;
              all unless told otherwise
  --out       also writes the report to this file
`pgsteer-bench failover` and `pgsteer-bench router` measure other things; each has options of its own.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    GetAndReturn,
    Contended,
    SelectOne,
    Sizes,
    Picking,
    Breaker,
    Guard,
    Transactions,
}

const SECTIONS: [Section; 8] = [
    Section::GetAndReturn,
    Section::Contended,
    Section::SelectOne,
    Section::Sizes,
    Section::Picking,
    Section::Breaker,
    Section::Guard,
    Section::Transactions,
];

impl Section {
    pub fn title(self) -> &'static str {
        match self {
            Section::GetAndReturn => "1. Get and return",
            Section::Contended => "2. Contended",
            Section::SelectOne => "3. SELECT 1",
            Section::Sizes => "4. Pool sizes",
            Section::Picking => "5. Picking a host",
            Section::Breaker => "6. Circuit breakers",
            Section::Guard => "7. One connection beside a bare one",
            Section::Transactions => "8. Transactions",
        }
    }
}

#[derive(Debug)]
pub struct Options {
    pub quick: bool,
    pub sections: Vec<Section>,
    pub out: Option<PathBuf>,
}

impl Options {
    pub fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Options {
            quick: false,
            sections: SECTIONS.to_vec(),
            out: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--sections" => options.sections = sections(&value()?)?,
                "--out" => options.out = Some(value()?.into()),
                _ => return Err(format!("there is no option {argument}")),
            }
        }
        Ok(options)
    }

    /// How often each contender's turn comes.
    pub fn rounds(&self, full: usize) -> usize {
        if self.quick { 3 } else { full }
    }
}

fn sections(list: &str) -> Result<Vec<Section>, String> {
    let section = |number: &str| {
        let place = number
            .trim()
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        let section = place.and_then(|place| SECTIONS.get(place).copied());
        section.ok_or_else(|| format!("there is no section {number}"))
    };
    list.split(',').map(section).collect()
}
