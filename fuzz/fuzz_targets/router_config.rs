//! Any text as the router's configuration: reading never panics, the same text means the same, errors name what they are
//! about, and what is accepted is within its bounds.
#![no_main]

#[path = "../properties/config.rs"]
mod config;

libfuzzer_sys::fuzz_target!(|text: &str| config::check(text));
