//! Agents that leave before they have their answer, and those that come back for it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rollgate_pipeline::record::Record;
use rollgate_pipeline::turn::Finish;
use rollgate_shards::{Created, DriverChoice, Gate};
use tempfile::TempDir;

use crate::agent::{Agent, Leave, chat, user};
use crate::engine::{Act, Engine, wait};
use crate::node::{
    Setting, block_on, create, eventually, model, on_both, records, state_dir, total,
};

/// A data plane with one session, and an engine that holds its calls.
struct Scene {
    gate: Gate,
    engine: Engine,
    made: Created,
    _state: TempDir,
}

impl Scene {
    fn new(setting: &Setting, act: Act) -> Scene {
        let engine = Engine::start(model(), move |_| act.clone());
        let state = state_dir();
        let gate = setting.with(state.path(), &engine);
        let made = create(&gate);
        Scene { gate, engine, made, _state: state }
    }

    /// An agent that has asked, its call being the one with this number.
    fn asking(&self, stream: bool, calls: usize) -> Agent {
        let agent = self.ask(stream);
        eventually("the engine is asked", || self.engine.calls().len() == calls);
        agent
    }

    fn ask(&self, stream: bool) -> Agent {
        let mut agent = Agent::connect(self.gate.agents_addr());
        agent.send(&chat(&self.made.key, &user("q"), stream));
        agent
    }

    fn turns(&self) -> u32 {
        block_on(self.gate.describe(&self.made.session_id)).unwrap().turns
    }

    fn records(&self) -> Vec<Record> {
        records(&self.gate.journal_path(&self.made.session_id))
    }

    fn orphans(&self) -> u64 {
        total(&self.gate, |s| s.orphans)
    }
}

/// What the journal says after the opening record.
fn said(records: &[Record]) -> Vec<String> {
    let word = |record: &Record| match record {
        Record::Opened(_) => "opened".to_owned(),
        Record::Turn(turn) if turn.finish == Finish::Abort => "aborted turn".to_owned(),
        Record::Turn(_) => "turn".to_owned(),
        Record::Delivery(delivery) if delivery.whole => "delivered".to_owned(),
        Record::Delivery(_) => "missed".to_owned(),
        Record::Reward(_) => "reward".to_owned(),
        Record::Sealed(_) => "sealed".to_owned(),
    };
    records[1..].iter().map(word).collect()
}

fn each(test: impl Fn(DriverChoice, Leave, bool)) {
    on_both(|driver| {
        for leave in [Leave::Fin, Leave::Reset] {
            for stream in [false, true] {
                test(driver, leave, stream);
            }
        }
    });
}

#[test]
fn m35_equal_requests_on_two_open_connections_are_two_turns() {
    on_both(|driver| {
        let scene = Scene::new(&Setting::new(driver), Act::Hold("hello<|im_end|>"));
        let mut agents = [scene.asking(false, 1), scene.asking(false, 2)];
        scene.engine.release();
        for agent in &mut agents {
            assert_eq!(agent.reply().text(), "hello");
        }
        assert_eq!(said(&scene.records()), ["turn", "turn"]);
        assert_eq!(scene.orphans(), 0);
    });
}

#[test]
fn m36_two_identical_subagents_and_then_the_main_line() {
    on_both(|driver| {
        let scene = Scene::new(&Setting::new(driver), Act::Hold("hello<|im_end|>"));
        let mut agents = [scene.asking(true, 1), scene.asking(true, 2)];
        scene.engine.release();
        for agent in &mut agents {
            assert_eq!(agent.reply().text(), "hello");
        }
        let main = agents[0].ask(&scene.made.key, &user("both are done"));
        assert_eq!(main.text(), "hello");
        assert_eq!((scene.turns(), scene.engine.calls().len()), (3, 3));
    });
}

