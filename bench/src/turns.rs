//! Whose turn it is in a round.

/// Lets each have its turn, from the first to the last in even rounds and from the last to the first in odd ones: what the
/// machine does is seldom over within one turn, and favours nobody that way.
pub fn in_turn<C: Copy>(round: usize, contenders: &[C], mut turn: impl FnMut(C)) {
    if round.is_multiple_of(2) {
        contenders.iter().copied().for_each(&mut turn);
    } else {
        contenders.iter().rev().copied().for_each(&mut turn);
    }
}
