//! A gate that holds back whoever polls through it while it is shut: a frozen process, a cut cable.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use crate::cluster::lock;

/// Open at first.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    shut: bool,
    waiting: Vec<Waker>,
}

impl Gate {
    pub(crate) fn is_shut(&self) -> bool {
        lock(&self.inside).shut
    }

    pub(crate) fn shut(&self) {
        lock(&self.inside).shut = true;
    }

    pub(crate) fn open(&self) {
        let waiting = {
            let mut inside = lock(&self.inside);
            inside.shut = false;
            std::mem::take(&mut inside.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ready while open; otherwise the task is woken when it opens.
    pub(crate) fn poll_open(&self, context: &Context<'_>) -> Poll<()> {
        let mut inside = lock(&self.inside);
        if !inside.shut {
            return Poll::Ready(());
        }
        if !inside
            .waiting
            .iter()
            .any(|waker| waker.will_wake(context.waker()))
        {
            inside.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// A future that makes no progress while the gate is shut.
pub(crate) struct Gated<'a, F> {
    gate: &'a Gate,
    inner: Pin<Box<F>>,
}

impl<'a, F: Future> Gated<'a, F> {
    pub(crate) fn new(gate: &'a Gate, inner: F) -> Self {
        Gated {
            gate,
            inner: Box::pin(inner),
        }
    }
}

impl<F: Future> Future for Gated<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.gate.poll_open(context) {
            Poll::Ready(()) => self.inner.as_mut().poll(context),
            Poll::Pending => Poll::Pending,
        }
    }
}
