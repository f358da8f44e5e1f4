//! What threads share is made of these, in one place: the test of [`crate::inbox`] puts others in
//! theirs.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use atomic_waker::AtomicWaker;
pub(crate) use crossbeam_queue::ArrayQueue;
