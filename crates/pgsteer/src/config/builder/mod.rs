//! The setters of [`Config`](super::Config), one per option, by the option's name.
//!
//! They store what they are given; nothing is judged here.

mod cluster;
mod hooks;
mod login;
mod pool;
mod socket;
mod tls;
mod tls_connector;

pub(crate) use tls_connector::TlsConnector;
