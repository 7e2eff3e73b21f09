//! Backends that die, freeze, refuse, answer nonsense or take their time, behind `pgsteer route`: what its clients get.

use rustix::process::Signal;

use crate::process::until;
use crate::tools::{Echo, Load, Router, load};

const READ: &str = "ERR backend read";
/// So slow that a backend can be done something to meanwhile.
const STEADY: [&str; 6] = ["--clients", "16", "--rate", "1000", "--seconds", "4"];

fn three() -> [Echo; 3] {
    [(); 3].map(|()| Echo::start(&[]))
}

/// Covers: S-44, S-69
#[test]
fn one_of_three_that_refuses_at_once_costs_less_than_a_request_in_a_thousand() {
    let refusing = Echo::start(&["--fault", "refuse"]);
    let (first, second) = (Echo::start(&[]), Echo::start(&[]));
    let router = Router::start(&[&refusing, &first, &second], &[]);

    let account = load(&router.address, &["--clients", "16", "--requests", "5000"]);

    account.assert_sound();
    assert!(account.count("answered") * 1000 > 5000 * 999, "{account:?}");
    assert_eq!(
        account.count("lost") + account.count("connect_failures"),
        0,
        "{account:?}"
    );
}

/// Covers: S-69
#[test]
fn one_of_three_that_closes_whatever_it_accepts_is_left_out_after_a_few_requests() {
    let closing = Echo::start(&["--fault", "close-at-accept"]);
    let (first, second) = (Echo::start(&[]), Echo::start(&[]));
    let router = Router::start(&[&closing, &first, &second], &[]);

    let account = load(&router.address, &["--clients", "16", "--requests", "5000"]);

    account.assert_sound();
    // Each of the clients may have had one under way there before enough had failed.
    assert!(account.count("errors") <= 64, "{account:?}");
    assert_eq!(account.count("lost"), 0, "{account:?}");
}

/// Covers: S-12, S-67
#[test]
fn a_backend_that_is_killed_costs_what_it_was_at_work_on_and_comes_back() {
    let [killed, second, third] = three();
    let router = Router::start(&[&killed, &second, &third], &[]);
    let mut under_way = Load::start(&router.address, &STEADY);
    under_way.until_answered();

    let Echo { process, address } = killed;
    process.kill();
    let account = under_way.end();

    account.assert_sound();
    assert!(account.count("errors") <= 32, "{account:?}");
    assert_eq!(account.count("lost"), 0, "{account:?}");

    let again = Echo::start_at(&address, &[]);
    let before = router.figure_of("backend_handled", &again);
    until("it is used again", || {
        load(&router.address, &["--clients", "4", "--requests", "40"]).assert_all_answered();
        router.figure_of("backend_handled", &again) > before
    });
}

/// Covers: S-68
#[test]
fn a_backend_that_freezes_is_left_out_and_no_late_answer_of_it_reaches_anybody() {
    let [frozen, second, third] = three();
    let options = ["--backend-timeout", "300ms", "--health-check-interval", "1s"];
    let router = Router::start(&[&frozen, &second, &third], &options);
    let mut under_way = Load::start(&router.address, &STEADY);
    under_way.until_answered();

    frozen.process.signal(Signal::STOP);
    until("it is left out", || {
        router.figure_of("backend_left_out", &frozen) == 1
    });
    let failed = router.figure_of("backend_failed", &frozen);
    frozen.process.signal(Signal::CONT);
    let account = under_way.end();

    account.assert_sound();
    account.assert_no_error_but(READ);
    assert_eq!(account.count("lost"), 0, "{account:?}");
    // Clients wait while it is silent, so no more than one request of each fails before it is out.
    assert!(
        failed <= 16 && account.count("errors") <= 32,
        "{failed} failed: {account:?}"
    );
    let before = router.figure_of("backend_handled", &frozen);
    until("it is used again", || {
        load(&router.address, &["--clients", "4", "--requests", "40"]).assert_sound();
        router.figure_of("backend_handled", &frozen) > before
    });
}

