//! Sessions that are closed while their calls are under way.

use std::time::{Duration, Instant};

use rollgate_pipeline::exchange::SessionState;
use rollgate_pipeline::record::Record;
use rollgate_pipeline::turn::Finish;
use rollgate_shards::{DriverChoice, Gate};

use crate::agent::{Agent, chat, user};
use crate::engine::{Act, Engine};
use crate::node::{
    Setting, block_on, create, eventually, model, on_both, records, state_dir, total,
};

/// A second, and what a machine that does other things may add to it.
const SOON: Duration = Duration::from_millis(1_500);

/// Three calls of one session, one of them in a stream that has begun, and the close of it.
fn close_over(
    driver: DriverChoice,
    act: Act,
    check: impl Fn(&Gate, &Engine, &mut [Agent], SessionState, Vec<Record>),
) {
    let engine = Engine::start(model(), move |_| act.clone());
    let state = state_dir();
    let setting = Setting { keepalive_first_ms: 50, ..Setting::new(driver) };
    let gate = setting.with(state.path(), &engine);
    let made = create(&gate);
    let mut agents = Vec::new();
    for (text, stream) in [("q", false), ("r", false), ("s", true)] {
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(&chat(&made.key, &user(text), stream));
        agents.push(agent);
    }
    eventually("the engine is asked", || engine.calls().len() == 3);
    eventually("the stream has begun", || total(&gate, |s| s.keepalives) > 0);
    let begun = Instant::now();
    let closed = block_on(gate.close(&made.session_id)).unwrap();
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    assert_eq!(closed.state, "closed");
    let journal = records(&gate.journal_path(&made.session_id));
    check(&gate, &engine, &mut agents, closed, journal);
    eventually("nothing is in flight", || total(&gate, |s| s.in_flight) == 0);
    assert_eq!(total(&gate, |s| s.cancelled), 3);
    assert_eq!(engine.calls().len(), 3, "nothing is asked again");
}

/// What the agents of [`close_over`] are told.
fn all_refused(agents: &mut [Agent]) {
    for (agent, stream) in agents.iter_mut().zip([false, false, true]) {
        let reply = agent.reply();
        let status = if stream { 200 } else { 403 };
        assert_eq!(reply.status, status, "{reply:?}");
        let told = reply.body.contains("\"code\":\"session_closed\"");
        assert!(told && reply.body.contains("being closed"), "{}", reply.body);
        assert!(!reply.body.contains("choices"), "nothing of an answer: {}", reply.body);
    }
}

#[test]
fn k05_closing_a_session_cancels_its_calls_within_a_second() {
    on_both(|driver| {
        close_over(driver, Act::Hold("hello<|im_end|>"), |_, engine, agents, closed, journal| {
            assert_eq!(engine.aborted(), 3, "the engine was told, call by call");
            all_refused(agents);
            assert_eq!(closed.turns, 3, "what was sampled is recorded");
            let aborted = journal.iter().filter(|record| match record {
                Record::Turn(turn) => turn.finish == Finish::Abort,
                _ => false,
            });
            assert_eq!(aborted.count(), 3, "and untrained");
            assert!(matches!(journal.last(), Some(Record::Sealed(_))));
        });
    });
}

#[test]
fn k05_an_engine_that_does_not_give_up_is_hung_up_on() {
    on_both(|driver| {
        close_over(driver, Act::Stuck, |_, engine, agents, closed, journal| {
            eventually("the engine is hung up on", || engine.hang_ups() == 3);
            all_refused(agents);
            assert_eq!((closed.turns, journal.len()), (0, 2), "opened and sealed, no more");
        });
    });
}

#[test]
fn k05_a_call_that_waits_for_a_paused_engine_is_cancelled_too() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Paused);
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(&chat(&made.key, &user("q"), false));
        eventually("it is parked", || !engine.calls().is_empty());
        let begun = Instant::now();
        let closed = block_on(gate.close(&made.session_id)).unwrap();
        assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
        assert_eq!((closed.state, closed.turns), ("closed", 0));
        assert_eq!(agent.reply().status, 403);
    });
}
