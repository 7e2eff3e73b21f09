//! The report: what it was measured on, what was asked of the product and whether it did it, and the tables.

use std::fmt;

use crate::machine::{Machine, load};
use crate::options::Options;
use crate::page::figures;
use crate::router::{BEGIN, END};
use crate::table::{Table, number};

/// What `failover` and `ledger` measured, on pages of their own, and what is said of it here.
const RECORDED: [(&str, &str); 3] = [
    (
        "docs/failover-run.md",
        "## Failover, seen by `pgsteer bench`\n\n32 tasks write, the primary is killed, a standby is promoted; \
         [how it was done](failover-run.md), and [the same beside others](comparison.md).",
    ),
    (
        "docs/outage-run.md",
        "## An outage of every server, seen by `pgsteer bench --json`\n\n200 tasks read, all servers are stopped and \
         started again a minute later; [how it was done](outage-run.md).",
    ),
    (
        "docs/ledger-run.md",
        "## The ledger: what callers of transactions are told, and whether it is true\n\n32 tasks transfer while everything \
         is done to the servers; [how it was done](ledger-run.md).",
    ),
];

/// The recorded runs as they stand on their pages, without what each was measured on, which those tell.
fn recorded() -> String {
    let mut text = String::new();
    for (page, introduction) in RECORDED {
        let page = std::fs::read_to_string(page).unwrap_or_default();
        if let Some(figures) = figures(&page) {
            text += &format!("\n{introduction}\n\n    {figures}");
        }
    }
    text
}

/// The router's section as it stands on this very page: it is measured by a command of its own.
fn router() -> String {
    let page = std::fs::read_to_string("docs/benchmarks.md").unwrap_or_default();
    let section = page.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    let section = section.map_or("\n", |(section, _)| section);
    format!("\n## The router\n\n{BEGIN}{section}{END}\n")
}

pub struct Report {
    machine: Machine,
    load_after: String,
    quick: bool,
    demands: Vec<Demand>,
    tables: Vec<(Table, &'static str)>,
}

/// Something the product is to achieve.
struct Demand {
    what: String,
    bound: Bound,
    measured: f64,
    unit: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

impl Bound {
    fn holds(self, figure: f64) -> bool {
        match self {
            Bound::AtLeast(bound) => figure >= bound,
            Bound::AtMost(bound) => figure <= bound,
            Bound::Below(bound) => figure < bound,
        }
    }
}

impl Report {
    pub fn new(machine: Machine, options: &Options) -> Self {
        Report {
            machine,
            load_after: String::new(),
            quick: options.quick,
            demands: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Notes what was asked and what was measured. A figure that could not be measured misses every bound.
    pub fn demand(&mut self, what: impl Into<String>, bound: Bound, measured: f64, unit: &'static str) {
        self.demands.push(Demand {
            what: what.into(),
            bound,
            measured,
            unit,
        });
    }

    /// Adds a table and what its reader has to know.
    pub fn table(&mut self, table: Table, how_measured: &'static str) {
        self.tables.push((table, how_measured));
    }

    pub fn end(&mut self) {
        self.load_after = load();
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Benchmarks\n")?;
        writeln!(
            f,
            "This page is written by the program that measures; run it from the top of the repository:\n"
        )?;
        writeln!(
            f,
            "    cargo run --release --manifest-path bench/Cargo.toml -- --out docs/benchmarks.md\n"
        )?;
        if self.quick {
            writeln!(f, "**A quick run: too short for figures to rely on.**\n")?;
        }
        writeln!(f, "{}, after it {}\n", self.machine, self.load_after)?;
        writeln!(
            f,
            "A cell is the median over the rounds; in brackets the best round and how many times the median of the \
             table's first row the median is. Every round measures each contender once, in turn. Where tasks compete, or use \
             connections to a server, one contender is compared with another by the median of the rounds' own ratios: what the \
             machine does meanwhile concerns the two of one round alike. There the order is turned round in every other \
             round.\n"
        )?;
        writeln!(f, "## What is asked\n")?;
        writeln!(f, "| | asked | measured | |\n|---|---|--:|---|")?;
        for Demand {
            what,
            bound,
            measured,
            unit,
        } in &self.demands
        {
            let asked = match bound {
                Bound::AtLeast(bound) => format!("at least {bound}{unit}"),
                Bound::AtMost(bound) => format!("at most {bound}{unit}"),
                Bound::Below(bound) => format!("less than {bound}{unit}"),
            };
            let verdict = if bound.holds(*measured) {
                "pass"
            } else {
                "**miss**"
            };
            writeln!(
                f,
                "| {what} | {asked} | {}{unit} | {verdict} |",
                number(*measured)
            )?;
        }
        writeln!(f, "\n## Figures")?;
        for (table, how_measured) in &self.tables {
            write!(f, "\n{table}\n{how_measured}\n")?;
        }
        f.write_str(&recorded())?;
        f.write_str(&router())
    }
}
