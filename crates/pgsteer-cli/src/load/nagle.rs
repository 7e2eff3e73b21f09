//! A sign of one common mistake in what is measured: an answer written in two parts on a socket without TCP_NODELAY waits for
//! the other side's delayed acknowledgement, which Linux sends after 40 ms.

use crate::latency::Percentiles;

/// Of a delayed acknowledgement.
const DELAY_MS: f64 = 40.0;
/// Several of them may follow each other; beyond this many anything else is as likely.
const MOST: u32 = 5;

/// What to say of times near a multiple of the delay.
pub(super) fn warning(latency: &Percentiles) -> Option<String> {
    let suspect = |(name, micros): (&str, f64)| {
        let millis = micros / 1000.0;
        let near = (1..=MOST).any(|times| {
            let delay = DELAY_MS * f64::from(times);
            // Each turn adds some milliseconds to the delay itself.
            (delay - 1.0..=delay * 1.1 + 4.0).contains(&millis)
        });
        near.then(|| format!("{name} is {millis:.1} ms"))
    };
    let found = [("p50", latency.p50), ("p99", latency.p99)]
        .into_iter()
        .find_map(suspect)?;
    Some(format!(
        "{found}, near a multiple of 40 ms: some socket on the way may lack TCP_NODELAY (Nagle's algorithm waiting for a delayed \
         acknowledgement)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: S-78
    #[test]
    fn times_near_a_multiple_of_forty_milliseconds_are_suspect() {
        let cases = [
            (0.14, 0.23, false),
            (0.14, 46.0, true),
            (0.14, 50.0, false),
            (41.3, 48.0, true),
            (20.0, 60.0, false),
            (132.0, 176.0, true),
            (500.0, 640.0, false),
        ];

        for (p50, p99, suspect) in cases {
            let latency = Percentiles {
                p50: p50 * 1000.0,
                p99: p99 * 1000.0,
                ..Percentiles::default()
            };

            assert_eq!(warning(&latency).is_some(), suspect, "p50 {p50} ms, p99 {p99} ms");
        }
    }
}
