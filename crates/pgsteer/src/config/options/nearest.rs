//! Which option a mistyped name was probably meant to be.

use super::{OPTIONS, words};

/// How alike two names must be, from 0 to 1, for one to be offered for the other. One slip in a name of four letters is
/// just enough; `socket_timeout` and `connect_timeout` are not taken for each other.
const ALIKE: f64 = 0.74;

/// The known name most like this one, if any is like it at all.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase().replace('-', "_");
    let own = OPTIONS
        .iter()
        .flat_map(|rule| std::iter::once(rule.name).chain(rule.aliases.iter().copied()));
    let ranked = own.chain(words::names()).map(|candidate| {
        let likeness = strsim::normalized_damerau_levenshtein(&name, &candidate.to_lowercase());
        (likeness, candidate)
    });
    ranked
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}
