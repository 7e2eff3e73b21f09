//! Where servers run and which places are preferred: placements, topology keys and their levels.
//!
//! All names are held Unicode case-folded, so that matching is plain equality. Nothing here knows of hosts or of their
//! state.

use std::fmt;
use std::str::FromStr;

use unicase::UniCase;

/// The preferences a topology key may have; lower is preferred.
pub const PREFERENCES: std::ops::RangeInclusive<u8> = 1..=10;

/// The preference of a key that names none.
pub const DEFAULT_PREFERENCE: u8 = 1;

/// The text that stands for any zone of a region.
const ANY_ZONE: &str = "*";

fn fold(name: &str) -> String {
    UniCase::unicode(name).to_folded_case()
}

/// Where a server runs, case-folded. Parts the server did not tell are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Placement {
    cloud: String,
    region: String,
    zone: String,
}

impl Placement {
    /// A placement from names in any case; they are folded.
    pub fn new(cloud: &str, region: &str, zone: &str) -> Self {
        Placement {
            cloud: fold(cloud),
            region: fold(region),
            zone: fold(zone),
        }
    }

    /// The cloud, case-folded; empty if unknown.
    pub fn cloud(&self) -> &str {
        &self.cloud
    }

    /// The region, case-folded; empty if unknown.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// The zone, case-folded; empty if unknown.
    pub fn zone(&self) -> &str {
        &self.zone
    }
}

impl fmt::Display for Placement {
    /// `cloud.region.zone`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.cloud, self.region, self.zone)
    }
}

/// One place to prefer: a zone, or any zone of a region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopologyKey {
    cloud: String,
    region: String,
    zone: Option<String>,
    preference: u8,
}

impl TopologyKey {
    /// A key from names in any case; a zone of `*` means any zone of the region.
    ///
    /// # Errors
    ///
    /// If a name is empty or the preference is outside 1 to 10; the error's part is the key as it would be printed.
    pub fn new(cloud: &str, region: &str, zone: &str, preference: u8) -> Result<Self, TopologyKeyError> {
        if [cloud, region, zone].contains(&"") || !PREFERENCES.contains(&preference) {
            return Err(TopologyKeyError {
                part: format!("{cloud}.{region}.{zone}:{preference}"),
            });
        }
        let zone = if zone == ANY_ZONE { None } else { Some(fold(zone)) };
        Ok(TopologyKey {
            cloud: fold(cloud),
            region: fold(region),
            zone,
            preference,
        })
    }

    /// One part of the text form, already trimmed.
    fn parse_part(part: &str) -> Option<Self> {
        let (place, preference) = match part.split_once(':') {
            None => (part, DEFAULT_PREFERENCE),
            Some((place, digits)) => {
                // Rust's own parser would let a plus sign through.
                if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                (place, digits.parse().ok()?)
            }
        };
        let mut fields = place.split('.');
        let (cloud, region, zone) = (fields.next()?, fields.next()?, fields.next()?);
        if fields.next().is_some() {
            return None;
        }
        TopologyKey::new(cloud, region, zone, preference).ok()
    }

    /// The cloud, case-folded.
    pub fn cloud(&self) -> &str {
        &self.cloud
    }

    /// The region, case-folded.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// The zone, case-folded; `None` for any zone of the region.
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// The level this key belongs to, 1 to 10; lower is preferred.
    pub fn preference(&self) -> u8 {
        self.preference
    }

    /// Whether a server in this place matches the key.
    pub fn matches(&self, placement: &Placement) -> bool {
        self.cloud == placement.cloud
            && self.region == placement.region
            && self.zone.as_ref().is_none_or(|zone| *zone == placement.zone)
    }
}

impl fmt::Display for TopologyKey {
    /// `cloud.region.zone:preference`, the preference always written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone.as_deref().unwrap_or(ANY_ZONE);
        write!(f, "{}.{}.{}:{}", self.cloud, self.region, zone, self.preference)
    }
}

