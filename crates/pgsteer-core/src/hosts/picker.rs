//! Which servers a mode and its topology keys admit, and which of several candidates is chosen.
//!
//! Node type always comes before place. Nothing here knows why a server is left out of the set it is given.

use super::mode::Wanted;
use super::{LoadBalance, Refused};
use crate::host::NodeType;
use crate::topology::Levels;

/// What matters of a server for the filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Where it is in the host table.
    pub(super) place: usize,
    pub(super) node_type: NodeType,
    pub(super) levels: Levels,
}

/// A mode with what its topology keys mean for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) mode: LoadBalance,
    /// There is at least one topology key.
    pub(super) keyed: bool,
    /// Servers outside the keys are to be refused.
    pub(super) fallback_only: bool,
}

/// A node type and a place, as far as they matter: what makes servers equally good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    node_type: Option<NodeType>,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Anywhere,
    Level(u8),
    Nowhere,
}

impl Filter {
    pub(super) fn admits(&self, server: &Facts) -> bool {
        let of_type = self
            .node_type
            .is_none_or(|node_type| node_type == server.node_type);
        let in_place = match self.place {
            Place::Anywhere => true,
            Place::Level(preference) => server.levels.contains(preference),
            Place::Nowhere => false,
        };
        of_type && in_place
    }
}

impl Policy {
    /// What the mode says when its servers are used up and it will not have the seeds instead. `None` if it will.
    pub(super) fn refuses(&self) -> Option<Refused> {
        match self.mode.wanted() {
            Wanted::Only(NodeType::Primary) => Some(Refused::Primary),
            Wanted::Only(NodeType::ReadReplica) => Some(Refused::ReadReplica),
            Wanted::Every if self.keyed && self.fallback_only => Some(Refused::Cluster),
            Wanted::Every | Wanted::Prefer(_) => None,
        }
    }

    /// Whether the mode takes such a server at all, if no better one is there.
    pub(super) fn takes(&self, server: &Facts) -> bool {
        let of_type = match self.mode.wanted() {
            Wanted::Only(wanted) => server.node_type == wanted,
            Wanted::Every | Wanted::Prefer(_) => true,
        };
        let refuses_others = self.keyed && self.refuses().is_some() && self.fallback_only;
        of_type && (!refuses_others || server.levels.lowest().is_some())
    }

    /// The best filter that some server of the set passes; with none, one that nothing passes or that all pass.
    pub(super) fn filter<'a>(&self, set: impl Iterator<Item = &'a Facts> + Clone) -> Filter {
        let of = |wanted: NodeType| set.clone().filter(move |server| server.node_type == wanted);
        match self.mode.wanted() {
            Wanted::Every => Filter {
                node_type: None,
                place: self.level(set, self.fallback_only),
            },
            Wanted::Only(wanted) => Filter {
                node_type: Some(wanted),
                place: self.level(of(wanted), self.fallback_only),
            },
            Wanted::Prefer(wanted) if of(wanted).next().is_some() => Filter {
                node_type: Some(wanted),
                place: self.level(of(wanted), false),
            },
            Wanted::Prefer(wanted) => Filter {
                node_type: Some(other(wanted)),
                place: Place::Anywhere,
            },
        }
    }

    fn level<'a>(&self, set: impl Iterator<Item = &'a Facts>, listed_only: bool) -> Place {
        if !self.keyed {
            return Place::Anywhere;
        }
        let levels = set.fold(Levels::default(), |levels, server| levels.union(server.levels));
        match levels.lowest() {
            Some(preference) => Place::Level(preference),
            None if listed_only => Place::Nowhere,
            None => Place::Anywhere,
        }
    }
}

fn other(node_type: NodeType) -> NodeType {
    match node_type {
        NodeType::Primary => NodeType::ReadReplica,
        NodeType::ReadReplica => NodeType::Primary,
    }
}

/// The least loaded of the candidates, which are places in `loads`, without those to be left out. `draw` settles ties,
/// each as likely as the other.
pub(super) fn least_loaded(
    candidates: &[usize],
    loads: &[u32],
    draw: u64,
    left_out: impl Fn(usize) -> bool,
) -> Option<usize> {
    // written without branches on the loads, which are as good as random: a thousand candidates take about a microsecond
    let mut least = u32::MAX;
    let mut tied = 0_u64;
    for place in candidates {
        if left_out(*place) {
            continue;
        }
        let load = loads[*place];
        tied = if load < least { 0 } else { tied } + u64::from(load <= least);
        least = least.min(load);
    }
    let mut to_pass = draw.checked_rem(tied)?;
    candidates.iter().copied().find(|place| {
        let is_tied = loads[*place] == least && !left_out(*place);
        let is_it = is_tied && to_pass == 0;
        to_pass = to_pass.wrapping_sub(u64::from(is_tied));
        is_it
    })
}

/// One of the places, each as likely as the other.
pub(super) fn nth_of(mut places: impl Iterator<Item = usize> + Clone, draw: u64) -> Option<usize> {
    let count = u64::try_from(places.clone().count()).unwrap_or(u64::MAX);
    let number = draw.checked_rem(count)?;
    places.nth(usize::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: E-141
    #[test]
    fn the_least_loaded_is_chosen() {
        for draw in 0..10 {
            assert_eq!(least_loaded(&[0, 1], &[2, 1], draw, |_| false), Some(1));
        }
    }

    /// Covers: E-142
    #[test]
    fn every_one_of_the_least_loaded_comes_up_equally_often_whatever_the_order() {
        let loads = [2, 1, 1, 1];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]] {
            let mut chosen = [0; 4];
            for draw in 0..300 {
                chosen[least_loaded(&order, &loads, draw, |_| false).expect("there are candidates")] += 1;
            }
            assert_eq!(chosen, [0, 100, 100, 100], "{order:?}");
        }
    }

    /// Covers: E-143
    #[test]
    fn nothing_is_chosen_of_nothing() {
        assert_eq!(least_loaded(&[], &[1, 2], 7, |_| false), None);
    }
}
