//! The page of the documentation has every number, and no other.

use std::collections::BTreeMap;

use crate::rig::{config, full, recorded, sim};

#[test]
fn each_number_is_documented_with_its_kind() {
    recorded(|kept| async move {
        let sim = sim();
        drop(full(&sim, config("documented").pool_size(1)).await);
        let page = include_str!("../../../../docs/metrics.md");
        let mut documented = BTreeMap::new();
        for line in page.lines().filter(|line| line.starts_with("| `pgsteer_")) {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let (name, kind) = (cells.next().unwrap(), cells.next().unwrap());
            documented.insert(name.trim_matches('`').to_owned(), kind);
        }
        assert_eq!(documented, kept.described());
    });
}
