//! What servers are known to be: how it orders them, how long it keeps one from being asked again, where it lets
//! connections stay, and when hosts are asked.

#![allow(clippy::panic, reason = "a test fails by panicking")]

mod hosts_rig;

use std::collections::BTreeSet;
use std::time::Duration;

use hosts_rig::{Behaviour, Listing, NotOpened, Rig, joined, key, millis, options, primary, replica};
use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::{
    ClusterOptions, FailureKind, Fit, HostOrder, LoadBalance, LogLevel, NoHost, Refused, Role, Search,
    TargetSessionAttrs,
};
use pgsteer_core::verdict::HostEffect;

use Role::{ColdStandby, Primary, ReadOnlyPrimary, Standby};
use TargetSessionAttrs::{Any, PreferPrimary, PreferStandby, ReadWrite};

const TTL: Duration = Duration::from_secs(10);

fn listed() -> ClusterOptions {
    ClusterOptions {
        load_balance: LoadBalance::Off,
        ..options()
    }
}

fn random() -> ClusterOptions {
    ClusterOptions {
        host_order: HostOrder::Random,
        ..listed()
    }
}

/// Configured hosts whose roles matter.
fn watching(options: ClusterOptions, seeds: &[&str], target: TargetSessionAttrs) -> Rig {
    let mut rig = Rig::new(options, seeds, Listing::NoFunction);
    rig.target = target;
    rig.cluster.watch_roles(true);
    rig.settle();
    rig.take_lines();
    rig
}

/// The host has just said what it is.
fn told(rig: &mut Rig, host: &str, role: Role) {
    rig.cluster.answered(&key(host), role, rig.now);
}

/// What has become of a host before a search: nothing is known of it (`-`), or a letter for its role, small if that is
/// stale: primary, standby, cold standby, read-only primary; or it is down (`!`) or was down until just now (`?`).
fn prepare(rig: &mut Rig, states: &[(&str, &str)]) {
    let role = |letter: &str| match letter.to_ascii_uppercase().as_str() {
        "P" => Primary,
        "S" => Standby,
        "C" => ColdStandby,
        _ => ReadOnlyPrimary,
    };
    let is_stale = |state: &&(&str, &str)| state.1.chars().all(|letter| letter.is_ascii_lowercase());
    for (host, letter) in states.iter().filter(is_stale) {
        told(rig, host, role(letter));
    }
    rig.now += TTL;
    for (host, letter) in states.iter().filter(|state| !is_stale(state)) {
        match *letter {
            "-" => {}
            "!" => rig
                .cluster
                .open_failed(&key(host), FailureKind::Down, "refused", rig.now),
            fresh => told(rig, host, role(fresh)),
        }
    }
    rig.cluster.take_actions();
}

