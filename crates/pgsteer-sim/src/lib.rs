//! A simulated cluster of servers that speak the PostgreSQL protocol.