/// The places to prefer. Keys of one preference form one level; levels are tried from the lowest number up. Empty by
/// default, which prefers no place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TopologyKeys {
    keys: Vec<TopologyKey>,
}

impl TopologyKeys {
    /// Reads the text form: parts `cloud.region.zone` with an optional `:preference`, separated by commas. White space
    /// around a part is ignored, and so are empty parts; white space within a name is kept.
    ///
    /// # Errors
    ///
    /// The first bad part, trimmed.
    pub fn parse(text: &str) -> Result<Self, TopologyKeyError> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let keys = parts
            .map(|part| {
                TopologyKey::parse_part(part).ok_or_else(|| TopologyKeyError {
                    part: part.to_owned(),
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(TopologyKeys { keys })
    }

    /// Reads the text form from bytes that ought to be UTF-8, as an environment variable or a file gives them.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse); bytes that are not UTF-8 are named whole, the bad ones replaced by U+FFFD.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Self, TopologyKeyError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text),
            Err(_) => Err(TopologyKeyError {
                part: String::from_utf8_lossy(bytes).into_owned(),
            }),
        }
    }

    /// Reads the structured form: (cloud, region, zone, preference), with a zone of `*` for any zone.
    ///
    /// # Errors
    ///
    /// The first bad tuple, written as `cloud.region.zone:preference`.
    pub fn from_tuples<I, S>(tuples: I) -> Result<Self, TopologyKeyError>
    where
        I: IntoIterator<Item = (S, S, S, u8)>,
        S: AsRef<str>,
    {
        let keys = tuples
            .into_iter()
            .map(|(cloud, region, zone, preference)| {
                TopologyKey::new(cloud.as_ref(), region.as_ref(), zone.as_ref(), preference)
            })
            .collect::<Result<_, _>>()?;
        Ok(TopologyKeys { keys })
    }

    /// Whether no place is preferred.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys in the order given.
    pub fn iter(&self) -> std::slice::Iter<'_, TopologyKey> {
        self.keys.iter()
    }

    /// Every level a server in this place belongs to.
    pub fn levels(&self, placement: &Placement) -> Levels {
        let matching = self.keys.iter().filter(|key| key.matches(placement));
        Levels(matching.fold(0, |bits, key| bits | (1 << key.preference)))
    }
}

impl<'a> IntoIterator for &'a TopologyKeys {
    type Item = &'a TopologyKey;
    type IntoIter = std::slice::Iter<'a, TopologyKey>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromStr for TopologyKeys {
    type Err = TopologyKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for TopologyKeys {
    /// The text form, every preference written. Parsing it gives the same keys back, unless a key of the structured
    /// form has a name the text form cannot hold (with a dot, comma or colon, or outer white space).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, key) in self.keys.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            fmt::Display::fmt(key, f)?;
        }
        Ok(())
    }
}

/// The levels a server belongs to, as a set of preferences. A server can match keys of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels(u16);

impl Levels {
    /// The set that holds the levels of both.
    pub fn union(self, other: Levels) -> Levels {
        Levels(self.0 | other.0)
    }

    /// The preferred level: the lowest number in the set. `None` if no key matches.
    pub fn lowest(self) -> Option<u8> {
        PREFERENCES
            .into_iter()
            .find(|preference| self.contains(*preference))
    }

    /// Whether the set holds this preference.
    pub fn contains(self, preference: u8) -> bool {
        PREFERENCES.contains(&preference) && self.0 & (1 << preference) != 0
    }
}

/// A topology key that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyKeyError {
    part: String,
}

impl TopologyKeyError {
    /// The offending part alone: of a list, only the bad key.
    pub fn part(&self) -> &str {
        &self.part
    }
}

impl fmt::Display for TopologyKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid topology key `{}`: expected cloud.region.zone or cloud.region.* with an optional :preference from 1 to 10",
            self.part
        )
    }
}

impl std::error::Error for TopologyKeyError {}
