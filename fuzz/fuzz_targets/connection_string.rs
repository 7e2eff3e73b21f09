//! Any text as a connection string: reading never panics, what is read prints as a string that reads back the same, and
//! nothing printed has the password in it.
#![no_main]

#[path = "../properties/connection_string.rs"]
mod connection_string;

libfuzzer_sys::fuzz_target!(|text: &str| connection_string::check(text));
