//! Sets of backends, and requests to them.

use std::sync::Arc;

use pgsteer_router::backend::{BackendAddress, BackendOptions, BackendSet, BorrowError, Routed};

use super::{Backend, World, ask};

pub fn backends<const N: usize>(world: &World, weights: [u32; N]) -> [Arc<Backend>; N] {
    let mut number = 0;
    weights.map(|weight| {
        number += 1;
        world.backend(&format!("b{number}:1:{weight}"))
    })
}

pub fn set_of(world: &World, backends: &[Arc<Backend>], options: &BackendOptions) -> BackendSet {
    let list: Vec<_> = backends
        .iter()
        .map(|backend| (backend, options.clone()))
        .collect();
    super::start_set(world, &list)
}

pub fn list_of(
    backends: &[&Arc<Backend>],
    options: &BackendOptions,
) -> Vec<(BackendAddress, BackendOptions)> {
    backends
        .iter()
        .map(|backend| (backend.address.clone(), options.clone()))
        .collect()
}

pub async fn answer(mut routed: Routed) {
    assert_eq!(ask(routed.io(), b"word").await.unwrap(), b"word");
    routed.answered();
}

/// One request, and who answered it.
pub async fn request(set: &BackendSet) -> Result<String, BorrowError> {
    let routed = set.borrow().await?;
    let who = routed.address().to_string();
    answer(routed).await;
    Ok(who)
}

pub fn left_out(set: &BackendSet) -> Vec<bool> {
    set.status()
        .iter()
        .map(|status| status.left_out_for.is_some())
        .collect()
}

pub fn assert_spread(handled: &[u64], weights: &[u32]) {
    let (all, total): (u64, u32) = (handled.iter().sum(), weights.iter().sum());
    for (handled, weight) in handled.iter().zip(weights) {
        let share = all * u64::from(*weight) / u64::from(total);
        assert!(
            handled.abs_diff(share) * 100 <= share,
            "{handled} of {all} for {weight} of {total}"
        );
    }
}
