//! Models of the pool's shared parts: every interleaving of two or three threads that loom can find, within the
//! preemption bound given with each. Words have two idle bits here, so that three slots are two words.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p pgsteer-core --release --test loom_pool`.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use pgsteer_core::pool::{
    Checkout, GiveBack, GivenBack, HasSession, Keeper, Lease, PassEnd, Rejected, Session, Slots, Take, Tenant,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::sync::Mutex as StdMutex;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A tenant whose content only its slot's owner may touch: loom reports any access that is not ordered.
struct Connection {
    session: StdArc<Session>,
    touched: u32,
}

impl Tenant for Connection {
    fn is_fit(&self) -> bool {
        self.session.is_fit()
    }
}

impl HasSession for Connection {
    fn session(&self) -> &StdArc<Session> {
        &self.session
    }
}

/// Keeps what it is given. The lock is never held over anything that loom watches.
#[derive(Clone, Default)]
struct Shelf(StdArc<StdMutex<Vec<Lease>>>);

impl Shelf {
    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
    fn take(&self) -> Option<Lease> {
        self.0.lock().unwrap().pop()
    }
}

impl Keeper for Shelf {
    fn receive(&self, lease: Lease) {
        self.0.lock().unwrap().push(lease);
    }
    fn due(&self, _: Instant) {}
}

type Pool = Arc<Slots<Connection, &'static str>>;

/// A pool whose slots all have a tenant; they are all owned by the caller.
fn pool(size: u32) -> (Pool, Vec<Lease>, Shelf) {
    let shelf = Shelf::default();
    let (slots, mut leases) = Slots::new(size, Box::new(shelf.clone()));
    for lease in &mut leases {
        slots.put(
            lease,
            Connection {
                session: StdArc::default(),
                touched: 0,
            },
        );
    }
    (Arc::new(slots), leases, shelf)
}

fn session(pool: &Pool, lease: &Lease) -> StdArc<Session> {
    StdArc::clone(&pool.get(lease).session)
}

fn touch(pool: &Pool, lease: &mut Lease) {
    pool.get_mut(lease).touched += 1;
}

fn poll_once(
    checkout: &mut Checkout<'_, Connection, &'static str>,
) -> Poll<Result<Lease, Rejected<&'static str>>> {
    Pin::new(checkout).poll(&mut Context::from_waker(Waker::noop()))
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Use it if one comes at once.
fn use_one(pool: &Pool) -> bool {
    match pool.try_take() {
        Take::Leased(mut lease) => {
            touch(pool, &mut lease);
            pool.release(lease);
            true
        }
        Take::Unfit(_) => panic!("every tenant is fit"),
        Take::Empty => false,
    }
}

#[test]
fn one_slot_has_one_owner_at_a_time_and_each_sees_what_the_last_one_did() {
    explore(3, || {
        let (pool, leases, _) = pool(1);
        leases.into_iter().for_each(|lease| pool.release(lease));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || use_one(&pool))
            })
            .collect();
        let mine = u32::from(use_one(&pool));
        let used = others
            .into_iter()
            .map(|other| u32::from(other.join().unwrap()))
            .sum::<u32>()
            + mine;

        let Take::Leased(lease) = pool.try_take() else {
            panic!("the slot is idle again")
        };
        assert_eq!(pool.get(&lease).touched, used);
        assert!(used >= 1);
    });
}

#[test]
fn slots_in_two_words_are_taken_and_returned_without_loss() {
    explore(2, || {
        let (pool, leases, _) = pool(3);
        leases.into_iter().skip(1).for_each(|lease| pool.release(lease));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || use_one(&pool))
            })
            .collect();
        others.into_iter().for_each(|other| {
            other.join().unwrap();
        });
        assert_eq!(pool.idle_slots().collect::<Vec<_>>(), [1, 2]);
    });
}

#[test]
fn a_return_never_misses_a_waiter() {
    explore(3, || {
        let (pool, mut leases, _) = pool(1);
        let mut lease = leases.pop().unwrap();
        let waiter = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                let mut lease = block_on(pool.checkout(None)).unwrap();
                touch(&pool, &mut lease);
                pool.release(lease);
            })
        };
        touch(&pool, &mut lease);
        pool.release(lease);
        waiter.join().unwrap();
        assert_eq!((pool.idle(), pool.waiting()), (1, 0));
    });
}

