//! Figures gathered over the rounds, and tables of their medians.

use std::fmt;

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
    /// Neither: no best round and no ratio is shown.
    Neither,
}

#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub better: Better,
}

impl Column {
    pub const fn lower(name: &'static str) -> Self {
        Column {
            name,
            better: Better::Lower,
        }
    }
    pub const fn higher(name: &'static str) -> Self {
        Column {
            name,
            better: Better::Higher,
        }
    }
    pub const fn plain(name: &'static str) -> Self {
        Column {
            name,
            better: Better::Neither,
        }
    }
}

/// Rows are contenders; the first one is what the others are compared with.
pub struct Table {
    pub title: String,
    columns: &'static [Column],
    rows: Vec<Row>,
}

struct Row {
    name: String,
    /// By column, a figure for each round.
    figures: Vec<Vec<f64>>,
}

impl Table {
    pub fn new(title: impl Into<String>, columns: &'static [Column]) -> Self {
        Table {
            title: title.into(),
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds one round's figures of one contender, in the order of the columns.
    pub fn add<const N: usize>(&mut self, name: &str, figures: [f64; N]) {
        assert_eq!(N, self.columns.len(), "a figure for every column");
        let place = self
            .rows
            .iter()
            .position(|row| row.name == name)
            .unwrap_or_else(|| {
                self.rows.push(Row {
                    name: name.to_owned(),
                    figures: vec![Vec::new(); N],
                });
                self.rows.len() - 1
            });
        for (gathered, figure) in self.rows[place].figures.iter_mut().zip(figures) {
            gathered.push(figure);
        }
    }

    /// The median of a contender's figures in a column.
    pub fn median(&self, name: &str, column: &str) -> f64 {
        median(self.figures(name, column))
    }

    /// How many times the other's figure a contender's is: the median of what each round says by itself. What the machine
    /// does meanwhile changes from round to round, and concerns the two of one round alike.
    pub fn ratio(&self, name: &str, other: &str, column: &str) -> f64 {
        let (ours, theirs) = (self.figures(name, column), self.figures(other, column));
        let by_round: Vec<_> = ours
            .iter()
            .zip(theirs)
            .map(|(ours, theirs)| ours / theirs)
            .collect();
        median(&by_round)
    }

    fn figures(&self, name: &str, column: &str) -> &[f64] {
        let place = self
            .columns
            .iter()
            .position(|known| known.name == column)
            .expect("the column is the table's");
        let row = self.rows.iter().find(|row| row.name == name);
        row.map_or(&[], |row| &row.figures[place])
    }

    fn cell(&self, row: &Row, place: usize) -> String {
        let (column, figures) = (self.columns[place], &row.figures[place]);
        let middle = median(figures);
        let best = match column.better {
            Better::Lower => figures.iter().copied().fold(f64::INFINITY, f64::min),
            Better::Higher => figures.iter().copied().fold(0.0, f64::max),
            Better::Neither => return number(middle),
        };
        let ours = median(&self.rows[0].figures[place]);
        let ratio = if ours > 0.0 {
            format!(", {:.2}x", middle / ours)
        } else {
            String::new()
        };
        format!("{} ({}{ratio})", number(middle), number(best))
    }
}

pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => f64::NAN,
        (length, half) if length % 2 == 1 => sorted[half],
        (_, half) => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// Three or four significant figures, thousands apart.
pub fn number(figure: f64) -> String {
    let text = match figure {
        _ if figure.is_nan() => "-".to_owned(),
        0.0 => "0".to_owned(),
        _ if figure >= 100.0 || figure.fract() == 0.0 => format!("{figure:.0}"),
        _ if figure >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    };
    if !text.bytes().all(|byte| byte.is_ascii_digit()) || text.len() < 5 {
        return text;
    }
    let groups: Vec<&str> = text
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| std::str::from_utf8(group).ok())
        .collect();
    groups.join(" ")
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header =
            std::iter::once(String::new()).chain(self.columns.iter().map(|column| column.name.to_owned()));
        let mut lines: Vec<Vec<String>> = vec![header.collect()];
        for row in &self.rows {
            let cells = (0..self.columns.len()).map(|place| self.cell(row, place));
            lines.push(std::iter::once(row.name.clone()).chain(cells).collect());
        }
        let width = |place: usize| {
            lines
                .iter()
                .map(|line| line[place].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..=self.columns.len()).map(width).collect();
        writeln!(f, "### {}\n", self.title)?;
        for (number, line) in lines.iter().enumerate() {
            for (place, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let width = *width;
                if place == 0 {
                    write!(f, "| {cell:<width$} |")?
                } else {
                    write!(f, " {cell:>width$} |")?
                }
            }
            writeln!(f)?;
            if number == 0 {
                for (place, width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(width + 1);
                    if place == 0 {
                        write!(f, "|{dashes}-|")?
                    } else {
                        write!(f, "{dashes}:|")?
                    }
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
