//! What a server is at the moment, and which servers a target takes.
//!
//! A role is only ever what the server itself answered on a connection, or what its refusal said. What is remembered of
//! it orders hosts; it never replaces asking.

use std::fmt;

/// What a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Not in recovery, and its sessions take writes unless they say otherwise.
    Primary,
    /// Not in recovery, but its sessions are read-only unless they say otherwise (`default_transaction_read_only`).
    ReadOnlyPrimary,
    /// In recovery, and takes sessions: a hot standby.
    Standby,
    /// Alive and in recovery, but takes no sessions (SQLSTATE 57M02, a Greenplum standby coordinator).
    ColdStandby,
}

impl Role {
    /// The role of a server that answered both questions.
    pub fn of_session(in_recovery: bool, read_only: bool) -> Self {
        match (in_recovery, read_only) {
            (true, _) => Role::Standby,
            (false, true) => Role::ReadOnlyPrimary,
            (false, false) => Role::Primary,
        }
    }

    /// Whether it is no standby.
    pub fn is_primary(self) -> bool {
        matches!(self, Role::Primary | Role::ReadOnlyPrimary)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Primary => "primary",
            Role::ReadOnlyPrimary => "read-only primary",
            Role::Standby => "standby",
            Role::ColdStandby => "standby that takes no sessions",
        })
    }
}

/// Which servers sessions are wanted on: libpq's `target_session_attrs` and what other drivers have besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TargetSessionAttrs {
    /// Any server that takes sessions; nothing is asked.
    #[default]
    Any,
    /// A server that takes writes: not in recovery, and not read-only by default.
    ReadWrite,
    /// A server whose sessions are read-only: a standby, or a primary that is read-only by default.
    ReadOnly,
    /// A server that is not in recovery, read-only by default or not.
    Primary,
    /// A server in recovery.
    Standby,
    /// A primary; another server while there is none.
    PreferPrimary,
    /// A standby; another server while there is none.
    PreferStandby,
    /// A server whose sessions are read-only; another while there is none.
    PreferReadOnly,
}

/// How well a server suits a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fit {
    /// It is what is wanted.
    Wanted,
    /// It will do while nothing better is there.
    Accepted,
    /// It will not do.
    Unfit,
}

/// Every spelling of the text form that libpq, npgsql and pgjdbc's like have; the first of a target is how it is printed.
const SPELLINGS: [(&str, TargetSessionAttrs); 8] = [
    ("any", TargetSessionAttrs::Any),
    ("read-write", TargetSessionAttrs::ReadWrite),
    ("read-only", TargetSessionAttrs::ReadOnly),
    ("primary", TargetSessionAttrs::Primary),
    ("standby", TargetSessionAttrs::Standby),
    ("prefer-primary", TargetSessionAttrs::PreferPrimary),
    ("prefer-standby", TargetSessionAttrs::PreferStandby),
    ("prefer-read-only", TargetSessionAttrs::PreferReadOnly),
];

impl TargetSessionAttrs {
    /// Every target, `any` first.
    pub const ALL: [TargetSessionAttrs; 8] = [
        TargetSessionAttrs::Any,
        TargetSessionAttrs::ReadWrite,
        TargetSessionAttrs::ReadOnly,
        TargetSessionAttrs::Primary,
        TargetSessionAttrs::Standby,
        TargetSessionAttrs::PreferPrimary,
        TargetSessionAttrs::PreferStandby,
        TargetSessionAttrs::PreferReadOnly,
    ];

    /// Reads the text form with hyphens, lower case: `any`, `read-write`, `read-only`, `primary`, `standby`,
    /// `prefer-primary`, `prefer-standby`, `prefer-read-only`. `None` for any other text.
    pub fn parse_text(text: &str) -> Option<Self> {
        SPELLINGS
            .iter()
            .find(|(spelling, _)| *spelling == text)
            .map(|(_, target)| *target)
    }

    /// Whether a connection's server must be asked what it is.
    pub fn asks(self) -> bool {
        self != TargetSessionAttrs::Any
    }

    /// How well a server of this role suits.
    pub fn fit(self, role: Role) -> Fit {
        let strict = |wanted: bool| if wanted { Fit::Wanted } else { Fit::Unfit };
        let preferring = |wanted: bool| if wanted { Fit::Wanted } else { Fit::Accepted };
        match self {
            _ if role == Role::ColdStandby => Fit::Unfit,
            TargetSessionAttrs::Any => Fit::Wanted,
            TargetSessionAttrs::ReadWrite => strict(role == Role::Primary),
            TargetSessionAttrs::ReadOnly => strict(role != Role::Primary),
            TargetSessionAttrs::Primary => strict(role.is_primary()),
            TargetSessionAttrs::Standby => strict(!role.is_primary()),
            TargetSessionAttrs::PreferPrimary => preferring(role.is_primary()),
            TargetSessionAttrs::PreferStandby => preferring(!role.is_primary()),
            TargetSessionAttrs::PreferReadOnly => preferring(role != Role::Primary),
        }
    }
}

impl fmt::Display for TargetSessionAttrs {
    /// The spelling with hyphens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spelling = SPELLINGS
            .iter()
            .find(|(_, target)| target == self)
            .map_or("any", |(spelling, _)| spelling);
        f.write_str(spelling)
    }
}

/// In which order the configured hosts are tried where nothing else decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HostOrder {
    /// As listed: the first that works.
    #[default]
    Listed,
    /// In random order, anew for each connection (libpq's `load_balance_hosts=random`).
    Random,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_takes_the_roles_it_names() {
        use Fit::{Accepted, Unfit, Wanted};
        // primary, read-only primary, standby
        let table = [
            (TargetSessionAttrs::Any, [Wanted, Wanted, Wanted]),
            (TargetSessionAttrs::ReadWrite, [Wanted, Unfit, Unfit]),
            (TargetSessionAttrs::ReadOnly, [Unfit, Wanted, Wanted]),
            (TargetSessionAttrs::Primary, [Wanted, Wanted, Unfit]),
            (TargetSessionAttrs::Standby, [Unfit, Unfit, Wanted]),
            (TargetSessionAttrs::PreferPrimary, [Wanted, Wanted, Accepted]),
            (TargetSessionAttrs::PreferStandby, [Accepted, Accepted, Wanted]),
            (TargetSessionAttrs::PreferReadOnly, [Accepted, Wanted, Wanted]),
        ];
        for (target, fits) in table {
            let roles = [Role::Primary, Role::ReadOnlyPrimary, Role::Standby];
            assert_eq!(roles.map(|role| target.fit(role)), fits, "{target}");
            assert_eq!(target.fit(Role::ColdStandby), Unfit, "{target}");
        }
    }

    #[test]
    fn every_target_reads_back_from_its_text() {
        for target in TargetSessionAttrs::ALL {
            assert_eq!(TargetSessionAttrs::parse_text(&target.to_string()), Some(target));
        }
        assert_eq!(TargetSessionAttrs::parse_text("read_write"), None);
    }

    #[test]
    fn a_server_in_recovery_is_a_standby_whatever_its_default() {
        assert_eq!(Role::of_session(true, true), Role::Standby);
        assert_eq!(Role::of_session(true, false), Role::Standby);
        assert_eq!(Role::of_session(false, true), Role::ReadOnlyPrimary);
        assert_eq!(Role::of_session(false, false), Role::Primary);
    }
}