#[test]
fn returns_to_two_words_serve_a_waiter_and_lose_nothing() {
    explore(2, || {
        let (pool, mut leases, _) = pool(3);
        let returns: Vec<_> = [2, 0]
            .into_iter()
            .map(|place| {
                let (pool, lease) = (Arc::clone(&pool), leases.remove(place));
                thread::spawn(move || pool.release(lease))
            })
            .collect();
        let lease = block_on(pool.checkout(None)).unwrap();
        returns.into_iter().for_each(|returned| returned.join().unwrap());
        assert_eq!((pool.idle(), pool.waiting()), (1, 0));
        pool.release(lease);
        assert_eq!(pool.idle(), 2);
        assert!(
            matches!(pool.try_take(), Take::Leased(_)),
            "the flags are down again"
        );
    });
}

#[test]
fn a_slot_granted_to_a_waiter_that_gives_up_is_idle_again() {
    explore(3, || {
        let (pool, mut leases, _) = pool(1);
        let lease = leases.pop().unwrap();
        let quitter = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                let mut checkout = pool.checkout(None);
                if let Poll::Ready(lease) = poll_once(&mut checkout) {
                    pool.release(lease.unwrap());
                }
            })
        };
        pool.release(lease);
        quitter.join().unwrap();
        assert_eq!((pool.idle(), pool.waiting()), (1, 0));
        assert!(matches!(pool.try_take(), Take::Leased(_)));
    });
}

#[test]
fn a_slot_granted_to_a_waiter_that_gives_up_goes_to_the_next() {
    explore(3, || {
        let (pool, mut leases, _) = pool(1);
        let lease = leases.pop().unwrap();
        let mut quitter = pool.checkout(None);
        assert!(poll_once(&mut quitter).is_pending());
        let next = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.release(block_on(pool.checkout(None)).unwrap()))
        };
        let holder = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.release(lease))
        };
        drop(quitter);
        next.join().unwrap();
        holder.join().unwrap();
        assert_eq!((pool.idle(), pool.waiting()), (1, 0));
    });
}

#[test]
fn whoever_waited_first_is_served_first() {
    explore(3, || {
        let (pool, mut leases, _) = pool(1);
        let lease = leases.pop().unwrap();
        let mut first = pool.checkout(None);
        assert!(poll_once(&mut first).is_pending());
        let second = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                let lease = block_on(pool.checkout(None)).unwrap();
                let touched = pool.get(&lease).touched;
                pool.release(lease);
                touched
            })
        };
        let holder = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.release(lease))
        };
        let mut lease = block_on(first).unwrap();
        touch(&pool, &mut lease);
        pool.release(lease);
        assert_eq!(
            second.join().unwrap(),
            1,
            "the second came after the first had used it"
        );
        holder.join().unwrap();
        assert_eq!((pool.idle(), pool.waiting()), (1, 0));
    });
}

#[test]
fn a_newcomer_never_overtakes_a_waiter() {
    explore(3, || {
        let (pool, mut leases, _) = pool(1);
        let lease = leases.pop().unwrap();
        let mut waiter = pool.checkout(None);
        assert!(poll_once(&mut waiter).is_pending());
        let newcomer = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || matches!(pool.try_take(), Take::Empty))
        };
        pool.release(lease);
        assert!(newcomer.join().unwrap());
        let Poll::Ready(Ok(_lease)) = poll_once(&mut waiter) else {
            panic!("the waiter was served")
        };
    });
}

#[test]
fn a_newcomer_that_stalled_does_not_overtake_a_waiter_that_came_meanwhile() {
    explore(3, || {
        // The newcomer may see the slot idle before anybody waits, and clear its bit only when it has come back.
        let (pool, mut leases, _) = pool(1);
        pool.release(leases.pop().unwrap());
        let waits = Arc::new(AtomicBool::new(false));
        let newcomer = {
            let (pool, waits) = (Arc::clone(&pool), Arc::clone(&waits));
            thread::spawn(move || {
                if let Take::Leased(lease) = pool.try_take() {
                    assert!(!waits.load(Ordering::Relaxed), "overtook");
                    pool.release(lease);
                }
            })
        };
        let claimed = pool.claim(0);
        let mut waiter = pool.checkout(None);
        let taken = match poll_once(&mut waiter) {
            Poll::Ready(lease) => lease.ok(),
            Poll::Pending => {
                // If the claim failed, the newcomer may have been first, and rightly have the slot.
                waits.store(claimed.is_some(), Ordering::Relaxed);
                claimed.into_iter().for_each(|lease| pool.release(lease));
                newcomer.join().unwrap();
                let Poll::Ready(Ok(lease)) = poll_once(&mut waiter) else {
                    panic!("nobody else is left")
                };
                pool.release(lease);
                assert_eq!((pool.idle(), pool.waiting()), (1, 0));
                return;
            }
        };
        assert!(taken.is_some() && claimed.is_none());
    });
}

