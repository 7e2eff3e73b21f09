//! The property of connection strings that is fuzzed, against the seeds of the fuzz target and against inputs made from them.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../../fuzz/properties/connection_string.rs"]
mod connection_string;
#[path = "../../../../fuzz/properties/inputs.rs"]
mod inputs;

#[test]
fn any_text_is_a_configuration_that_reads_back_the_same_and_shows_no_password_or_an_error() {
    inputs::hold("connection_string", 2_000, |input| {
        connection_string::check(&String::from_utf8_lossy(input))
    });
}