/// Covers: S-04, S-23, S-70
#[test]
fn what_is_no_answer_is_an_error_to_its_client_and_to_nobody_else() {
    for fault in [
        "garbage@0.05",
        "oversize@0.05",
        "cut=2@0.05",
        "cut=6@0.05",
        // Of connections, where the others are of answers: with this seed the second one is closed already.
        "close@0.6",
    ] {
        let faulty = Echo::start(&["--fault", fault, "--spare-pings", "--seed", "1"]);
        let good = Echo::start(&[]);
        let router = Router::start(&[&faulty, &good], &[]);

        let account = load(&router.address, &["--clients", "8", "--requests", "1500"]);

        account.assert_sound();
        account.assert_no_error_but(READ);
        assert_eq!(account.count("lost"), 0, "{fault}: {account:?}");
        assert!(
            router.figure_of("backend_failed", &faulty) > 0,
            "{fault}: {account:?}"
        );
        assert_eq!(
            router.figure_of("backend_failed", &good),
            0,
            "{fault}: {account:?}"
        );
        let wrong = account.count("errors") as f64 / account.count("sent") as f64;
        assert!(wrong < 0.06, "{fault}: {account:?}");
    }
}

/// Covers: S-38
#[test]
fn an_answer_that_comes_twice_reaches_its_client_once_and_no_other_client() {
    let twice = Echo::start(&["--fault", "twice@0.2", "--spare-pings", "--seed", "1"]);
    let router = Router::start(&[&twice], &[]);

    let account = load(&router.address, &["--clients", "8", "--requests", "1500"]);

    account.assert_sound();
    assert!(account.count("answered") > 0, "{account:?}");
}

/// Covers: S-25
#[test]
fn a_long_answer_that_breaks_off_cuts_its_client_and_no_other() {
    let cutting = Echo::start(&["--fault", "cut=100000@0.1", "--seed", "1"]);
    let router = Router::start(&[&cutting], &["--failure-threshold", "1000"]);

    let account = load(
        &router.address,
        &["--clients", "4", "--requests", "100", "--size", "300000"],
    );

    account.assert_sound();
    let cut = account.lost("cut") + account.lost("reset");
    assert_eq!(account.count("lost"), cut, "{account:?}");
    assert!(cut > 0 && account.count("answered") > 50, "{account:?}");
    assert_eq!(account.count("answered") + cut, 100, "{account:?}");
}

/// Covers: S-05
#[test]
fn payloads_are_nobodys_business_so_a_corrupt_one_is_passed_on_as_it_is() {
    let corrupting = Echo::start(&["--fault", "corrupt"]);
    let router = Router::start(&[&corrupting], &[]);

    let account = load(&router.address, &["--clients", "2", "--requests", "50"]);

    assert_eq!(
        (account.count("corrupted"), account.code),
        (50, Some(1)),
        "{account:?}"
    );
}

/// Covers: S-71
#[test]
fn a_slow_backend_gets_less_and_everything_is_answered() {
    let slow = Echo::start(&["--delay-ms", "30", "--jitter-ms", "30"]);
    let [first, second, _] = three();
    let router = Router::start(&[&slow, &first, &second], &[]);

    let account = load(&router.address, &["--clients", "12", "--requests", "3000"]);

    account.assert_all_answered();
    let handled = |backend| router.figure_of("backend_handled", backend);
    let (slow, first, second) = (handled(&slow), handled(&first), handled(&second));
    assert!(
        slow > 0 && slow * 2 < first.min(second),
        "{slow}, {first}, {second}"
    );
}

/// Covers: S-06
#[test]
fn answers_to_pipelined_requests_are_in_order_whichever_backend_is_faster() {
    let slow = Echo::start(&["--jitter-ms", "5"]);
    let fast = Echo::start(&[]);
    let router = Router::start(&[&slow, &fast], &["--pipeline", "16"]);

    let account = load(
        &router.address,
        &[
            "--clients",
            "4",
            "--pipeline",
            "16",
            "--requests",
            "3000",
            "--size",
            "200",
        ],
    );

    account.assert_all_answered();
    assert!(router.figure_of("backend_handled", &slow) > 0 && router.figure_of("backend_handled", &fast) > 0);
}

/// Covers: S-27
#[test]
fn connections_that_backends_close_cost_no_request_and_no_request_is_done_twice() {
    let options = ["--answers-per-connection", "5"];
    let backends = [Echo::start(&options), Echo::start(&options)];
    let router = Router::start(&[&backends[0], &backends[1]], &["--enable-health-check", "off"]);

    let account = load(&router.address, &["--clients", "8", "--requests", "2000"]);

    account.assert_all_answered();
    let served = backends.map(|backend| {
        let ended = backend.process.terminate();
        let words: Vec<String> = ended.stdout.join("").split(' ').map(str::to_owned).collect();
        words[2].parse::<u64>().expect("requests are counted")
    });
    assert_eq!(served.iter().sum::<u64>(), 2000, "{served:?}");
}
