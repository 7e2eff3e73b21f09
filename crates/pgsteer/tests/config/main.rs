//! Configurations: options, connection strings, documents, secrets. One test program, so that it is linked once.

mod documents;
mod effect;
mod environment;
#[cfg(feature = "serde")]
mod fuzzed;
mod jdbc;
mod keyvalue;
mod options;
mod passfile;
mod properties;
mod random;
mod secrets;
mod table;
mod tls;
mod urls;
mod words;
