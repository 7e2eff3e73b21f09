//! Configurations: options, connection strings, documents, secrets. One test program, so that it is linked once.

mod documents;
mod effect;
mod options;
mod properties;
mod secrets;
mod urls;
