//! The system's allocator with a count of what each thread allocates. It counts always and alike for all contenders.
#![expect(
    unsafe_code,
    reason = "a global allocator cannot be written without it; this one forwards to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(calls: u64, bytes: i64) {
    CALLS.set(CALLS.get() + calls);
    BYTES.set(BYTES.get() + bytes);
}

// SAFETY: forwards every call unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller's promises are the system allocator's demands, here and below.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What a thread has allocated.
#[derive(Clone, Copy, Debug)]
pub struct Allocated {
    /// Allocations.
    pub calls: u64,
    /// Bytes allocated and not freed.
    pub bytes: i64,
}

/// What this thread has allocated so far.
pub fn so_far() -> Allocated {
    Allocated {
        calls: CALLS.get(),
        bytes: BYTES.get(),
    }
}
