//! The load-balance modes and their spellings.

use std::fmt;

use crate::host::NodeType;

/// Which servers new connections go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoadBalance {
    /// No discovery: every connection goes to the first configured host that works.
    #[default]
    Off,
    /// Every discovered server.
    Any,
    /// Primary nodes only; refuses rather than using another.
    OnlyPrimary,
    /// Read replicas only; refuses rather than using another.
    OnlyReplica,
    /// Primary nodes; read replicas when no primary is up.
    PreferPrimary,
    /// Read replicas; primaries when no replica is up.
    PreferReplica,
}

/// Every spelling of the text form; the first of a mode is how it is printed.
const SPELLINGS: [(&str, LoadBalance); 7] = [
    ("false", LoadBalance::Off),
    ("any", LoadBalance::Any),
    ("true", LoadBalance::Any),
    ("only-primary", LoadBalance::OnlyPrimary),
    ("only-rr", LoadBalance::OnlyReplica),
    ("prefer-primary", LoadBalance::PreferPrimary),
    ("prefer-rr", LoadBalance::PreferReplica),
];

/// Which node types a mode takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Every,
    Only(NodeType),
    Prefer(NodeType),
}

impl LoadBalance {
    /// Reads a spelling of the smart drivers, in any case: `true`, `false`, `any`, `only-primary`, `only-rr`,
    /// `prefer-primary`, `prefer-rr`. With underscores it is none of them. `None` for any other text.
    pub fn parse_text(text: &str) -> Option<Self> {
        SPELLINGS
            .iter()
            .find(|(spelling, _)| spelling.eq_ignore_ascii_case(text))
            .map(|(_, mode)| *mode)
    }

    /// Whether servers are looked for at all.
    pub fn discovers(self) -> bool {
        self != LoadBalance::Off
    }

    pub(super) fn wanted(self) -> Wanted {
        match self {
            LoadBalance::Off | LoadBalance::Any => Wanted::Every,
            LoadBalance::OnlyPrimary => Wanted::Only(NodeType::Primary),
            LoadBalance::OnlyReplica => Wanted::Only(NodeType::ReadReplica),
            LoadBalance::PreferPrimary => Wanted::Prefer(NodeType::Primary),
            LoadBalance::PreferReplica => Wanted::Prefer(NodeType::ReadReplica),
        }
    }
}

impl fmt::Display for LoadBalance {
    /// The spelling with hyphens; `false` for [`LoadBalance::Off`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spelling = SPELLINGS
            .iter()
            .find(|(_, mode)| mode == self)
            .map_or("false", |(spelling, _)| spelling);
        f.write_str(spelling)
    }
}

/// Why a mode that refuses has nothing to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refused {
    /// `OnlyPrimary`, and no primary works.
    Primary,
    /// `OnlyReplica`, and no read replica works.
    ReadReplica,
    /// Only the listed placements may be used, and none of their servers works.
    Cluster,
}
