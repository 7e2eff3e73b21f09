//! Whether servers are used by host or by public IP: the decision by itself, and over the life of a cluster.

mod hosts_rig;

use std::net::{IpAddr, Ipv4Addr};

use hosts_rig::{Behaviour, Listing, Rig, options, primary, public};
use pgsteer_core::hosts::{
    AddressChoice, Addresses, Column, DiscoveredRow, LogLevel, Reason, choose, key_of,
};

/// An address that is the same for the same number.
fn ip(number: u8) -> Option<IpAddr> {
    Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)))
}

/// Rows of hosts, some with a public IP, and what they resolve to.
fn rows(servers: &[(Option<IpAddr>, Option<Option<IpAddr>>)]) -> (Vec<DiscoveredRow>, Addresses) {
    let mut addresses = Addresses::default();
    let mut rows = Vec::new();
    for (number, (host, public_ip)) in servers.iter().enumerate() {
        addresses.host.push(*host);
        addresses.public_ip.push(public_ip.flatten());
        let row = primary(&format!("h{number}"), "b");
        rows.push(match public_ip {
            Some(_) => public(row, &format!("p{number}")),
            None => row,
        });
    }
    (rows, addresses)
}

/// Covers: E-130, E-131, E-132, E-135, E-137, E-138, E-139
#[test]
fn the_first_address_that_tells_decides_and_otherwise_one_guesses() {
    let (h1, h2, p1, p2, balancer) = (ip(1), ip(2), ip(101), ip(102), ip(200));
    let table = [
        (
            "answer is h2",
            h2,
            vec![(h1, Some(p1)), (h2, Some(p2))],
            Column::Host,
            Reason::Decided,
        ),
        (
            "answer is p2",
            p2,
            vec![(h1, Some(p1)), (h2, Some(p2))],
            Column::PublicIp,
            Reason::Decided,
        ),
        (
            "host is public",
            balancer,
            vec![(h1, Some(h1))],
            Column::Host,
            Reason::Decided,
        ),
        (
            "unresolved equals nothing",
            balancer,
            vec![(None, None), (h2, None)],
            Column::Host,
            Reason::Unknown,
        ),
        (
            "both unresolved",
            balancer,
            vec![(None, Some(None))],
            Column::Host,
            Reason::UnresolvedPublicIp,
        ),
        (
            "answer unresolved too",
            None,
            vec![(None, Some(None))],
            Column::Host,
            Reason::UnresolvedPublicIp,
        ),
        (
            "all publics resolve",
            balancer,
            vec![(h1, Some(p1)), (None, Some(p2))],
            Column::PublicIp,
            Reason::Guess,
        ),
        (
            "no public",
            balancer,
            vec![(h1, None)],
            Column::Host,
            Reason::Unknown,
        ),
        (
            "one has no public",
            balancer,
            vec![(h1, Some(p1)), (h2, None)],
            Column::Host,
            Reason::Unknown,
        ),
        (
            "one public unresolved",
            balancer,
            vec![(h1, Some(p1)), (h2, Some(None))],
            Column::Host,
            Reason::UnresolvedPublicIp,
        ),
        (
            "the first server that tells",
            p1,
            vec![(h2, Some(h2)), (h1, Some(p1))],
            Column::Host,
            Reason::Decided,
        ),
        (
            "of one server the answer first",
            p1,
            vec![(h1, Some(p1)), (p1, Some(p2))],
            Column::PublicIp,
            Reason::Decided,
        ),
        ("no servers", balancer, vec![], Column::Host, Reason::Unknown),
    ];
    for (name, answered, servers, column, reason) in table {
        let (rows, addresses) = rows(&servers);
        let choice = choose(
            None,
            &rows,
            &Addresses {
                answered,
                ..addresses
            },
        );
        assert_eq!(choice, AddressChoice { column, reason }, "{name}");
    }
}

/// Covers: E-134
#[test]
fn a_decision_stands_whatever_answers_later() {
    for column in [Column::Host, Column::PublicIp] {
        let decided = AddressChoice {
            column,
            reason: Reason::Decided,
        };
        for (answered, servers) in [
            (ip(1), vec![(ip(1), Some(ip(101)))]),
            (ip(101), vec![(ip(1), Some(ip(101)))]),
            (None, vec![]),
        ] {
            let (rows, addresses) = rows(&servers);
            assert_eq!(
                choose(
                    Some(decided),
                    &rows,
                    &Addresses {
                        answered,
                        ..addresses
                    }
                ),
                decided
            );
        }
    }
}

