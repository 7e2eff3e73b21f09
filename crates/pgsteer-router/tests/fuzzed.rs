//! The properties that are fuzzed, against the seeds of the fuzz targets and against inputs made from them, a short while at
//! each run.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../fuzz/properties/config.rs"]
mod config;
#[path = "../../../fuzz/properties/frame.rs"]
mod frame;
#[path = "../../../fuzz/properties/inputs.rs"]
mod inputs;

/// Covers: S-13, S-80
#[test]
fn any_bytes_are_the_same_frames_however_they_are_cut_into_reads() {
    inputs::hold("router_frame", 20_000, frame::check);
}

/// Covers: S-81
#[test]
fn any_text_is_a_configuration_within_its_bounds_or_an_error_that_names_the_option() {
    // Reading TOML takes its time where nothing is optimised.
    inputs::hold("router_config", 2_000, |input| {
        config::check(&String::from_utf8_lossy(input))
    });
}
