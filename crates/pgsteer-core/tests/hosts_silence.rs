//! Hosts that react to nothing: what it takes for one to be frozen, and what ends that.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod hosts_rig;

use std::time::Duration;

use pgsteer_core::hosts::{Action, Answer, FailureKind, Search};
use pgsteer_core::verdict::HostEffect;

use hosts_rig::{Rig, key, options};

const SECOND: Duration = Duration::from_secs(1);

/// The probe of b that is asked for now.
fn probe_of_b(rig: &mut Rig) -> u64 {
    let probe = rig
        .cluster
        .take_actions()
        .into_iter()
        .find_map(|action| match action {
            Action::StartProbe { key: of, id, .. } if of == key("b") => Some(id),
            _ => None,
        });
    probe.expect("b is probed")
}

fn down() -> Result<Answer, (HostEffect, String)> {
    Err((HostEffect::Failed(FailureKind::Down), "no answer".to_owned()))
}

/// A search finds that b does not answer, and has it probed.
fn connect_in_vain(rig: &mut Rig) {
    let tried = [key("a"), key("c")];
    let search = Search {
        tried: &tried,
        ..Search::default()
    };
    assert_eq!(rig.cluster.pick(&search, 0, rig.now), Ok(key("b")));
    rig.cluster
        .open_failed(&key("b"), FailureKind::Down, "no answer", rig.now);
    rig.cluster.nothing_fits(rig.now);
}

fn frozen(rig: &Rig) -> Vec<&'static str> {
    let names = ["a", "b", "c"];
    let frozen = rig.snapshot().frozen;
    names
        .into_iter()
        .filter(|name| frozen.contains_key(&key(name)))
        .collect()
}

/// A rig whose b has been found to be frozen.
fn with_b_frozen() -> Rig {
    let mut rig = Rig::standard(options());
    rig.cluster.unresponsive(&key("b"), rig.now);
    let id = probe_of_b(&mut rig);
    rig.now += 10 * SECOND;
    rig.cluster.silent(&key("b"), id, rig.now);
    rig.cluster.probe_finished(&key("b"), id, down(), rig.now);
    rig
}

#[test]
fn a_host_is_frozen_once_neither_an_open_connection_nor_a_new_one_gets_a_reaction() {
    let mut rig = with_b_frozen();
    assert_eq!(frozen(&rig), ["b"]);
    let told = rig.cluster.take_actions();
    assert!(
        told.contains(&Action::Changed),
        "those who look at snapshots are told: {told:?}"
    );
}

#[test]
fn a_connect_that_runs_out_of_time_is_not_enough() {
    let mut rig = Rig::standard(options());
    connect_in_vain(&mut rig);
    let id = probe_of_b(&mut rig);
    rig.cluster.silent(&key("b"), id, rig.now);
    rig.cluster.probe_finished(&key("b"), id, down(), rig.now);
    assert_eq!(frozen(&rig), [""; 0]);
}

/// It may have begun long before, and be about something else.
#[test]
fn a_probe_that_ran_already_when_there_was_no_reaction_is_not_enough() {
    let mut rig = Rig::standard(options());
    connect_in_vain(&mut rig);
    let id = probe_of_b(&mut rig);
    rig.cluster.unresponsive(&key("b"), rig.now);
    rig.cluster.silent(&key("b"), id, rig.now);
    rig.cluster.probe_finished(&key("b"), id, down(), rig.now);
    assert_eq!(frozen(&rig), [""; 0]);
    // The one that was asked for then comes next.
    rig.cluster.on_timer(rig.now);
    let id = probe_of_b(&mut rig);
    rig.cluster.silent(&key("b"), id, rig.now);
    assert_eq!(frozen(&rig), ["b"]);
}

#[test]
fn a_refused_connect_a_stopped_probe_and_a_stranger_are_not_frozen() {
    let mut rig = Rig::standard(options());
    rig.cluster.unresponsive(&key("b"), rig.now);
    let id = probe_of_b(&mut rig);
    rig.cluster.probe_finished(&key("b"), id, down(), rig.now);
    rig.cluster.silent(&key("b"), id, rig.now);
    rig.cluster.silent(&key("stranger"), id, rig.now);
    assert_eq!(frozen(&rig), [""; 0]);
}

#[test]
fn a_host_that_gives_a_connection_is_not_frozen_any_more() {
    let mut rig = with_b_frozen();
    rig.cluster.nothing_fits(rig.now);
    let id = probe_of_b(&mut rig);
    rig.cluster
        .probe_finished(&key("b"), id, Ok(Answer::default()), rig.now);
    assert_eq!(frozen(&rig), [""; 0]);
}

#[test]
fn each_time_it_is_found_out_has_its_own_moment() {
    let mut rig = with_b_frozen();
    let first = rig.snapshot().frozen[&key("b")];
    rig.now += 2 * SECOND;
    rig.cluster.unresponsive(&key("b"), rig.now);
    let id = probe_of_b(&mut rig);
    rig.now += 10 * SECOND;
    rig.cluster.silent(&key("b"), id, rig.now);
    assert!(rig.snapshot().frozen[&key("b")] > first);
}
