//! The load-balance modes and their spellings.

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
