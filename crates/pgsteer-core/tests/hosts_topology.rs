//! Topology keys: what is read, what is refused and by which words, and which servers a key matches.

#![allow(clippy::expect_used, reason = "a test that cannot go on is to fail")]

use pgsteer_core::topology::{Placement, TopologyKey, TopologyKeyError, TopologyKeys};
use proptest::prelude::*;

/// Every key as (cloud, region, zone, preference).
fn parts(keys: &TopologyKeys) -> Vec<(&str, &str, Option<&str>, u8)> {
    keys.iter()
        .map(|key| (key.cloud(), key.region(), key.zone(), key.preference()))
        .collect()
}

fn parsed(text: &str) -> TopologyKeys {
    TopologyKeys::parse(text).expect(text)
}

/// Covers: E-075
#[test]
fn parts_are_split_at_commas_and_trimmed() {
    let keys = parsed("gcp.us-east1.us-east1-b:1, gcp.us-east1.*:2");
    assert_eq!(
        parts(&keys),
        [
            ("gcp", "us-east1", Some("us-east1-b"), 1),
            ("gcp", "us-east1", None, 2)
        ]
    );
}

/// Covers: E-041, E-076
#[test]
fn a_key_without_preference_has_the_first() {
    assert_eq!(parts(&parsed("aws.r.z")), [("aws", "r", Some("z"), 1)]);
    assert_eq!(parts(&parsed("gcp.us-east1.*")), [("gcp", "us-east1", None, 1)]);
}

/// Covers: E-077
#[test]
fn text_without_parts_gives_no_keys() {
    for text in ["", " ", ",", " ,\t, \n"] {
        assert!(parsed(text).is_empty(), "{text:?}");
    }
    let none: [(&str, &str, &str, u8); 0] = [];
    assert!(
        TopologyKeys::from_tuples(none)
            .expect("no tuples are fine")
            .is_empty()
    );
    assert_eq!(parts(&parsed(" a.b.c , ")), [("a", "b", Some("c"), 1)]);
}

