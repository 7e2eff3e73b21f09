//! Several backends, whose list is changed or which are closed while requests are under way.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backend_rig;

use std::num::NonZeroU32;
use std::sync::Arc;

use backend_rig::sets::{backends, list_of, request, set_of};
use backend_rig::{SECOND, World, ask, quiet, settle, sizes};
use pgsteer_router::backend::{BackendOptions, BackendSet, BorrowError, Routed, SetError};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn a_change_of_the_list_touches_no_request_under_way() {
    let world = World::default();
    let three = backends(&world, [1, 1, 1]);
    let options = BackendOptions {
        min_idle: 1,
        ..quiet()
    };
    let set = set_of(&world, &three[..2], &options);
    settle().await;
    let mut held = [set.borrow().await.unwrap(), set.borrow().await.unwrap()];
    held.sort_by_key(|routed| routed.address().to_string());
    let [first, mut second] = held;

    // b2 goes, b3 comes, b1 stays with another weight.
    let heavier = three[0].address.clone().with_weight(NonZeroU32::new(7).unwrap());
    let mut list = list_of(&[&three[2]], &options);
    list.insert(0, (heavier, options.clone()));
    set.update(list).unwrap();
    settle().await;

    let status = set.status();
    let names: Vec<String> = status.iter().map(|status| status.address.to_string()).collect();
    assert_eq!(names, ["b1:1", "b3:1"]);
    assert_eq!(status[0].address.weight().get(), 7);
    assert_eq!(
        (status[0].in_flight, three[0].dials()),
        (1, 1),
        "it is the same pool"
    );
    assert_eq!(sizes(&status[1]), [1, 0, 0, 0], "the new one is warm");
    assert_eq!(
        three[1].sockets(),
        1,
        "its idle ones are closed, what is in use is not"
    );
    assert_eq!(ask(second.io(), b"last").await.unwrap(), b"last");
    second.answered();
    settle().await;
    assert_eq!(three[1].sockets(), 0, "now it is gone");
    first.answered();
    for _ in 0..16 {
        assert_ne!(request(&set).await.unwrap(), "b2:1");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_at_a_backend_that_is_taken_out_go_elsewhere() {
    let world = World::default();
    let two = backends(&world, [100, 1]);
    let options = BackendOptions {
        max_size: 1,
        ..quiet()
    };
    let set = set_of(&world, &two[..1], &options);
    let held = set.borrow().await.unwrap();
    let waits = tokio::spawn({
        let set = set.clone();
        async move { request(&set).await.unwrap() }
    });
    settle().await;
    set.update(list_of(&[&two[1]], &options)).unwrap();
    assert_eq!(waits.await.unwrap(), "b2:1");
    held.answered();
}

#[tokio::test(start_paused = true)]
async fn a_backend_whose_options_have_changed_is_started_anew_and_the_old_one_ends_in_peace() {
    let world = World::default();
    let [backend] = backends(&world, [1]);
    let set = set_of(
        &world,
        &[Arc::clone(&backend)],
        &BackendOptions {
            min_idle: 1,
            ..quiet()
        },
    );
    settle().await;
    let mut held = set.borrow().await.unwrap();
    set.update(list_of(
        &[&backend],
        &BackendOptions {
            min_idle: 3,
            ..quiet()
        },
    ))
    .unwrap();
    settle().await;
    assert_eq!(sizes(&set.status()[0]), [3, 0, 0, 0]);
    assert_eq!(ask(held.io(), b"last").await.unwrap(), b"last");
    held.answered();
    settle().await;
    assert_eq!(backend.sockets(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_bad_list_is_refused_with_its_reason_and_changes_nothing() {
    let world = World::default();
    let two = backends(&world, [1, 1]);
    let set = set_of(&world, &two, &quiet());
    let twice = list_of(&[&two[0], &two[1], &two[0]], &quiet());
    let mut bad = list_of(&[&two[0]], &quiet());
    bad[0].1.max_size = 0;
    let table = [
        (vec![], "there must be at least one backend"),
        (twice, "backend b1:1 is given twice"),
        (
            bad,
            "backend b1:1: option max_size cannot be `0`: it takes a number from 1 to 65535",
        ),
    ];
    for (list, expected) in table {
        assert_eq!(
            BackendSet::start(list.clone(), world.dialer())
                .unwrap_err()
                .to_string(),
            expected
        );
        assert_eq!(set.update(list).unwrap_err().to_string(), expected);
    }
    assert_eq!(set.status().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_what_is_under_way_everywhere_also_at_backends_that_were_taken_out() {
    let world = World::default();
    let two = backends(&world, [1, 1]);
    let options = BackendOptions {
        min_idle: 1,
        ..quiet()
    };
    let set = set_of(&world, &two, &options);
    let held = [set.borrow().await.unwrap(), set.borrow().await.unwrap()];
    set.update(list_of(&[&two[0]], &options)).unwrap();
    let closes = tokio::spawn({
        let set = set.clone();
        async move { set.close(30 * SECOND).await }
    });
    sleep(5 * SECOND).await;
    assert!(!closes.is_finished());
    assert!(matches!(set.borrow().await, Err(BorrowError::Closed)));
    assert!(matches!(
        set.update(list_of(&[&two[0]], &options)),
        Err(SetError::Closed)
    ));
    held.into_iter().for_each(Routed::answered);
    let closed = closes.await.unwrap();
    assert_eq!((closed.still_out, closed.took.as_secs()), (0, 5));
    assert_eq!(two[0].sockets() + two[1].sockets(), 0);
}