#[test]
fn a_claim_a_checkout_and_a_return_share_a_slot_without_doubling_it() {
    explore(3, || {
        let (pool, mut leases, _) = pool(1);
        let lease = leases.pop().unwrap();
        let keeper = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                if let Some(mut lease) = pool.claim(0) {
                    touch(&pool, &mut lease);
                    pool.release(lease);
                }
            })
        };
        let newcomer = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || use_one(&pool))
        };
        pool.release(lease);
        keeper.join().unwrap();
        newcomer.join().unwrap();
        assert_eq!(pool.idle(), 1);
    });
}

#[test]
fn a_claim_takes_a_returned_slot_from_a_waiter_only_until_it_comes_back() {
    explore(3, || {
        let (pool, mut leases, _) = pool(1);
        let lease = leases.pop().unwrap();
        let keeper = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                if let Some(lease) = pool.claim(0) {
                    pool.release(lease);
                }
            })
        };
        let holder = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.release(lease))
        };
        pool.release(block_on(pool.checkout(None)).unwrap());
        keeper.join().unwrap();
        holder.join().unwrap();
        assert_eq!((pool.idle(), pool.waiting()), (1, 0));
    });
}

#[test]
fn a_retired_slot_is_never_handed_out_again_and_never_lost() {
    explore(3, || {
        let (pool, mut leases, _) = pool(1);
        let lease = leases.pop().unwrap();
        let session = session(&pool, &lease);
        let holder = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || match pool.give_back(lease) {
                GivenBack::Released => None,
                GivenBack::Unfit(lease) => Some(lease),
                GivenBack::Parked => panic!("the wire was quiet"),
            })
        };
        session.retire();
        let claimed = pool.claim(0);
        let found = pool.try_take();
        let unfit = holder.join().unwrap();
        assert!(!matches!(found, Take::Leased(_)), "handed out though retired");
        let found = match found {
            Take::Unfit(lease) => Some(lease),
            _ => None,
        };
        let owners = [claimed, found, unfit].into_iter().flatten().count();
        assert_eq!(owners + pool.idle(), 1);
    });
}

#[test]
fn a_waiter_whose_granted_slot_is_retired_waits_on_and_gets_the_next() {
    explore(2, || {
        let (pool, mut leases, shelf) = pool(2);
        let second = leases.pop().unwrap();
        let first = leases.pop().unwrap();
        let session = session(&pool, &first);
        let keeper = thread::spawn(move || session.retire());
        let holder = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                pool.release(first);
                pool.release(second);
            })
        };
        let lease = block_on(pool.checkout(None)).unwrap();
        keeper.join().unwrap();
        holder.join().unwrap();
        assert_eq!(1 + pool.idle() + shelf.len(), 2);
        assert_eq!(pool.waiting(), 0);
        drop(lease);
    });
}

#[test]
fn a_timeout_and_a_grant_settle_a_wait_once() {
    let start = Instant::now();
    explore(3, move || {
        let (pool, mut leases, _) = pool(1);
        let lease = leases.pop().unwrap();
        let mut checkout = pool.checkout(Some(start + Duration::from_secs(1)));
        assert!(poll_once(&mut checkout).is_pending());
        let clock = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.expire(start + Duration::from_secs(1)))
        };
        let holder = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.release(lease))
        };
        match block_on(checkout) {
            Ok(lease) => pool.release(lease),
            Err(rejected) => assert_eq!(rejected, Rejected::TimedOut),
        }
        assert_eq!(clock.join().unwrap(), None);
        holder.join().unwrap();
        assert_eq!((pool.idle(), pool.waiting()), (1, 0));
        assert!(matches!(pool.try_take(), Take::Leased(_)));
    });
}