#[test]
fn m34_a_request_that_was_cut_and_is_sent_again_is_one_call_and_one_turn() {
    let quickest = Cell::new(Duration::MAX);
    each(|driver, leave, stream| {
        let scene = Scene::new(&Setting::new(driver), Act::Hold("hello<|im_end|>"));
        scene.asking(stream, 1).leave(leave);
        eventually("it is seen to leave", || scene.orphans() == 1);
        let mut again = scene.ask(stream);
        wait(Duration::from_millis(100));
        assert_eq!(scene.engine.calls().len(), 1, "{leave:?}: the retry waits for the first");
        let released = Instant::now();
        scene.engine.release();
        let reply = again.reply();
        quickest.set(quickest.get().min(released.elapsed()));
        assert_eq!((reply.status, reply.text().as_str()), (200, "hello"));
        assert_eq!(scene.engine.calls().len(), 1);
        assert_eq!(scene.turns(), 1);
        eventually("nothing is in flight", || total(&scene.gate, |s| s.in_flight) == 0);
        assert_eq!(total(&scene.gate, |s| s.orphans_given_up), 0);
    });
    assert!(quickest.get() < Duration::from_millis(500), "woken when the first one is over");
}

#[test]
fn m34_a_waiting_retry_is_shown_signs_of_life() {
    on_both(|driver| {
        let setting = Setting { keepalive_first_ms: 100, ..Setting::new(driver) };
        let scene = Scene::new(&setting, Act::Hold("hello<|im_end|>"));
        scene.asking(true, 1).leave(Leave::Fin);
        eventually("it is seen to leave", || scene.orphans() == 1);
        let mut again = scene.ask(true);
        wait(Duration::from_millis(1_000));
        scene.engine.release();
        let reply = again.reply();
        assert_eq!(reply.text(), "hello");
        assert!(reply.body.matches(": keepalive").count() >= 2, "{}", reply.body);
    });
}

#[test]
fn an_orphan_that_was_asked_for_again_outlives_its_grace_period() {
    on_both(|driver| {
        let setting = Setting { orphan_grace_ms: 400, ..Setting::new(driver) };
        let scene = Scene::new(&setting, Act::Hold("hello<|im_end|>"));
        scene.asking(false, 1).leave(Leave::Fin);
        eventually("it is seen to leave", || scene.orphans() == 1);
        // The second one leaves as well; the third stays.
        let second = scene.ask(false);
        wait(Duration::from_millis(100));
        second.leave(Leave::Reset);
        eventually("it is seen to leave", || scene.orphans() == 2);
        let mut third = scene.ask(false);
        wait(Duration::from_millis(1_200));
        assert_eq!(total(&scene.gate, |s| s.orphans_given_up), 0);
        scene.engine.release();
        assert_eq!(third.reply().text(), "hello");
        assert_eq!((scene.engine.calls().len(), scene.engine.aborted(), scene.turns()), (1, 0, 1));
        eventually("all are counted", || total(&scene.gate, |s| s.retries_adopted) == 2);
    });
}

#[test]
fn j12_an_answer_that_nobody_waited_for_is_given_to_the_retry_and_to_no_other() {
    each(|driver, leave, stream| {
        let scene = Scene::new(&Setting::new(driver), Act::Hold("hello<|im_end|>"));
        scene.asking(stream, 1).leave(leave);
        eventually("it is seen to leave", || scene.orphans() == 1);
        scene.engine.release();
        eventually("nothing is in flight", || total(&scene.gate, |s| s.in_flight) == 0);
        assert_eq!(said(&scene.records()), ["turn", "missed"]);
        let reply = scene.ask(stream).reply();
        assert_eq!((reply.status, reply.text().as_str()), (200, "hello"));
        assert_eq!((scene.engine.calls().len(), scene.turns()), (1, 1));
        eventually("the journal knows", || {
            said(&scene.records()) == ["turn", "missed", "delivered"]
        });
        let counted = || total(&scene.gate, |s| s.answers_replayed);
        eventually("it is counted", || counted() == 1);
        assert_eq!(scene.ask(stream).reply().text(), "hello");
        assert_eq!(scene.engine.calls().len(), 2, "that one is a sibling");
    });
}

#[test]
fn j12_an_answer_cut_in_its_middle_is_given_to_the_retry() {
    on_both(|driver| {
        let long: &'static str = "some words ".repeat(2_500).leak();
        let text: &'static str = format!("{long}<|im_end|>").leak();
        let scene = Scene::new(&Setting::new(driver), Act::Say(text));
        let mut first = scene.ask(true);
        let mut some = [0; 300];
        std::io::Read::read_exact(&mut first.stream, &mut some).unwrap();
        // What was not read makes the kernel reset the connection.
        drop(first);
        eventually("it is seen to leave", || scene.orphans() == 1);
        let reply = scene.ask(true).reply();
        assert_eq!(reply.text(), long);
        assert_eq!((scene.engine.calls().len(), scene.turns()), (1, 1));
        eventually("the journal knows", || {
            said(&scene.records()) == ["turn", "missed", "delivered"]
        });
    });
}