#[test]
fn a_guess_does_not_stand() {
    let guessed = AddressChoice {
        column: Column::PublicIp,
        reason: Reason::Guess,
    };
    let (rows, addresses) = rows(&[(ip(1), Some(ip(101)))]);
    let choice = choose(
        Some(guessed),
        &rows,
        &Addresses {
            answered: ip(1),
            ..addresses
        },
    );
    assert_eq!(
        choice,
        AddressChoice {
            column: Column::Host,
            reason: Reason::Decided
        }
    );
}

#[test]
fn an_address_mapped_into_ipv6_is_the_ipv4_one() {
    let (rows, addresses) = rows(&[(ip(1), Some("::ffff:127.0.0.1".parse().ok()))]);
    let answered = "127.0.0.1".parse().ok();
    let choice = choose(
        None,
        &rows,
        &Addresses {
            answered,
            ..addresses
        },
    );
    assert_eq!(
        choice,
        AddressChoice {
            column: Column::PublicIp,
            reason: Reason::Decided
        }
    );
}

#[test]
fn too_few_addresses_are_unresolved_ones() {
    let (rows, _) = rows(&[(ip(1), Some(ip(101))), (ip(2), Some(ip(102)))]);
    let choice = choose(None, &rows, &Addresses::default());
    assert_eq!(
        choice,
        AddressChoice {
            column: Column::Host,
            reason: Reason::UnresolvedPublicIp
        }
    );
}

/// Covers: E-140
#[test]
fn only_a_server_that_has_a_public_ip_is_used_by_it() {
    let rows = [
        public(primary("h1", "b"), "p1"),
        public(primary("h2", "b"), ""),
        primary("h3", "b"),
    ];
    let names: Vec<String> = rows
        .iter()
        .map(|row| key_of(row, Column::PublicIp).to_string())
        .collect();
    assert_eq!(names, ["p1:5433", "h2:5433", "h3:5433"]);
    assert_eq!(key_of(&rows[0], Column::Host).to_string(), "h1:5433");
}

fn with_publics(hosts: [(&str, &str); 3]) -> Vec<DiscoveredRow> {
    hosts
        .into_iter()
        .map(|(host, public_ip)| public(primary(host, "b"), public_ip))
        .collect()
}

/// Covers: E-222
#[test]
fn the_decision_outlives_the_server_it_came_from() {
    let mut rows = with_publics([
        ("10.0.0.1", "pub-a"),
        ("10.0.0.2", "pub-b"),
        ("10.0.0.3", "pub-c"),
    ]);
    let mut rig = Rig::new(options(), &["pub-a", "yb"], Listing::Rows(rows.clone()));
    for private in ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"] {
        rig.set(private, Behaviour::Down);
    }
    rig.settle();
    assert_eq!(rig.servers(), "pub-a pub-b pub-c");

    for public_ip in ["pub-a", "pub-b", "pub-c"] {
        rig.set(public_ip, Behaviour::Down);
    }
    rows.push(public(primary("10.0.0.4", "b"), "pub-d"));
    rig.listing = Listing::Rows(rows);
    rig.refresh();
    assert_eq!(rig.servers(), "pub-a pub-b pub-c pub-d");
}

/// Covers: E-223
#[test]
fn public_ips_are_used_when_the_seed_resolves_to_one() {
    let rows = with_publics([
        ("10.0.0.1", "34.0.0.1"),
        ("10.0.0.2", "34.0.0.2"),
        ("10.0.0.3", "34.0.0.3"),
    ]);
    let mut rig = Rig::new(options(), &["yb.example.com"], Listing::Rows(rows));
    rig.resolves("yb.example.com", Some("34.0.0.2"));
    rig.settle();
    assert_eq!(rig.servers(), "34.0.0.1 34.0.0.2 34.0.0.3");
}

