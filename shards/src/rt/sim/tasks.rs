//! Tasks: polled one at a time, in an order that the seed chooses.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::pipes;
use super::world::{End, Event, Process, is_there, with};

type Work = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    /// Taken out while it is polled.
    work: Option<Work>,
    process: Process,
    waker: Arc<TaskWaker>,
}

struct TaskWaker {
    id: u64,
    queued: AtomicBool,
}

thread_local! {
    static TASKS: RefCell<BTreeMap<u64, Task>> = const { RefCell::new(BTreeMap::new()) };
    static READY: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static NEXT: Cell<u64> = const { Cell::new(0) };
    static DEAD: RefCell<Vec<Process>> = const { RefCell::new(Vec::new()) };
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            READY.with_borrow_mut(|ready| ready.push(self.id));
        }
    }
}

/// The outcome of a task.
pub struct JoinHandle<T>(Rc<Slot<T>>);

struct Slot<T> {
    outcome: Cell<Option<T>>,
    waiting: Cell<Option<Waker>>,
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.0.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                self.0.waiting.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

/// A task of the process that runs. The work of a process that was killed is dropped at once.
pub fn spawn<T: 'static>(work: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    spawn_in(with(|world| world.process), work)
}

/// A task of this process.
pub fn spawn_in<T: 'static>(
    process: Process,
    work: impl Future<Output = T> + 'static,
) -> JoinHandle<T> {
    let slot = Rc::new(Slot { outcome: Cell::new(None), waiting: Cell::new(None) });
    if is_dead(process) {
        return JoinHandle(slot);
    }
    let told = slot.clone();
    let work = async move {
        told.outcome.set(Some(work.await));
        if let Some(waker) = told.waiting.take() {
            waker.wake();
        }
    };
    let id = NEXT.replace(NEXT.get() + 1);
    let waker = Arc::new(TaskWaker { id, queued: AtomicBool::new(false) });
    let task = Task { work: Some(Box::pin(work)), process, waker: waker.clone() };
    TASKS.with_borrow_mut(|tasks| tasks.insert(id, task));
    waker.wake();
    JoinHandle(slot)
}

/// Runs tasks until it holds, or until `limit_ns` of virtual time; whether it holds. Looks after
/// each step.
pub fn run_until(limit_ns: u64, mut holds: impl FnMut() -> bool) -> bool {
    loop {
        if holds() {
            return true;
        }
        fire_due();
        let ready = READY.with_borrow_mut(|ready| {
            let count = ready.len() as u64;
            (count > 0).then(|| ready.swap_remove(super::pick(0..count) as usize))
        });
        match ready {
            Some(id) => step(id),
            None => {
                let next = with(|world| {
                    let next = world.events.keys().next().map(|(at, _)| *at);
                    next.filter(|at| *at <= limit_ns).map(|at| world.now_ns = world.now_ns.max(at))
                });
                if next.is_none() {
                    return false;
                }
            }
        }
        if with(|world| world.now_ns) > limit_ns {
            return holds();
        }
    }
}

/// Ends a process at this very moment. Its tasks run no further.
pub fn kill(process: Process, end: End) {
    with(|world| world.note("kill", [u64::from(process.0), u64::from(end == End::PowerLoss)]));
    DEAD.with_borrow_mut(|dead| dead.push(process));
    pipes::close_all(process);
    let tasks = TASKS.with_borrow_mut(|tasks| {
        let ids: Vec<u64> =
            tasks.iter().filter(|(_, task)| task.process == process).map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| tasks.remove(&id)).collect::<Vec<_>>()
    });
    // Whatever these do while they are dropped happens in a process that is gone.
    let before = with(|world| std::mem::replace(&mut world.process, process));
    drop(tasks);
    with(|world| {
        world.process = before;
        if end == End::PowerLoss {
            world.lose_power();
        }
    });
}

pub(super) fn is_dead(process: Process) -> bool {
    DEAD.with_borrow(|dead| dead.contains(&process))
}

/// Ends every task: the world goes down.
pub(super) fn drop_all() {
    loop {
        let tasks = TASKS.with_borrow_mut(std::mem::take);
        if tasks.is_empty() {
            break;
        }
        drop(tasks);
    }
    let events = with(|world| std::mem::take(&mut world.events));
    drop(events);
    READY.with_borrow_mut(Vec::clear);
    DEAD.with_borrow_mut(Vec::clear);
    NEXT.set(0);
}

fn fire_due() {
    loop {
        let due = with(|world| {
            let now_ns = world.now_ns;
            let entry = world.events.first_entry()?;
            (entry.key().0 <= now_ns).then(|| entry.remove())
        });
        match due {
            Some(Event::Wake(waker)) => waker.wake(),
            Some(Event::Arrive(end)) => pipes::arrive(end),
            None => return,
        }
    }
}

fn step(id: u64) {
    let taken = TASKS.with_borrow_mut(|tasks| {
        let task = tasks.get_mut(&id)?;
        task.waker.queued.store(false, Ordering::Relaxed);
        Some((task.work.take()?, task.process, task.waker.clone()))
    });
    let Some((mut work, process, waker)) = taken else { return };
    with(|world| {
        // Work takes time.
        world.now_ns += world.rng.within(1_000..20_000);
        world.process = process;
        world.note("step", [id, 0]);
    });
    let waker = Waker::from(waker);
    let over = work.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
    if over {
        TASKS.with_borrow_mut(|tasks| tasks.remove(&id));
        drop(work);
    } else {
        let left = TASKS.with_borrow_mut(|tasks| match tasks.get_mut(&id) {
            Some(task) => {
                task.work = Some(work);
                None
            }
            // Its process was killed by what it did.
            None => Some(work),
        });
        drop(left);
    }
    if is_there() {
        with(|world| world.process = Process(0));
    }
}
