//! Which option a mistyped name was probably meant to be.

use super::rules::RULES;

/// How alike two names must be, from 0 to 1, for one to be offered for the other.
const ALIKE: f64 = 0.7;

/// The known name most like this one, if any is like it at all.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase().replace('_', "-");
    let ranked = RULES.iter().map(|rule| {
        let likeness = strsim::normalized_damerau_levenshtein(&name, rule.name);
        (likeness, rule.name)
    });
    ranked
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}