/// Covers: E-042, E-078, E-079, E-085
#[test]
fn a_bad_part_is_refused_and_named_alone() {
    let bad = [
        "nope",
        "42",
        "gcp.us-east1",
        "a.b.c.d",
        "gcp..z",
        ".r.z",
        "gcp.r.",
        "..",
        ".",
        ":1",
        "gcp.r.z:0",
        "gcp.r.z:11",
        "gcp.r.z:x",
        "gcp.r.z:",
        "gcp.r.z:1:2",
        "gcp.r.z:1.5",
        "gcp.r.z: 1",
        "gcp.r.z:+1",
        "gcp.r.z:-1",
        "gcp.r.z:1 x",
        "gcp.r.z:256",
        "gcp.r.z:99999999999999999999",
        "gcp.r.z:１",
        "gcp:1.r.z",
    ];
    for part in bad {
        for text in [
            part.to_owned(),
            format!(" {part} "),
            format!("a.b.c:2,{part},d.e.f"),
            format!("a.b.c,\t{part}"),
        ] {
            let error = TopologyKeys::parse(&text).expect_err(&text);
            assert_eq!(error.part(), part, "{text:?}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

/// Covers: E-080, E-090
#[test]
fn the_structured_form_gives_the_same_keys() {
    let keys = TopologyKeys::from_tuples([("a", "b", "c", 3)]).expect("a good tuple");
    assert_eq!(parts(&keys), [("a", "b", Some("c"), 3)]);

    let tuples = [
        ("gcp", "us-east1", "us-east1-b", 1),
        ("aws", "us-west-2", "us-west-2a", 2),
    ];
    let keys = TopologyKeys::from_tuples(tuples).expect("good tuples");
    assert_eq!(
        keys,
        parsed("gcp.us-east1.us-east1-b:1,aws.us-west-2.us-west-2a:2")
    );
}

/// Covers: E-081, E-083
#[test]
fn names_are_case_folded_and_not_just_lowered() {
    assert_eq!(
        parsed("GCP.US-East1.US-East1-B:1,Gcp.US-EAST1.*:2"),
        parsed("gcp.us-east1.us-east1-b:1,gcp.us-east1.*:2")
    );
    assert_eq!(
        parts(&parsed("gcp.RÉGION.STRASSE:1")),
        [("gcp", "région", Some("strasse"), 1)]
    );
    assert_eq!(parsed("gcp.région.Straße"), parsed("gcp.RÉGION.STRASSE"));
    assert_eq!(
        Placement::new("GCP", "RÉGION", "Straße"),
        Placement::new("gcp", "région", "STRASSE")
    );
}

/// Covers: E-082, E-091, E-095
#[test]
fn the_structured_form_folds_names_and_knows_the_wildcard() {
    let keys = TopologyKeys::from_tuples([("GCP", "US-East1", "*", 1)]).expect("a good tuple");
    assert_eq!(parts(&keys), [("gcp", "us-east1", None, 1)]);
    let owned = [("GCP".to_owned(), "RÉGION".to_owned(), "*".to_owned(), 1)];
    assert_eq!(
        parts(&TopologyKeys::from_tuples(owned).expect("a good tuple")),
        [("gcp", "région", None, 1)]
    );
}

/// Covers: E-086, E-045
#[test]
fn names_beyond_latin_letters_are_fine() {
    let keys = parsed("gcp.région.zōne-1:2");
    assert_eq!(parts(&keys), [("gcp", "région", Some("zōne-1"), 2)]);
    assert_eq!(
        TopologyKeys::parse_bytes("gcp.région.zōne-1:2".as_bytes()),
        Ok(keys)
    );
}

/// Covers: E-088, E-094
#[test]
fn bytes_that_are_not_utf8_are_refused_without_a_crash() {
    for bytes in [
        &b"gcp.r.\xFF"[..],
        b"gcp.caf\xE9.z",
        b"\xED\xA0\x80.r.z",
        b"gcp.r.z\xF4\x90\x80\x80",
    ] {
        let error = TopologyKeys::parse_bytes(bytes).expect_err("it is not text");
        assert!(error.part().contains('\u{FFFD}'), "{error}");
    }
}

/// Covers: E-092, E-093, E-097
#[test]
fn a_bad_tuple_is_refused_and_named_alone() {
    let bad = [
        (("a", "b", "c", 0), "a.b.c:0"),
        (("a", "b", "c", 11), "a.b.c:11"),
        (("a", "", "c", 1), "a..c:1"),
        (("", "b", "c", 1), ".b.c:1"),
        (("a", "b", "", 1), "a.b.:1"),
    ];
    for (tuple, part) in bad {
        let error = TopologyKeys::from_tuples([("x", "y", "z", 2), tuple]).expect_err(part);
        assert_eq!(error.part(), part);
    }
}

#[test]
fn only_the_zone_has_a_wildcard_and_only_when_it_stands_alone() {
    let here = Placement::new("gcp", "r", "z");
    for text in ["*.r.z", "gcp.*.z", "gcp.r.z*", "gcp.r.* :1"] {
        assert!(!parsed(text).iter().any(|key| key.matches(&here)), "{text:?}");
    }
}

/// Covers: E-098
#[test]
fn a_key_matches_by_cloud_region_and_zone() {
    let b = Placement::new("gcp", "us-east1", "us-east1-b");
    for (key, matches) in [
        ("gcp.us-east1.us-east1-b", true),
        ("gcp.us-east1.*", true),
        ("GCP.US-EAST1.US-EAST1-B", true),
        ("gcp.us-east1.us-east1-c", false),
        ("gcp.us-west1.*", false),
        ("aws.us-east1.*", false),
    ] {
        assert_eq!(parsed(key).iter().all(|key| key.matches(&b)), matches, "{key}");
    }
}

#[test]
fn a_server_belongs_to_every_level_it_matches_and_counts_as_the_lowest() {
    let keys = parsed("gcp.r.z:10,gcp.r.*:3,gcp.r.z:3,gcp.q.*:1");
    let levels = keys.levels(&Placement::new("gcp", "r", "z"));
    let belongs: Vec<u8> = (0..=20)
        .filter(|preference| levels.contains(*preference))
        .collect();
    assert_eq!(belongs, [3, 10]);
    assert_eq!(levels.lowest(), Some(3));
    assert_eq!(keys.levels(&Placement::new("aws", "r", "z")).lowest(), None);
    assert_eq!(keys.levels(&Placement::default()).lowest(), None);
}

#[test]
fn the_error_tells_what_is_expected() {
    let error: TopologyKeyError = "gcp.us-east1".parse::<TopologyKeys>().expect_err("two fields");
    assert_eq!(
        error.to_string(),
        "invalid topology key `gcp.us-east1`: expected cloud.region.zone or cloud.region.* with an optional \
         :preference from 1 to 10"
    );
}

#[test]
fn a_single_key_can_be_made_by_itself() {
    let key = TopologyKey::new("GCP", "r", "*", 2).expect("a good key");
    assert_eq!((key.to_string().as_str(), key.zone()), ("gcp.r.*:2", None));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused_by_naming_one_of_its_parts(text in any::<String>()) {
        match TopologyKeys::parse(&text) {
            Ok(keys) => prop_assert!(keys.iter().all(|key| (1..=10).contains(&key.preference()))),
            Err(error) => prop_assert!(text.split(',').map(str::trim).any(|part| part == error.part())),
        }
    }

    #[test]
    fn what_is_printed_is_read_back_the_same(
        tuples in prop::collection::vec(("[^.,:\\s]{1,6}", "[^.,:\\s]{1,6}", "[^.,:\\s]{1,6}", 1_u8..=10), 0..5)
    ) {
        let keys = TopologyKeys::from_tuples(tuples).expect("good tuples");
        prop_assert_eq!(TopologyKeys::parse(&keys.to_string()), Ok(keys));
    }
}
