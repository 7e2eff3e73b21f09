//! What a pass over hosts means for a breaker.

use pgsteer_core::breaker::HostsMet;
use pgsteer_core::hosts::{FailureKind, Role};
use pgsteer_core::verdict::{BreakerEffect, HostEffect};

const DOWN: HostEffect = HostEffect::Failed(FailureKind::Down);
const REJECTED: HostEffect = HostEffect::Failed(FailureKind::Rejected);
const NOT_READY: HostEffect = HostEffect::Failed(FailureKind::NotReady);
const FULL: HostEffect = HostEffect::Failed(FailureKind::Full);
const COLD: HostEffect = HostEffect::Role(Role::ColdStandby);
const LOGIN: HostEffect = HostEffect::JudgeAtEndOfPass;
const OURS: HostEffect = HostEffect::Nothing;

/// Covers: B-08, B-10
#[test]
fn a_pass_without_a_connection_has_failed_if_some_host_failed_and_none_answered() {
    let failure = Some(BreakerEffect::Failure);
    let neutral = Some(BreakerEffect::Neutral);
    let rows: &[(&[HostEffect], Option<BreakerEffect>)] = &[
        (&[], None),
        (&[OURS], None),
        (&[DOWN], failure),
        (&[DOWN, DOWN, DOWN], failure),
        (&[REJECTED], failure),
        (&[DOWN, OURS], failure),
        (&[FULL], neutral),
        (&[NOT_READY], neutral),
        (&[COLD], neutral),
        (&[LOGIN], neutral),
        (&[DOWN, FULL], neutral),
        (&[NOT_READY, DOWN], neutral),
        (&[DOWN, COLD, REJECTED], neutral),
        (&[LOGIN, DOWN], neutral),
    ];
    for (hosts, expected) in rows {
        let mut met = HostsMet::default();
        for effect in *hosts {
            met.failed(*effect);
        }
        assert_eq!(met.effect(), *expected, "{hosts:?}");
    }
}

#[test]
fn a_host_whose_connection_was_of_no_use_has_answered() {
    let mut met = HostsMet::default();
    met.failed(DOWN);
    met.answered();
    assert_eq!(met.effect(), Some(BreakerEffect::Neutral));
}
