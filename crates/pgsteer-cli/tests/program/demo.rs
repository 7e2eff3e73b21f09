//! `pgsteer demo`: the whole story, told shortly, and that its checks can fail.

use std::time::Duration;

use pgsteer_cli::demo::outcome::Outcome;
use pgsteer_cli::demo::plan::Plan;
use pgsteer_cli::demo::play_plain;
use pgsteer_cli::demo::spread::Expected;
use pgsteer_cli::interrupt::Interrupt;
use pgsteer_cli::output::Output;

use crate::rig::{Going, run};

#[test]
fn the_story_ends_well_and_its_summary_tells_every_stage() {
    let run = run(&["demo", "--plain", "--seconds", "8"]);

    assert_eq!(run.code, Some(0), "{run:?}");
    for told in [
        "filled ",
        "zone a lost ",
        "zone a back ",
        "a2 frozen ",
        "a2 thawed ",
        "at the end ",
    ] {
        assert!(run.stdout.contains(told), "no {told:?} in {run:?}");
    }
    assert!(run.stdout.contains("from the kill to a full pool: "), "{run:?}");
    assert!(run.stdout.ends_with("result: good\n"), "{run:?}");
}

/// Plays the shortest story there is, with one expectation changed.
fn play(change: impl FnOnce(&mut Plan)) -> Outcome {
    let mut plan = Plan::lasting(Duration::ZERO, 7);
    change(&mut plan);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let mut output = Output::to(std::io::sink());
    let outcome = runtime.block_on(play_plain(plan, &mut output, &Interrupt::never(), None));
    outcome.expect("the demo can be set up")
}

#[test]
fn a_wrong_spread_at_the_end_is_found() {
    let outcome = play(|plan| plan.at_the_end = Expected::in_zones(&["b"]));

    assert!(!outcome.is_good(), "{outcome}");
    let last = outcome.stages.last().expect("there is a last stage");
    assert!(
        !last.right && outcome.stages.iter().filter(|stage| !stage.right).count() == 1,
        "{outcome}"
    );
    assert_eq!(outcome.wrong.len(), 1, "{outcome}");
    assert!(outcome.wrong[0].contains("outside zone b"), "{outcome}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_story_with_a_summary() {
    let mut going = Going::start(&["demo", "--plain"]);
    going.line().expect("a first line");

    going.interrupt();
    let run = going.end();

    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stdout
            .ends_with("result: interrupted; good as far as it went\n"),
        "{run:?}"
    );
}