#[test]
fn an_agent_that_closes_after_its_answer_was_read_has_it() {
    on_both(|driver| {
        let scene = Scene::new(&Setting::new(driver), Act::Say("hello<|im_end|>"));
        for stream in [false, true] {
            let mut agent = scene.ask(stream);
            assert_eq!(agent.reply().text(), "hello");
            agent.leave(Leave::Fin);
        }
        eventually("they are gone", || total(&scene.gate, |s| s.connections) == 0);
        assert_eq!(scene.orphans(), 0);
        assert_eq!(said(&scene.records()), ["turn", "turn"]);
    });
}

#[test]
fn when_nobody_comes_back_the_engine_is_told_and_what_there_is_is_recorded() {
    each(|driver, leave, stream| {
        let setting = Setting { orphan_grace_ms: 300, ..Setting::new(driver) };
        let scene = Scene::new(&setting, Act::Hold("hello there<|im_end|>"));
        let agent = scene.asking(stream, 1);
        let begun = Instant::now();
        agent.leave(leave);
        eventually("the engine is told", || scene.engine.aborted() == 1);
        assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
        eventually("nothing is in flight", || total(&scene.gate, |s| s.in_flight) == 0);
        let written = scene.records();
        assert_eq!(said(&written)[0], "aborted turn");
        let Record::Turn(turn) = &written[1] else { panic!("{written:?}") };
        assert!(!turn.ids.is_empty(), "the engine had sampled something");
        assert_eq!((scene.orphans(), total(&scene.gate, |s| s.orphans_given_up)), (1, 1));
        let state = block_on(scene.gate.describe(&scene.made.session_id)).unwrap();
        assert_eq!(state.last_fault, None, "nobody is to be judged by it");
        scene.engine.release();
        assert_eq!(scene.ask(stream).reply().text(), "hello there");
        assert_eq!(scene.engine.calls().len(), 2, "a torso is given to nobody");
    });
}

#[test]
fn an_engine_that_takes_no_abort_is_hung_up_on() {
    on_both(|driver| {
        let setting = Setting { orphan_grace_ms: 300, ..Setting::new(driver) };
        let scene = Scene::new(&setting, Act::Stuck);
        scene.asking(false, 1).leave(Leave::Fin);
        let begun = Instant::now();
        eventually("it is hung up on", || scene.engine.hang_ups() == 1);
        assert!(begun.elapsed() < Duration::from_secs(4), "a refusal is not waited out");
        eventually("nothing is in flight", || total(&scene.gate, |s| s.in_flight) == 0);
        assert_eq!(scene.turns(), 0);
        let state = block_on(scene.gate.describe(&scene.made.session_id)).unwrap();
        assert_eq!(state.last_fault, None);
    });
}

#[test]
fn a_session_that_is_closed_waits_for_no_retry() {
    on_both(|driver| {
        let scene = Scene::new(&Setting::new(driver), Act::Hold("hello there<|im_end|>"));
        scene.asking(false, 1).leave(Leave::Fin);
        eventually("it is seen to leave", || scene.orphans() == 1);
        let begun = Instant::now();
        let closed = block_on(scene.gate.close(&scene.made.session_id)).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        assert_eq!((closed.state, closed.turns, scene.engine.aborted()), ("closed", 1, 1));
    });
}

#[test]
fn an_agent_that_closes_its_own_direction_still_gets_its_answer() {
    on_both(|driver| {
        for stream in [false, true] {
            let scene = Scene::new(&Setting::new(driver), Act::Hold("hello<|im_end|>"));
            let mut agent = scene.asking(stream, 1);
            agent.half_close();
            eventually("it counts as gone", || scene.orphans() == 1);
            scene.engine.release();
            assert_eq!(agent.reply().text(), "hello");
            assert!(agent.at_end());
        }
    });
}

