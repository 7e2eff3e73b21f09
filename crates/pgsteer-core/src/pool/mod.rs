//! One pool: its slots and who waits for them, and the planner that says what to open, close and move.

pub mod planner;