#[test]
fn closing_leaves_each_slot_idle_or_with_the_keeper_and_nobody_waiting() {
    explore(2, || {
        let (pool, mut leases, shelf) = pool(1);
        let lease = leases.pop().unwrap();
        let waiter = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || match block_on(pool.checkout(None)) {
                Ok(lease) => pool.release(lease),
                Err(rejected) => assert_eq!(rejected, Rejected::Closed),
            })
        };
        let holder = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.release(lease))
        };
        pool.close();
        let claimed = pool.claim(0);
        waiter.join().unwrap();
        holder.join().unwrap();
        assert!(matches!(pool.try_take(), Take::Empty));
        let kept = shelf.take();
        assert_eq!([claimed, kept].into_iter().flatten().count(), 1);
        assert_eq!((pool.idle(), pool.waiting()), (0, 0));
    });
}

#[test]
fn a_parked_slot_gets_exactly_one_owner_when_the_last_answer_has_come() {
    a_parked_slot_gets_exactly_one_owner(false);
}

#[test]
fn a_parked_slot_gets_exactly_one_owner_when_the_connection_ends_before_the_answer() {
    a_parked_slot_gets_exactly_one_owner(true);
}

fn a_parked_slot_gets_exactly_one_owner(busy: bool) {
    explore(3, move || {
        let (pool, mut leases, _) = pool(1);
        let lease = leases.pop().unwrap();
        let session = session(&pool, &lease);
        session.wake();
        let driver = {
            let (pool, session) = (Arc::clone(&pool), StdArc::clone(&session));
            thread::spawn(move || {
                session.begin_pass();
                let passed = match session.end_pass(busy, false) {
                    PassEnd::Release | PassEnd::HandOver => {
                        Some(pool.unpark(0).expect("the winner finds the lease"))
                    }
                    PassEnd::Rest | PassEnd::Again => None,
                };
                let closed = session
                    .close()
                    .then(|| pool.unpark(0).expect("the winner finds the lease"));
                [passed, closed]
            })
        };
        let keeper = {
            let (pool, session) = (Arc::clone(&pool), StdArc::clone(&session));
            thread::spawn(move || {
                session
                    .unpark()
                    .then(|| pool.unpark(0).expect("the winner finds the lease"))
            })
        };
        let mine = match pool.give_back(lease) {
            GivenBack::Unfit(lease) => Some(lease),
            GivenBack::Released | GivenBack::Parked => None,
        };
        let driven = driver.join().unwrap();
        let kept = keeper.join().unwrap();
        assert!(!session.is_parked());
        let owners = driven.into_iter().chain([kept, mine]).flatten().count();
        assert_eq!(owners + pool.idle(), 1);
    });
}

#[test]
fn retiring_a_parked_slot_sends_it_to_the_keeper_or_leaves_it_idle_and_unfit() {
    explore(3, || {
        let (pool, mut leases, _) = pool(1);
        let lease = leases.pop().unwrap();
        let session = session(&pool, &lease);
        session.wake();
        let driver = {
            let (pool, session) = (Arc::clone(&pool), StdArc::clone(&session));
            thread::spawn(move || {
                session.begin_pass();
                match session.end_pass(false, false) {
                    PassEnd::Release => {
                        pool.release(pool.unpark(0).expect("the winner finds the lease"));
                        None
                    }
                    PassEnd::HandOver => Some(pool.unpark(0).expect("the winner finds the lease")),
                    PassEnd::Rest | PassEnd::Again => None,
                }
            })
        };
        let keeper = {
            let session = StdArc::clone(&session);
            thread::spawn(move || session.retire())
        };
        let mine = match pool.give_back(lease) {
            GivenBack::Unfit(lease) => Some(lease),
            GivenBack::Released | GivenBack::Parked => None,
        };
        let handed = driver.join().unwrap();
        keeper.join().unwrap();
        assert!(
            !session.is_parked(),
            "every pass has ended, so nothing may be left parked"
        );
        assert!(
            !matches!(pool.try_take(), Take::Leased(_)),
            "retired, so never handed out"
        );
        assert!(mine.is_none() || handed.is_none());
    });
}

/// The request queue between a holder and the driver. Relaxed: only the session's bits order it.
#[derive(Default)]
struct Requests {
    queued: AtomicBool,
}

impl Requests {
    /// Holder: the request is there, then the driver's waker is woken.
    fn ask(&self, session: &Session) {
        self.queued.store(true, Ordering::Relaxed);
        session.wake();
    }

    /// Driver, in a pass: whether the request has been seen and so is sent.
    fn seen(&self) -> bool {
        self.queued.load(Ordering::Relaxed)
    }
}