#[test]
fn what_is_sent_while_an_exchange_waits_is_served_after_it() {
    on_both(|driver| {
        // More than is read ahead, and less.
        for size in [10, 30_000] {
            let scene = Scene::new(&Setting::new(driver), Act::Hold("hello<|im_end|>"));
            let long = "0123456789".repeat(size / 10);
            let mut agent = scene.asking(false, 1);
            let texts = [format!("one{long}"), format!("two{long}"), format!("three{long}")];
            let all: Vec<u8> =
                texts.iter().flat_map(|t| chat(&scene.made.key, &user(t), false)).collect();
            let sending = agent.stream.try_clone().unwrap();
            let sender = std::thread::spawn(move || {
                for piece in all.chunks(997) {
                    std::io::Write::write_all(&mut &sending, piece).unwrap();
                }
            });
            wait(Duration::from_millis(150));
            scene.engine.release();
            for _ in 0..4 {
                assert_eq!(agent.reply().text(), "hello");
            }
            sender.join().unwrap();
            let calls = scene.engine.calls();
            assert_eq!(calls.len(), 4);
            for (call, text) in calls[1..].iter().zip(&texts) {
                let prompt: Vec<u8> =
                    call.prompt.iter().filter_map(|id| u8::try_from(*id).ok()).collect();
                let digits =
                    |bytes: &[u8]| bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
                assert_eq!(digits(&prompt), digits(text.as_bytes()), "{size}");
            }
            assert_eq!(scene.orphans(), 0);
        }
    });
}

#[test]
fn what_was_read_ahead_moves_along_to_another_shard() {
    on_both(|driver| {
        let engine =
            Engine::start(model(), |_| Act::Late(Duration::from_millis(60), "hello<|im_end|>"));
        let state = state_dir();
        let gate = Setting { shards: 2, ..Setting::new(driver) }.with(state.path(), &engine);
        let made: Vec<Created> = (0..8).map(|_| create(&gate)).collect();
        for (first, second) in made.iter().zip(&made[1..]) {
            let before = engine.calls().len();
            let mut agent = Agent::connect(gate.agents_addr());
            agent.send(&chat(&first.key, &user("q"), false));
            eventually("the engine is asked", || engine.calls().len() == before + 1);
            agent.send(&chat(&second.key, &user("r"), false));
            for _ in 0..2 {
                assert_eq!(agent.reply().text(), "hello");
            }
        }
        assert!(total(&gate, |s| s.handovers_out) > 0, "some pair lies on two shards");
        assert_eq!(engine.calls().len(), 14);
    });
}

#[test]
fn a_turn_that_its_engine_gave_up_on_is_parked_and_gone_on_with() {
    on_both(|driver| {
        let engine = Engine::start(model(), |call| match call {
            0 => Act::GiveUp("hel"),
            1 => Act::Paused,
            _ => Act::Say("lo<|im_end|>"),
        });
        let state = state_dir();
        let setting = Setting { keepalive_first_ms: 100, ..Setting::new(driver) };
        let gate = setting.with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(&chat(&made.key, &user("q"), true));
        let reply = agent.reply();
        assert_eq!(reply.text(), "hello");
        assert!(reply.body.contains(": keepalive"), "{}", reply.body);
        let calls = engine.calls();
        let longer = calls[1].prompt.strip_prefix(&calls[0].prompt[..]);
        assert_eq!(longer.map(|ids| ids.is_empty()), Some(false), "what was sampled goes along");
        assert_eq!(calls[2].prompt, calls[1].prompt);
        eventually("it is counted", || {
            (total(&gate, |s| s.turns_parked), total(&gate, |s| s.turns_resumed)) == (2, 2)
        });
    });
}

#[test]
fn an_orphan_that_is_parked_is_given_up_too() {
    on_both(|driver| {
        let setting = Setting { orphan_grace_ms: 300, ..Setting::new(driver) };
        let scene = Scene::new(&setting, Act::Paused);
        scene.asking(false, 1).leave(Leave::Fin);
        eventually("it is given up", || total(&scene.gate, |s| s.orphans_given_up) == 1);
        eventually("nothing is in flight", || total(&scene.gate, |s| s.in_flight) == 0);
        assert_eq!(said(&scene.records()), [""; 0]);
    });
}
