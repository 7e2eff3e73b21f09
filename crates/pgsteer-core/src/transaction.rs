//! What a pool decides about transactions it runs again: how long it rests before that. Nothing here knows a
//! connection, reads a clock or draws a number.

use std::time::Duration;

/// The longest rest after the first attempt is twice this.
const BASE_MILLIS: u64 = 10;
/// Doublings after which it grows no more.
const MOST_DOUBLINGS: u32 = 20;

/// How long to rest after the failed attempt of this number, the first being 1: any number of whole milliseconds from 1
/// to twice as many with each attempt (20, 40, 80 and so on) and to `most` at most. `draw` is any random number. None at
/// all if `most` is less than a millisecond.
pub fn back_off(attempt: u32, most: Duration, draw: u64) -> Duration {
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    let limit = most.min(BASE_MILLIS << attempt.min(MOST_DOUBLINGS));
    if limit == 0 {
        return Duration::ZERO;
    }
    Duration::from_millis(1 + draw % limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_drawn_from_a_range_that_doubles_up_to_its_most() {
        let half_a_second = Duration::from_millis(500);
        // attempt, most, the longest rest in milliseconds
        let rows = [
            (1, half_a_second, 20),
            (2, half_a_second, 40),
            (5, half_a_second, 320),
            (6, half_a_second, 500),
            (20, Duration::MAX, 10 << 20),
            (u32::MAX, Duration::MAX, 10 << 20),
            (3, Duration::from_millis(5), 5),
        ];
        for (attempt, most, longest) in rows {
            let rest = |draw| back_off(attempt, most, draw).as_millis();
            assert_eq!(rest(0), 1, "attempt {attempt}");
            assert_eq!(rest(longest - 1), u128::from(longest), "attempt {attempt}");
            assert_eq!(rest(longest), 1, "attempt {attempt}");
        }
    }

    #[test]
    fn without_a_back_off_there_is_no_rest() {
        assert_eq!(back_off(1, Duration::ZERO, 7), Duration::ZERO);
        assert_eq!(back_off(9, Duration::from_micros(999), 7), Duration::ZERO);
    }
}
