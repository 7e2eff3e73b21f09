//! Where a pool's connections are, and where they should be. Pure: counts in, a verdict out.

use std::fmt;

/// Connections on one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The server's name.
    pub server: String,
    /// Its zone.
    pub zone: String,
    /// Connections open to it.
    pub connections: u32,
}

/// Connections on all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread(pub Vec<Share>);

impl Spread {
    /// All connections.
    pub fn total(&self) -> u32 {
        self.0.iter().map(|share| share.connections).sum()
    }
}

impl fmt::Display for Spread {
    /// Servers of a zone together, zones apart: `a1 6, a2 6 | b1 0 | c1 0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut zone = None;
        for share in &self.0 {
            match zone {
                None => {}
                Some(zone) if zone == &share.zone => f.write_str(", ")?,
                Some(_) => f.write_str(" | ")?,
            }
            write!(f, "{} {}", share.server, share.connections)?;
            zone = Some(&share.zone);
        }
        Ok(())
    }
}

/// Where connections should be: in these zones only, evenly on their servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    zones: Vec<String>,
}

impl Expected {
    /// Evenly on the servers of these zones.
    pub fn in_zones(zones: &[&str]) -> Self {
        Expected {
            zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
        }
    }

    /// Whether `size` connections are spread like this.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn check(&self, spread: &Spread, size: u32) -> Result<(), String> {
        let zones = self.zones.join(" and ");
        let (inside, outside): (Vec<&Share>, Vec<&Share>) = spread
            .0
            .iter()
            .partition(|share| self.zones.contains(&share.zone));
        if let Some(stray) = outside.iter().find(|share| share.connections > 0) {
            return Err(format!(
                "{} on {}, outside zone {zones} ({spread})",
                stray.connections, stray.server
            ));
        }
        if spread.total() != size {
            return Err(format!(
                "{} connections instead of {size} ({spread})",
                spread.total()
            ));
        }
        let counts = || inside.iter().map(|share| share.connections);
        let (most, least) = (counts().max().unwrap_or(0), counts().min().unwrap_or(0));
        if most - least > 1 {
            return Err(format!("uneven in zone {zones}: {least} to {most} ({spread})"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(counts: [u32; 4]) -> Spread {
        let servers = super::super::plan::SERVERS.iter().zip(counts);
        let share = |((server, zone), connections): (&(&str, &str), u32)| Share {
            server: (*server).to_owned(),
            zone: (*zone).to_owned(),
            connections,
        };
        Spread(servers.map(share).collect())
    }

    #[test]
    fn a_spread_is_right_only_if_complete_even_and_in_its_zones() {
        let cases: [(&[&str], [u32; 4], bool); 9] = [
            (&["a"], [6, 6, 0, 0], true),
            (&["a"], [6, 5, 0, 0], false),
            (&["a"], [6, 5, 1, 0], false),
            (&["a"], [7, 5, 0, 0], false),
            (&["a"], [0, 0, 6, 6], false),
            (&["a"], [7, 6, 0, 0], false),
            (&["b", "c"], [0, 0, 6, 6], true),
            (&["b", "c"], [0, 0, 12, 0], false),
            (&["b", "c"], [0, 0, 0, 0], false),
        ];

        for (zones, counts, right) in cases {
            let verdict = Expected::in_zones(zones).check(&spread(counts), 12);
            assert_eq!(verdict.is_ok(), right, "{zones:?} {counts:?}: {verdict:?}");
        }
    }

    #[test]
    fn an_odd_number_of_connections_may_differ_by_one() {
        assert_eq!(Expected::in_zones(&["a"]).check(&spread([4, 3, 0, 0]), 7), Ok(()));
    }

    #[test]
    fn a_spread_is_written_by_zone() {
        assert_eq!(spread([6, 5, 1, 0]).to_string(), "a1 6, a2 5 | b1 1 | c1 0");
    }
}
