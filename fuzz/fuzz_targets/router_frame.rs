//! Any bytes as a stream of the router's frames: reading never panics, and however the stream is cut into reads, the same
//! frames come out of it, each of them what its payload encodes to.
#![no_main]

#[path = "../properties/frame.rs"]
mod frame;

libfuzzer_sys::fuzz_target!(|input: &[u8]| frame::check(input));