#[test]
fn a_session_with_a_request_that_nobody_answered_is_never_quiet() {
    explore(3, || {
        let (session, requests) = (Arc::new(Session::new()), Arc::new(Requests::default()));
        session.wake();
        let driver = {
            let (session, requests) = (Arc::clone(&session), Arc::clone(&requests));
            thread::spawn(move || {
                let mut unanswered = false;
                for _ in 0..2 {
                    session.begin_pass();
                    unanswered |= requests.seen();
                    match session.end_pass(unanswered, false) {
                        PassEnd::Again => {}
                        end => {
                            assert_eq!(end, PassEnd::Rest);
                            break;
                        }
                    }
                }
                unanswered
            })
        };
        requests.ask(&session);
        assert_eq!(session.outlook(), GiveBack::Parked, "the server owes an answer");
        assert!(!session.is_quiet());
        let seen = driver.join().unwrap();
        assert!(seen || !session.is_quiet(), "a wake was lost");
        assert_eq!(session.outlook(), GiveBack::Parked);
    });
}

#[test]
fn the_next_holder_never_gets_a_session_with_an_unanswered_request() {
    explore(3, || {
        let (pool, mut leases, _) = pool(1);
        let lease = leases.pop().unwrap();
        let session = session(&pool, &lease);
        let requests = Arc::new(Requests::default());
        // The holder queues a request and drops its guard at once; the driver may be in a pass meanwhile.
        session.wake();
        let driver = {
            let (pool, session, requests) =
                (Arc::clone(&pool), StdArc::clone(&session), Arc::clone(&requests));
            thread::spawn(move || {
                let (mut sent, mut answered) = (false, false);
                for _ in 0..4 {
                    session.begin_pass();
                    // What an earlier pass has sent is answered in this one.
                    answered |= sent;
                    sent |= requests.seen();
                    match session.end_pass(sent && !answered, false) {
                        PassEnd::Release => {
                            assert!(answered, "released before the answer");
                            pool.release(pool.unpark(0).expect("the winner finds the lease"));
                            break;
                        }
                        PassEnd::HandOver => panic!("neither dirty nor retired"),
                        PassEnd::Again => {}
                        PassEnd::Rest if answered || !sent => break,
                        // The answer arrives.
                        PassEnd::Rest => session.wake(),
                    }
                }
                answered
            })
        };
        requests.ask(&session);
        let given = pool.give_back(lease);
        assert!(!matches!(given, GivenBack::Unfit(_)));
        let taken = pool.try_take();
        if let Take::Leased(lease) = &taken {
            assert!(pool.get(lease).session.is_quiet());
        }
        let answered = driver.join().unwrap();
        let released = matches!(taken, Take::Leased(_)) || pool.idle() == 1;
        assert!(released != session.is_parked());
        if !released {
            assert!(
                !session.is_quiet(),
                "parked, and no wake is left that would bring the driver back"
            );
            session.begin_pass();
            let end = if answered { PassEnd::Release } else { PassEnd::Rest };
            assert_eq!(session.end_pass(!answered, false), end);
        }
    });
}

#[test]
fn whoever_unparks_a_slot_sees_what_its_holder_did() {
    explore(3, || {
        let (pool, mut leases, _) = pool(1);
        let mut lease = leases.pop().unwrap();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || pool.unpark(0).map(|lease| pool.get(&lease).touched))
            })
            .collect();
        touch(&pool, &mut lease);
        pool.park(lease);
        let seen: Vec<_> = others
            .into_iter()
            .filter_map(|other| other.join().unwrap())
            .collect();
        assert!(seen.len() + usize::from(pool.unpark(0).is_some()) == 1);
        assert!(seen.iter().all(|&touched| touched == 1));
    });
}

#[test]
fn whoever_finds_a_session_quiet_sees_what_the_last_pass_recorded() {
    explore(3, || {
        let session = Arc::new(Session::new());
        let recorded = Arc::new(AtomicBool::new(false));
        session.wake();
        let driver = {
            let (session, recorded) = (Arc::clone(&session), Arc::clone(&recorded));
            thread::spawn(move || {
                session.begin_pass();
                recorded.store(true, Ordering::Relaxed);
                session.end_pass(false, false)
            })
        };
        if session.outlook() == GiveBack::Clean {
            assert!(recorded.load(Ordering::Relaxed));
        }
        assert_eq!(driver.join().unwrap(), PassEnd::Rest);
    });
}