/// The hosts one search comes to, in order.
fn order(rig: &mut Rig, search: Search<'_>) -> String {
    let mut tried = Vec::new();
    loop {
        let search = Search {
            target: rig.target,
            tried: &tried,
            ..search
        };
        match rig.cluster.pick(&search, 0, rig.now) {
            Ok(host) => {
                rig.cluster.cancelled(&host);
                tried.push(host);
            }
            Err(NoHost::NoServer) => return joined(&tried),
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Covers: Q-13
#[test]
fn hosts_come_in_the_order_of_what_is_known_of_them_and_all_come_in_the_end() {
    // target, what is known of a, b, c and d, the order of a search, that of one that has a connection that will do
    let table = [
        (ReadWrite, ["-", "-", "-", "-"], "a b c d", "a b c d"),
        (ReadWrite, ["-", "P", "-", "-"], "b a c d", "b a c d"),
        // however old it is, what is known to be wanted comes before what is not known
        (ReadWrite, ["-", "p", "P", "-"], "b c a d", "b c a d"),
        // what is not known comes before what is known to be unfit, and what may have changed before what has not
        (ReadWrite, ["S", "s", "-", "P"], "d c b a", "d c b"),
        (ReadWrite, ["S", "S", "S", "s"], "d a b c", "d"),
        (ReadWrite, ["R", "C", "-", "s"], "c d a b", "c d"),
        (ReadWrite, ["!", "S", "s", "-"], "d c b a", "d c"),
        (ReadWrite, ["!", "!", "P", "!"], "c a b d", "c"),
        // which standby is asked first does not depend on when the others were asked
        (PreferStandby, ["P", "p", "-", "S"], "d c a b", "d c b"),
        (PreferStandby, ["P", "p", "P", "p"], "a b c d", "b d"),
        (PreferStandby, ["c", "C", "P", "p"], "c d a b", "d a"),
        (PreferPrimary, ["S", "s", "P", "R"], "c d a b", "c d b"),
        // whoever asks nothing does not care for what others know, except that a cold standby takes no sessions
        (Any, ["s", "P", "-", "S"], "a b c d", "a b c d"),
        (Any, ["C", "c", "-", "!"], "c b a d", "c b"),
    ];
    for (target, states, expected, with_spare) in table {
        let mut rig = watching(listed(), &["a", "b", "c", "d"], target);
        let states: Vec<_> = ["a", "b", "c", "d"].into_iter().zip(states).collect();
        prepare(&mut rig, &states);
        assert_eq!(
            order(&mut rig, Search::default()),
            expected,
            "{target} {states:?}"
        );
        let spare = Search {
            spare: true,
            ..Search::default()
        };
        assert_eq!(order(&mut rig, spare), with_spare, "{target} {states:?}");
    }
}

#[test]
fn what_is_known_is_fresh_until_its_time_is_over_to_the_instant() {
    // the time to live, the age, whether a search that has a connection that will do asks again
    let table = [
        (10_000, 0, false),
        (10_000, 9_999, false),
        (10_000, 10_000, true),
        (0, 0, true),
    ];
    for (ttl, age, asks) in table {
        let options = ClusterOptions {
            role_ttl: millis(ttl),
            ..listed()
        };
        let mut rig = watching(options, &["a"], PreferStandby);
        told(&mut rig, "a", Primary);
        rig.now += millis(age);
        let picked = rig.pick_for(PreferStandby, &[], &[], true, true);
        assert_eq!(picked.is_ok(), asks, "{ttl} {age}");
    }
}

/// Covers: F-03
#[test]
fn after_an_answer_failed_hosts_whose_delay_is_not_over_are_left_out_and_so_are_those_being_probed() {
    let mut rig = watching(listed(), &["a", "b"], ReadWrite);
    rig.set("a", Behaviour::Hangs);
    rig.fail("a");
    told(&mut rig, "b", Standby);
    let answered = Search {
        answered: true,
        ..Search::default()
    };
    assert_eq!(order(&mut rig, Search::default()), "b a");
    assert_eq!(order(&mut rig, answered), "b");
    rig.now += millis(1000);
    assert_eq!(order(&mut rig, answered), "b a", "its delay is over");
    rig.refresh();
    assert_eq!(order(&mut rig, answered), "b", "it is being probed");
    assert_eq!(order(&mut rig, Search::default()), "b a");
}

/// Covers: F-03
#[test]
fn a_blackholed_primary_does_not_hold_up_a_search_that_is_repeated() {
    let mut rig = watching(listed(), &["a", "b"], ReadWrite);
    rig.set("a", Behaviour::Unreachable);
    rig.set("b", Behaviour::Is(Standby));
    assert!(rig.open().is_err(), "the first search finds out");
    rig.advance(millis(250));
    for _ in 0..50 {
        let before = rig.now;
        assert_eq!(rig.open(), Err(NotOpened::NoFit("b standby".to_owned())));
        assert_eq!(rig.now, before);
        rig.advance(millis(500));
    }
    rig.set("a", Behaviour::Up);
    rig.advance(Duration::from_secs(21));
    assert_eq!(
        rig.open().as_deref(),
        Ok("a"),
        "it was probed beside the searches"
    );
}

#[test]
fn a_failed_host_is_probed_at_once_when_nothing_fits_and_never_twice_at_once() {
    let mut rig = watching(listed(), &["a", "b"], ReadWrite);
    rig.set("a", Behaviour::Hangs);
    rig.fail("a");
    let failure = rig.snapshot().failures[&key("a")].clone();
    for _ in 0..5 {
        rig.cluster.nothing_fits(rig.now);
        rig.settle();
    }
    assert_eq!(rig.probes.len(), 1);
    rig.advance(Duration::from_secs(20));
    let after = &rig.snapshot().failures[&key("a")];
    assert!(after.at > failure.at, "it has failed again");
    rig.cluster.nothing_fits(rig.now);
    rig.settle();
    assert_eq!(rig.probes.len(), 2);
}

#[test]
fn a_probe_before_the_delay_is_over_is_no_further_failure_in_the_row() {
    let options = ClusterOptions {
        failed_host_max_delay: Some(Duration::from_secs(600)),
        ..listed()
    };
    let mut rig = watching(options, &["a", "b"], ReadWrite);
    rig.set("a", Behaviour::Down);
    rig.fail("a");
    for _ in 0..20 {
        rig.cluster.nothing_fits(rig.now);
        rig.settle();
        rig.now += millis(250);
    }
    let failure = &rig.snapshot().failures[&key("a")];
    assert_eq!(rig.probes.len(), 20);
    assert_eq!(failure.consecutive, 1);
}

#[test]
fn hosts_in_random_order_come_up_equally_often_and_all_may_keep_connections() {
    let names = ["a", "b", "c", "d"];
    let mut rig = watching(random(), &names, Any);
    let mut first = [0; 4];
    for draw in 0..400 {
        let picked = rig
            .cluster
            .pick(&Search::default(), draw, rig.now)
            .expect("there are hosts");
        rig.cluster.cancelled(&picked);
        first[names
            .iter()
            .position(|name| *name == picked.name())
            .expect("it is one")] += 1;
    }
    assert_eq!(first, [100; 4]);
    assert_eq!(
        (rig.placement().as_str(), rig.allowed().as_str()),
        ("a b c d", "a b c d")
    );
    let by_draw: BTreeSet<String> = (0..4)
        .map(|draw| {
            let mut tried = Vec::new();
            while let Ok(host) = rig.cluster.pick(
                &Search {
                    tried: &tried,
                    ..Search::default()
                },
                draw,
                rig.now,
            ) {
                rig.cluster.cancelled(&host);
                tried.push(host);
            }
            assert_eq!(tried.len(), 4, "each comes once");
            joined(&tried)
        })
        .collect();
    assert_eq!(by_draw.len(), 4);
}

#[test]
fn in_random_order_what_may_be_wanted_is_as_good_as_what_is_known_to_be() {
    let mut rig = watching(random(), &["p", "s", "t", "u"], PreferStandby);
    prepare(&mut rig, &[("p", "P"), ("s", "S"), ("t", "s"), ("u", "-")]);
    assert_eq!(
        (rig.placement().as_str(), rig.allowed().as_str()),
        ("s t u", "s t u")
    );
    assert_eq!(rig.picks(&["s"], 60), "t u", "the avoided one is not needed");
    assert_eq!(rig.picks(&["s", "t", "u"], 60), "s t u");
    for host in ["s", "t", "u"] {
        rig.fail(host);
    }
    assert_eq!(
        (rig.placement().as_str(), rig.allowed().as_str()),
        ("p", "p s t u")
    );
}

#[test]
fn discovered_servers_share_connections_whatever_was_asked_of_them_and_when() {
    let rows = vec![
        primary("a", "b"),
        primary("b", "c"),
        primary("c", "d"),
        replica("r", "b"),
    ];
    let mut rig = Rig::new(options(), &["a"], Listing::Rows(rows));
    rig.target = ReadWrite;
    rig.cluster.watch_roles(true);
    rig.set("r", Behaviour::Is(Standby));
    assert_eq!(rig.open_all(9), "a a a b b b c c c");
    rig.advance(TTL);
    assert_eq!(rig.open_all(3), "a b c");
    assert_eq!(rig.placement(), "a b c");
    assert_eq!(joined(&rig.snapshot().unfit), "r");
}

/// Covers: F-06
#[test]
fn a_host_that_is_starting_up_is_asked_again_soon_and_ever_more_rarely_up_to_the_delay_of_failed_hosts() {
    let options = ClusterOptions {
        failed_host_delay: Duration::from_secs(1),
        refresh_interval: Duration::from_secs(3600),
        ..listed()
    };
    let table = [
        ("57P03", vec![100, 200, 400, 800, 1000, 1000]),
        ("53300", vec![500, 1000, 1000]),
        ("XX000", vec![]),
    ];
    for (code, delays) in table {
        let mut rig = watching(options.clone(), &["a"], Any);
        rig.set("a", Behaviour::Errors(code));
        let began = rig.now;
        assert!(rig.open().is_err());
        rig.advance(millis(delays.iter().sum::<u64>() + 50));
        let mut at = began;
        let due: Vec<_> = delays
            .iter()
            .map(|delay| {
                at += millis(*delay);
                at
            })
            .collect();
        let probed: Vec<_> = rig.probes.iter().map(|(_, at)| *at).collect();
        assert_eq!(probed, due, "{code}");
    }
}

#[test]
fn a_host_that_was_down_for_long_and_is_starting_up_is_asked_again_soon() {
    let options = ClusterOptions {
        refresh_interval: Duration::from_secs(1),
        failed_host_max_delay: Some(Duration::from_secs(60)),
        ..listed()
    };
    let mut rig = watching(options, &["a", "b"], Any);
    rig.set("a", Behaviour::Down);
    rig.open().expect("b is up");
    rig.advance(Duration::from_secs(40));
    rig.set("a", Behaviour::Errors("57P03"));
    rig.advance(Duration::from_secs(60));
    assert_eq!(rig.rejected(), "a");
    rig.set("a", Behaviour::Up);
    rig.advance(Duration::from_secs(1));
    assert_eq!(rig.rejected(), "");
}

/// Covers: R-06
#[test]
fn a_lone_host_in_a_crash_restart_is_back_within_a_moment() {
    let mut rig = watching(listed(), &["a"], ReadWrite);
    rig.set("a", Behaviour::Errors("57P03"));
    assert!(rig.open().is_err());
    rig.set("a", Behaviour::Up);
    rig.advance(millis(100));
    assert_eq!(rig.failed() + &rig.rejected(), "");
    assert_eq!(rig.open().as_deref(), Ok("a"));
}

/// Covers: F-07
#[test]
fn a_cold_standby_has_not_failed_and_is_asked_again_while_no_primary_can_be_reached() {
    let mut rig = watching(listed(), &["gp1", "gp2"], ReadWrite);
    rig.set("gp2", Behaviour::Errors("57M02"));
    rig.set("gp1", Behaviour::Down);
    // the standby refuses while the primary is away for a moment
    let no_fit = Err(NotOpened::NoFit("gp2 standby that takes no sessions".to_owned()));
    assert_eq!(rig.open(), no_fit);
    assert_eq!((rig.failed().as_str(), rig.rejected().as_str()), ("gp1", ""));
    assert_eq!(rig.read_only(), "gp2");
    let asked = rig.connects("gp2");
    assert_eq!(rig.open(), no_fit);
    assert!(rig.connects("gp2") > asked, "it may have been activated");
    // the primary is back: the standby is left alone
    rig.set("gp1", Behaviour::Up);
    rig.cluster.nothing_fits(rig.now);
    rig.settle();
    let asked = rig.connects("gp2");
    assert_eq!(rig.open_all(3), "gp1 gp1 gp1");
    assert_eq!(rig.connects("gp2"), asked);
    // the standby is activated
    rig.set("gp1", Behaviour::Down);
    assert_eq!(rig.open(), no_fit);
    rig.set("gp2", Behaviour::Up);
    assert_eq!(rig.open().as_deref(), Ok("gp2"));
    assert_eq!(rig.snapshot().roles[&key("gp2")].role, Primary);
}

#[test]
fn a_cold_standby_that_gives_a_session_unasked_is_none_any_more() {
    let mut rig = watching(listed(), &["a"], Any);
    told(&mut rig, "a", ColdStandby);
    rig.cluster.opened(&key("a"), None, rig.now);
    assert!(rig.snapshot().roles.is_empty());
}

#[test]
fn connections_may_stay_on_the_best_there_is_and_on_what_merely_failed() {
    // target, what is known, where connections may stay, where they may not
    let table = [
        (ReadWrite, ["P", "S", "S"], "a", "b c"),
        (ReadWrite, ["S", "P", "P"], "b", "a"),
        (ReadWrite, ["s", "p", "-"], "b", "a"),
        (ReadWrite, ["!", "P", "S"], "b", "c"),
        (ReadWrite, ["S", "S", "S"], "", "a b c"),
        (ReadWrite, ["-", "S", "-"], "a", "b"),
        (PreferStandby, ["P", "S", "S"], "b", ""),
        (PreferStandby, ["P", "P", "-"], "c", ""),
        (PreferStandby, ["P", "P", "C"], "a", "c"),
        (PreferStandby, ["p", "P", "P"], "a", ""),
        (PreferPrimary, ["S", "S", "P"], "c", ""),
        (Any, ["S", "P", "C"], "a", "c"),
    ];
    for (target, states, allowed, unfit) in table {
        let mut rig = watching(listed(), &["a", "b", "c"], target);
        let states: Vec<_> = ["a", "b", "c"].into_iter().zip(states).collect();
        prepare(&mut rig, &states);
        assert_eq!(rig.allowed(), allowed, "{target} {states:?}");
        assert_eq!(joined(&rig.snapshot().unfit), unfit, "{target} {states:?}");
    }
}

/// Covers: F-14, Q-11
#[test]
fn a_read_pool_goes_to_the_primary_while_no_standby_works_and_back_when_one_does() {
    let mut rig = watching(listed(), &["p", "s", "t"], PreferStandby);
    rig.set("s", Behaviour::Is(Standby));
    rig.set("t", Behaviour::Is(Standby));
    assert_eq!(rig.open_all(2), "s s");
    assert_eq!(rig.allowed(), "s");
    rig.set("s", Behaviour::Down);
    assert_eq!(rig.open().as_deref(), Ok("t"));
    assert_eq!(rig.allowed(), "s t", "what failed may come back");
    rig.set("t", Behaviour::Down);
    assert_eq!(rig.open().as_deref(), Ok("p"));
    assert_eq!(rig.allowed(), "p s");
    rig.set("t", Behaviour::Is(Standby));
    rig.advance(millis(1000));
    rig.refresh();
    assert_eq!(rig.allowed(), "s t", "nothing stays on the primary");
}

/// Covers: F-14
#[test]
fn a_connection_that_will_do_is_kept_and_no_host_is_dialled_twice() {
    let mut rig = watching(listed(), &["p", "q", "s"], PreferStandby);
    rig.set("s", Behaviour::Is(Primary));
    assert_eq!(rig.open().as_deref(), Ok("p"));
    // One for the connection, and one to ask for the timeline, since there are several primaries.
    assert_eq!(["p", "q", "s"].map(|host| rig.connects(host)), [2, 2, 2]);
    assert_eq!(rig.open().as_deref(), Ok("p"));
    assert_eq!(
        ["p", "q", "s"].map(|host| rig.connects(host)),
        [3, 2, 2],
        "what is known freshly is not asked"
    );
    rig.set("s", Behaviour::Is(Standby));
    rig.now += TTL;
    assert_eq!(rig.open().as_deref(), Ok("s"), "what is not known freshly is");
    assert_eq!(rig.counts(), "p=2 s=1");
    assert!(rig.snapshot().pending.is_empty());
}

#[test]
fn a_refresh_asks_what_is_not_known_freshly_while_somebody_wants_to_know() {
    let mut rig = watching(listed(), &["a", "b"], ReadWrite);
    rig.set("b", Behaviour::Is(Standby));
    rig.refresh();
    assert_eq!(rig.probes.len(), 2);
    assert_eq!(rig.read_only(), "b");
    rig.advance(TTL - millis(1));
    rig.refresh();
    assert_eq!(rig.probes.len(), 2, "what is fresh is not asked");
    rig.advance(millis(1));
    rig.refresh();
    assert_eq!(rig.probes.len(), 4);
    assert_eq!(rig.snapshot().roles[&key("b")].at, rig.now);
    rig.cluster.watch_roles(false);
    rig.advance(TTL);
    rig.refresh();
    assert_eq!(rig.probes.len(), 4);
}

#[test]
fn of_discovered_servers_only_those_that_were_passed_over_are_asked_by_a_refresh() {
    let rows = vec![primary("a", "b"), primary("b", "c"), primary("c", "d")];
    let mut rig = Rig::new(options(), &["a"], Listing::Rows(rows));
    rig.cluster.watch_roles(true);
    rig.settle();
    told(&mut rig, "b", Standby);
    told(&mut rig, "c", Primary);
    rig.target = ReadWrite;
    rig.picks(&[], 1);
    rig.probes.clear();
    rig.advance(TTL);
    rig.refresh();
    let probed: Vec<&str> = rig.probes.iter().map(|(host, _)| host.as_str()).collect();
    assert_eq!(probed, ["b"]);
}

#[test]
fn a_cold_standby_is_asked_by_refreshes_though_nobody_wants_to_know_of_roles() {
    let mut rig = Rig::standard(options());
    told(&mut rig, "c", ColdStandby);
    assert_eq!(rig.picks(&[], 60), "a b");
    rig.refresh();
    assert_eq!(rig.probes.len(), 0, "not yet");
    rig.advance(TTL);
    rig.refresh();
    assert_eq!(rig.probes.len(), 1);
    assert_eq!(rig.picks(&[], 60), "a b c", "it takes sessions");
}

#[test]
fn a_watched_host_that_is_gone_has_failed_and_one_that_refuses_the_login_has_not() {
    for (behaviour, failed) in [(Behaviour::Down, "a"), (Behaviour::Errors("28P01"), "")] {
        let mut rig = watching(listed(), &["a"], ReadWrite);
        rig.set("a", behaviour);
        rig.refresh();
        assert_eq!(
            (rig.probes.len(), rig.failed().as_str()),
            (1, failed),
            "{behaviour:?}"
        );
        assert_eq!(rig.rejected(), "", "{behaviour:?}");
    }
}

/// Covers: F-18, V-08
#[test]
fn a_doubted_role_is_unknown_and_asked_at_once_but_not_more_than_once_a_second() {
    let mut rig = watching(listed(), &["a", "b"], ReadWrite);
    told(&mut rig, "a", Primary);
    told(&mut rig, "b", Primary);
    rig.settle();
    rig.probes.clear();
    rig.set("a", Behaviour::Is(Standby));
    let began = rig.now;
    rig.cluster.role_doubted(&key("a"), rig.now);
    assert!(!rig.snapshot().roles.contains_key(&key("a")));
    rig.settle();
    assert_eq!(rig.read_only(), "a");
    for _ in 0..20 {
        rig.advance(millis(100));
        rig.cluster.role_doubted(&key("a"), rig.now);
        rig.settle();
    }
    let of_a = rig.probes.iter().filter(|(host, _)| host == "a");
    let asked: Vec<_> = of_a.map(|(_, at)| *at - began).collect();
    assert_eq!(asked, [millis(0), millis(1000), millis(2000)]);
}

/// Covers: V-06
#[test]
fn a_host_that_ended_a_connection_is_neither_left_out_nor_believed_any_longer() {
    let mut rig = watching(listed(), &["a", "b"], PreferStandby);
    told(&mut rig, "a", Primary);
    told(&mut rig, "b", Primary);
    rig.cluster.suspect(&key("b"));
    assert_eq!((rig.failed().as_str(), rig.placement().as_str()), ("", "a"));
    let spare = Search {
        spare: true,
        ..Search::default()
    };
    assert_eq!(order(&mut rig, spare), "b", "it may be something else by now");
    rig.cluster.suspect(&HostKey::new("stranger", 1));
}

/// Covers: F-17
#[test]
fn of_two_primaries_the_one_that_was_promoted_last_is_written_to_and_people_are_told_once() {
    let mut rig = watching(listed(), &["old", "new"], ReadWrite);
    rig.timelines = [("old".to_owned(), 1), ("new".to_owned(), 2)].into();
    rig.refresh();
    let warnings = |rig: &mut Rig| -> Vec<String> {
        let lines = rig.take_lines().into_iter();
        let warnings = lines.filter(|(level, _)| *level == LogLevel::Warning);
        warnings.map(|(_, line)| line).collect()
    };
    assert_eq!(
        warnings(&mut rig),
        [
            "several primaries take writes, on different timelines: old:5433 on 1, new:5433 on 2; only the highest is \
          written to"
        ]
    );
    assert_eq!((rig.placement().as_str(), rig.allowed().as_str()), ("new", "new"));
    assert_eq!(joined(&rig.snapshot().unfit), "old");
    assert_eq!(rig.open().as_deref(), Ok("new"));
    assert_eq!(rig.cluster.fit(&key("old"), Primary, ReadWrite), Fit::Unfit);
    assert_eq!(
        rig.cluster.fit(&key("old"), Primary, PreferPrimary),
        Fit::Accepted
    );
    assert_eq!(rig.cluster.fit(&key("old"), Primary, Any), Fit::Wanted);
    for _ in 0..3 {
        rig.advance(TTL);
        rig.refresh();
    }
    assert_eq!(warnings(&mut rig), [""; 0]);
    // the promoted one dies: what it wrote is lost if the other is written to
    rig.set("new", Behaviour::Down);
    assert_eq!(rig.open(), Err(NotOpened::NoFit("old primary".to_owned())));
    // the old one is rebuilt from the new one
    rig.set("new", Behaviour::Up);
    rig.set("old", Behaviour::Is(Standby));
    rig.advance(TTL);
    rig.refresh();
    assert_eq!(
        (rig.read_only().as_str(), rig.open().as_deref()),
        ("old", Ok("new"))
    );
}

/// Covers: F-17
#[test]
fn a_second_primary_that_somebody_comes_by_is_asked_for_its_timeline_without_waiting_for_a_refresh() {
    let mut rig = watching(listed(), &["old", "new"], ReadWrite);
    rig.timelines = [("old".to_owned(), 1), ("new".to_owned(), 2)].into();
    assert_eq!(rig.open().as_deref(), Ok("old"));
    let now = rig.now;
    rig.cluster.role_seen(&key("new"), Primary, now);
    rig.settle();
    assert_eq!(rig.allowed(), "new");
    assert_eq!(joined(&rig.snapshot().unfit), "old");
}

/// Where the first host is a primary nobody has a reason to dial the others before the next refresh.
#[test]
fn a_cluster_that_begins_at_an_outranked_primary_hears_of_the_other_in_a_moment() {
    let mut rig = watching(listed(), &["old", "new"], ReadWrite);
    rig.timelines = [("old".to_owned(), 1), ("new".to_owned(), 2)].into();
    assert_eq!(rig.open().as_deref(), Ok("old"));
    rig.advance(millis(999));
    assert_eq!(rig.probes.len(), 0);
    rig.advance(millis(1));
    assert_eq!(
        (rig.allowed().as_str(), joined(&rig.snapshot().unfit)),
        ("new", "old".to_owned())
    );
}

#[test]
fn for_a_primarys_sake_only_hosts_are_asked_that_nobody_has_met_meanwhile() {
    let mut rig = watching(listed(), &["a", "b", "c", "d"], ReadWrite);
    rig.set("c", Behaviour::Is(Standby));
    rig.set("d", Behaviour::Down);
    assert_eq!(rig.open().as_deref(), Ok("a"));
    let now = rig.now;
    rig.cluster.role_seen(&key("b"), Standby, now);
    rig.advance(millis(1_000));
    let asked: Vec<&str> = rig.probes.iter().map(|(host, _)| host.as_str()).collect();
    assert_eq!(asked, ["c", "d"]);
    rig.advance(millis(5_000));
    assert_eq!(rig.open().as_deref(), Ok("a"));
    assert_eq!(rig.probes.len(), 2, "once");
}

#[test]
fn where_no_primary_was_found_or_nobody_wants_to_know_nobody_is_asked() {
    let mut unasked = watching(listed(), &["a", "b"], Any);
    unasked.cluster.watch_roles(false);
    unasked.open().expect("a takes everybody");
    let mut reads = watching(listed(), &["a", "b"], ReadWrite);
    reads.set("a", Behaviour::Is(Standby));
    reads.set("b", Behaviour::Is(Standby));
    reads.target = TargetSessionAttrs::PreferStandby;
    reads.open().expect("a is a standby");
    for mut rig in [unasked, reads] {
        rig.advance(millis(5_000));
        assert_eq!(rig.probes.len(), 0);
    }
}

#[test]
fn primaries_on_one_timeline_or_that_cannot_tell_are_all_primaries() {
    let tables: [&[(&str, u32)]; 3] = [&[], &[("a", 3), ("b", 3)], &[("a", 3)]];
    for timelines in tables {
        let mut rig = watching(listed(), &["a", "b"], ReadWrite);
        rig.timelines = timelines
            .iter()
            .map(|(host, line)| ((*host).to_owned(), *line))
            .collect();
        rig.refresh();
        let probes = rig.probes.len();
        rig.advance(millis(500));
        assert_eq!(rig.probes.len(), probes, "each is asked once: {timelines:?}");
        assert_eq!(rig.take_lines(), [], "{timelines:?}");
        assert_eq!(
            (joined(&rig.snapshot().unfit).as_str(), rig.placement().as_str()),
            ("", "a")
        );
    }
}

#[test]
fn in_a_discovered_cluster_many_primaries_are_no_trouble() {
    let mut rig = Rig::standard(options());
    rig.target = ReadWrite;
    rig.cluster.watch_roles(true);
    rig.timelines = [("a".to_owned(), 1), ("b".to_owned(), 2)].into();
    rig.open_all(3);
    rig.advance(TTL);
    rig.refresh();
    assert_eq!(joined(&rig.snapshot().unfit), "");
}

#[test]
fn a_role_is_told_when_it_changes_or_is_found_to_be_of_no_use() {
    let mut rig = watching(listed(), &["a", "b"], ReadWrite);
    rig.set("a", Behaviour::Is(Standby));
    rig.open().expect("b is a primary");
    let lines =
        |rig: &mut Rig| -> Vec<String> { rig.take_lines().into_iter().map(|(_, line)| line).collect() };
    assert_eq!(lines(&mut rig), ["a:5433 is a standby"]);
    rig.open().expect("b is a primary");
    assert_eq!(lines(&mut rig), [""; 0]);
    rig.set("a", Behaviour::Up);
    rig.set("b", Behaviour::Is(Standby));
    assert_eq!(rig.open().as_deref(), Ok("a"));
    assert_eq!(
        lines(&mut rig),
        [
            "b:5433 is a standby now; it was a primary",
            "a:5433 is a primary now; it was a standby"
        ]
    );
}

#[test]
fn pools_are_told_of_a_change_and_of_nothing_else() {
    let mut rig = watching(listed(), &["a"], ReadWrite);
    let changes = |rig: &mut Rig, event: &dyn Fn(&mut Rig)| {
        rig.changes = 0;
        event(rig);
        rig.settle();
        rig.changes
    };
    let addresses = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect()
    };
    assert_eq!(changes(&mut rig, &|rig| told(rig, "a", Primary)), 1);
    assert_eq!(changes(&mut rig, &|rig| told(rig, "a", Primary)), 0);
    assert_eq!(changes(&mut rig, &|rig| told(rig, "a", Standby)), 1);
    assert_eq!(changes(&mut rig, &|rig| rig.fail("a")), 0);
    assert_eq!(changes(&mut rig, &|rig| told(rig, "a", Standby)), 1, "it is back");
    let resolved = |texts: &'static [&'static str]| {
        move |rig: &mut Rig| rig.cluster.names_resolved(&key("a"), addresses(texts))
    };
    assert_eq!(changes(&mut rig, &resolved(&["10.0.0.2", "10.0.0.1"])), 1);
    assert_eq!(changes(&mut rig, &resolved(&["10.0.0.1", "::ffff:10.0.0.2"])), 0);
    assert_eq!(
        changes(&mut rig, &resolved(&[])),
        0,
        "a look-up that failed says nothing"
    );
    assert_eq!(changes(&mut rig, &resolved(&["10.0.0.3"])), 1);
    assert_eq!(rig.snapshot().addresses[&key("a")].len(), 1);
}

#[test]
fn a_refresh_has_names_looked_up_and_nothing_else() {
    let options = ClusterOptions {
        drain_stale_addresses: true,
        ..listed()
    };
    let mut rig = Rig::new(
        options,
        &["db", "10.0.0.1", "fe80::1", "/run/postgresql"],
        Listing::NoFunction,
    );
    rig.refresh();
    assert_eq!(rig.look_ups, ["db"]);
    rig.cluster
        .names_resolved(&key("elsewhere"), vec!["10.0.0.1".parse().expect("an address")]);
    assert!(rig.snapshot().addresses.is_empty());
    assert_eq!(Rig::standard(listed()).look_ups, [""; 0], "unless it is wanted");
}

#[test]
fn a_mode_that_refuses_says_so_only_if_none_of_its_servers_is_about_to_come() {
    // the kind of its failure, and what a search is told
    let table = [
        (FailureKind::Down, NoHost::NoNode(Refused::ReadReplica)),
        (FailureKind::Rejected, NoHost::NoNode(Refused::ReadReplica)),
        (FailureKind::NotReady, NoHost::NotReady(Refused::ReadReplica)),
        (FailureKind::Full, NoHost::NotReady(Refused::ReadReplica)),
    ];
    for (kind, expected) in table {
        let options = ClusterOptions {
            load_balance: LoadBalance::OnlyReplica,
            ..options()
        };
        let rows = vec![primary("a", "b"), replica("r", "b")];
        let mut rig = Rig::new(options, &["a"], Listing::Rows(rows));
        rig.settle();
        rig.set("r", Behaviour::Errors("57P03"));
        rig.fail_as("r", kind, "no");
        assert_eq!(rig.pick(&[], &[]), Err(expected), "{kind:?}");
        // a server that the mode would not take is no hope
        rig.set("r", Behaviour::Up);
        rig.cluster.opened(&key("r"), None, rig.now);
        rig.cluster.open_failed(&key("a"), kind, "no", rig.now);
        rig.cluster
            .open_failed(&key("r"), FailureKind::Down, "no", rig.now);
        assert_eq!(
            rig.pick(&[], &[]),
            Err(NoHost::NoNode(Refused::ReadReplica)),
            "{kind:?}"
        );
    }
}

#[test]
fn a_role_told_by_a_refusal_is_no_failure_of_the_probe() {
    let mut rig = watching(listed(), &["a"], ReadWrite);
    rig.set("a", Behaviour::Hangs);
    rig.fail("a");
    rig.cluster.nothing_fits(rig.now);
    rig.settle();
    let cold = HostEffect::Role(ColdStandby);
    rig.cluster
        .probe_finished(&key("a"), 1, Err((cold, "57M02".to_owned())), rig.now);
    assert_eq!((rig.failed().as_str(), rig.read_only().as_str()), ("", "a"));
}
