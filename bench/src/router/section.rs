//! The section of the page: what was asked, and the tables.

use std::fmt::{self, Write as _};

use super::contender::{Contender, Figures};
use crate::table::{median, number};

/// The rounds of each row, in the order in which rows first came.
#[derive(Default)]
pub struct Rows(Vec<(String, Contender, Vec<Figures>)>);

impl Rows {
    pub fn add(&mut self, what: &str, contender: Contender, figures: Figures) {
        let known = |row: &&mut (String, Contender, Vec<Figures>)| row.0 == what && row.1 == contender;
        match self.0.iter_mut().find(known) {
            Some((_, _, rounds)) => rounds.push(figures),
            None => self.0.push((what.to_owned(), contender, vec![figures])),
        }
    }

    /// Which of these contenders had the best median of a figure that should be high.
    pub fn best(&self, what: &str, contenders: &[Contender], figure: fn(&Figures) -> f64) -> Contender {
        let median = |contender: &Contender| self.median(what, *contender, figure);
        let best = contenders
            .iter()
            .copied()
            .max_by(|one, other| median(one).total_cmp(&median(other)));
        best.expect("there are some")
    }

    /// The median of a row's figures.
    pub fn median(&self, what: &str, contender: Contender, figure: fn(&Figures) -> f64) -> f64 {
        median(&all(self.rounds(what, contender), figure))
    }

    /// How many times the other's figure a contender's is: the median of what each round says by itself. What the machine does
    /// meanwhile changes from round to round, and concerns the two of one round alike.
    pub fn ratio(
        &self,
        what: &str,
        contender: Contender,
        other: Contender,
        figure: fn(&Figures) -> f64,
    ) -> f64 {
        let rounds = self.rounds(what, contender).iter().zip(self.rounds(what, other));
        let ratios: Vec<f64> = rounds.map(|(one, other)| figure(one) / figure(other)).collect();
        median(&ratios)
    }

    fn rounds(&self, what: &str, contender: Contender) -> &[Figures] {
        let row = self.0.iter().find(|row| row.0 == what && row.1 == contender);
        row.map_or(&[], |(_, _, rounds)| rounds)
    }
}

fn all(rounds: &[Figures], figure: fn(&Figures) -> f64) -> Vec<f64> {
    rounds.iter().map(figure).collect()
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| | | answers a second | p50 µs | p99 µs | its CPU s per 100 000 | amiss |"
        )?;
        writeln!(f, "|---|---|--:|--:|--:|--:|--:|")?;
        for (what, contender, rounds) in &self.0 {
            let middle = |figure| number(median(&all(rounds, figure)));
            let best = all(rounds, |figures| figures.answers_per_s);
            let best = best.into_iter().fold(0.0, f64::max);
            let amiss: f64 = rounds.iter().map(|figures| figures.amiss).sum();
            let cpu = match contender {
                Contender::Nothing => String::new(),
                _ => middle(|figures| figures.cpu_s_per_100k),
            };
            writeln!(
                f,
                "| {what} | {} | {} ({}) | {} | {} | {cpu} | {} |",
                contender.name(),
                middle(|figures| figures.answers_per_s),
                number(best),
                middle(|figures| figures.p50_us),
                middle(|figures| figures.p99_us),
                number(amiss)
            )?;
        }
        Ok(())
    }
}

/// What was asked, and whether it was met.
#[derive(Default)]
pub struct Demands(String);

impl Demands {
    pub fn at_least(&mut self, what: &str, bound: f64, unit: &str, measured: f64) {
        self.add(
            what,
            &format!("at least {}{unit}", number(bound)),
            unit,
            measured,
            measured >= bound,
        );
    }

    pub fn at_most(&mut self, what: &str, bound: f64, unit: &str, measured: f64) {
        self.add(
            what,
            &format!("at most {}{unit}", number(bound)),
            unit,
            measured,
            measured <= bound,
        );
    }

    pub fn below(&mut self, what: &str, bound: f64, unit: &str, measured: f64) {
        self.add(
            what,
            &format!("less than {}{unit}", number(bound)),
            unit,
            measured,
            measured < bound,
        );
    }

    fn add(&mut self, what: &str, asked: &str, unit: &str, measured: f64, met: bool) {
        let verdict = if met { "pass" } else { "**miss**" };
        let _ = writeln!(
            self.0,
            "| {what} | {asked} | {}{unit} | {verdict} |",
            number(measured)
        );
    }
}

impl fmt::Display for Demands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| | asked | measured | |\n|---|---|--:|---|\n{}", self.0)
    }
}
