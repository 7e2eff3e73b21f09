//! What is known of a connection that rests, case by case. `loom_watch.rs` looks at threads.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use pgsteer_core::pool::IdleWatch;

/// r rests, t takes up, s stirs, x retires, o unretires. What taking up and stirring answered.
#[test]
fn what_happens_to_a_connection_and_what_its_holder_and_keeper_hear() {
    let table: [(&str, &str, bool); 11] = [
        ("rt", "y", true),
        ("rst", "yn", false),
        ("rsst", "ynn", false),
        ("s", "n", true),
        ("rts", "yn", true),
        ("rsrt", "yy", true),
        ("rtsrs", "yny", false),
        ("rx", "", false),
        ("rxt", "n", false),
        ("rxtrt", "nn", false),
        ("rxot", "y", true),
    ];
    for (history, expected, fit) in table {
        let (watch, mut heard) = (IdleWatch::new(), String::new());
        for event in history.chars() {
            match event {
                'r' => watch.rest(),
                't' => heard.push(if watch.take_up() { 'y' } else { 'n' }),
                's' => heard.push(if watch.stir() { 'y' } else { 'n' }),
                'x' => watch.retire(),
                _ => watch.unretire(),
            }
        }
        assert_eq!((heard.as_str(), watch.is_fit()), (expected, fit), "{history}");
    }
}
