//! How often the machine itself stands still: interrupts, and a host that gives the processor to somebody else. What is
//! late then is no pool's doing.

use std::thread;
use std::time::{Duration, Instant};

use crate::runtimes::WORKERS;
use crate::table::median;

/// Between two readings of the clock this long means that somebody else had the core.
const STOP: Duration = Duration::from_micros(10);

pub struct Stops {
    /// Those of several cores that overlap count as one.
    pub a_second: f64,
    pub median_us: f64,
}

/// Watches as many cores as there are workers, with nothing else to do, for so long.
pub fn watch(length: Duration) -> Stops {
    let epoch = Instant::now();
    let mut stops: Vec<(Duration, Duration)> = thread::scope(|scope| {
        let watching = || {
            let mut found = Vec::new();
            let mut last = epoch.elapsed();
            while last < length {
                let now = epoch.elapsed();
                if now - last >= STOP {
                    found.push((last, now));
                }
                last = now;
            }
            found
        };
        let watchers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(watching)).collect();
        watchers
            .into_iter()
            .flat_map(|watcher| watcher.join().expect("it only reads the clock"))
            .collect()
    });
    stops.sort_unstable();
    let lengths: Vec<f64> = stops
        .iter()
        .map(|(from, to)| (*to - *from).as_secs_f64() * 1e6)
        .collect();
    Stops {
        a_second: f64::from(apart(&stops)) / length.as_secs_f64(),
        median_us: median(&lengths),
    }
}

/// How many there are when those that overlap count as one. They come in the order of their beginnings.
fn apart(stops: &[(Duration, Duration)]) -> u32 {
    let mut count = 0;
    let mut until = Duration::ZERO;
    for &(from, to) in stops {
        if count == 0 || from > until {
            count += 1;
        }
        until = until.max(to);
    }
    count
}