/// Covers: E-224
#[test]
fn host_names_are_used_when_the_seed_resolves_to_one_of_theirs() {
    let rows = with_publics([
        ("yb-1.svc", "34.0.0.1"),
        ("yb-2.svc", "34.0.0.2"),
        ("yb-3.svc", "34.0.0.3"),
    ]);
    let mut rig = Rig::new(options(), &["yb.svc"], Listing::Rows(rows));
    for (name, address) in [
        ("yb-1.svc", "10.0.0.1"),
        ("yb-2.svc", "10.0.0.2"),
        ("yb-3.svc", "10.0.0.3"),
        ("yb.svc", "10.0.0.2"),
    ] {
        rig.resolves(name, Some(address));
    }
    rig.settle();
    assert_eq!(rig.servers(), "yb-1.svc yb-2.svc yb-3.svc");
}

/// Covers: E-226
#[test]
fn behind_a_balancer_the_guess_follows_what_the_servers_list() {
    let publics = with_publics([("a", "pub-a"), ("b", "pub-b"), ("c", "pub-c")]);
    let mut one_without = publics.clone();
    one_without[2].public_ip = None;
    let mut rig = Rig::new(options(), &["lb"], Listing::Rows(publics.clone()));
    rig.resolves("lb", Some("192.168.0.1"));
    rig.settle();
    assert_eq!(rig.servers(), "pub-a pub-b pub-c");

    rig.listing = Listing::Rows(one_without);
    rig.refresh();
    assert_eq!(rig.servers(), "a b c");

    rig.listing = Listing::Rows(publics);
    rig.resolves("pub-c", None);
    rig.refresh();
    assert_eq!(rig.servers(), "a b c");
    let (level, line) = rig.take_lines().pop().expect("the choice has changed");
    assert_eq!(level, LogLevel::Warning);
    assert!(line.contains("does not resolve"), "{line}");

    rig.refresh();
    assert_eq!(rig.take_lines(), [], "the choice has not changed");

    rig.resolves("pub-c", Some("34.0.0.3"));
    rig.refresh();
    assert_eq!(rig.servers(), "pub-a pub-b pub-c");
    assert_eq!(rig.take_lines().len(), 1);
}

/// Covers: E-227
#[test]
fn a_seed_whose_name_does_not_resolve_decides_nothing() {
    let rows = with_publics([("a", "pub-a"), ("b", "pub-b"), ("c", "pub-c")]);
    let mut rig = Rig::new(options(), &["odd", "lb"], Listing::Rows(rows));
    rig.resolves("odd", None);
    rig.resolves("a", None);
    rig.resolves("pub-a", Some("34.0.0.1"));
    rig.resolves("lb", Some("34.0.0.1"));
    rig.settle();
    assert_eq!((rig.connects("odd"), rig.connects("lb")), (1, 1));
    assert_eq!(rig.servers(), "pub-a pub-b pub-c");
    let choice = rig.snapshot().address.expect("servers are known");
    assert_eq!(
        choice,
        AddressChoice {
            column: Column::PublicIp,
            reason: Reason::Decided
        }
    );
}

/// Covers: E-229
#[test]
fn a_mapped_public_ip_is_used_by_its_text_and_the_others_by_their_hosts() {
    let rows = vec![
        public(primary("a", "b"), "::ffff:127.0.0.1"),
        primary("b", "b"),
        primary("c", "b"),
    ];
    let mut rig = Rig::new(options(), &["localhost"], Listing::Rows(rows));
    rig.resolves("localhost", Some("127.0.0.1"));
    rig.settle();
    assert_eq!(rig.servers(), "::ffff:127.0.0.1 b c");
}

#[test]
fn connections_under_the_old_keys_are_strays_when_the_guess_changes() {
    let publics = with_publics([("a", "pub-a"), ("b", "pub-b"), ("c", "pub-c")]);
    let mut rig = Rig::new(options(), &["lb"], Listing::Rows(publics));
    rig.settle();
    assert_eq!(rig.open_all(3), "pub-a pub-b pub-c");

    rig.listing = Listing::Rows(vec![primary("a", "b"), primary("b", "b"), primary("c", "b")]);
    rig.refresh();
    assert_eq!(rig.allowed(), "a b c");
    assert_eq!(rig.counts(), "pub-a=1 pub-b=1 pub-c=1");
}
