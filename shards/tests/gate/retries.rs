//! Calls that are made again, at another engine or the same.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use rollgate_pipeline::limits::Limits;
use rollgate_shards::{EngineFailure, Gate};

use crate::agent::{Agent, Leave, chat, user};
use crate::engine::{Act, Engine, wait};
use crate::node::{Setting, create, eventually, model, on_both, state_dir, total};

/// Failures of this kind, of all engines.
fn failures(gate: &Gate, failure: EngineFailure) -> u64 {
    let engines = gate.engines();
    let shards = engines.iter().flat_map(|engine| &engine.shards);
    shards.map(|shard| shard.failures[failure as usize]).sum()
}

fn busy() -> Act {
    Act::status("503 Busy", "retry-after: 1\r\n", "x")
}

/// A reply whose head has this many fields.
fn many_fields(count: usize) -> Act {
    let fields: String = (0..count).map(|n| format!("x-field-{n}: v\r\n")).collect();
    Act::status("200 OK", &fields, "{}")
}

/// A setting without looks at health routes: what calls tell is all there is.
fn quiet(driver: rollgate_shards::DriverChoice) -> Setting {
    let limits = Limits { engine_health_ms: 0, engine_stall_ms: 150, ..Limits::default() };
    Setting { limits, ..Setting::new(driver) }
}

#[test]
fn l01_k06_whatever_an_engine_breaks_over_another_one_answers() {
    let whole = || "whole<|im_end|>";
    let kinds = [
        (Act::Hang, EngineFailure::Broken),
        (Act::Half, EngineFailure::Cut),
        (Act::Stall, EngineFailure::Stalled),
        (busy(), EngineFailure::Busy),
        (Act::status("429 Slow", "", "x"), EngineFailure::Busy),
        (Act::status("500 Error", "", "x"), EngineFailure::BadReply),
        (Act::status("200 OK", "", "<html>"), EngineFailure::BadReply),
    ];
    on_both(|driver| {
        for (act, failure) in &kinds {
            let bad = act.clone();
            let ill = Engine::start(model(), move |_| bad.clone());
            let well = Engine::start(model(), move |_| Act::Say(whole()));
            let state = state_dir();
            let gate = quiet(driver).start(state.path(), &[ill.addr, well.addr]);
            // Sessions of both engines: each is answered.
            for _ in 0..8 {
                let made = create(&gate);
                let reply = Agent::connect(gate.agents_addr()).ask(&made.key, &user("q"));
                assert_eq!((reply.status, reply.content().as_str()), (200, "whole"), "{failure:?}");
            }
            let failed = failures(&gate, *failure);
            assert_eq!(failed, ill.calls().len() as u64, "{failure:?}");
            assert_eq!(total(&gate, |s| s.engine_retries), failed, "{failure:?}");
            let resent = if matches!(failure, EngineFailure::Busy) { 0 } else { failed };
            assert_eq!(total(&gate, |s| s.engine_resends), resent, "{failure:?}");
            assert_eq!(total(&gate, |s| s.faults), 0, "no agent saw any of it");
        }
    });
}

#[test]
fn what_an_engine_refuses_no_other_is_asked() {
    on_both(|driver| {
        let refuse = |_| Act::status("400 Bad", "", "no");
        let engines = [Engine::start(model(), refuse), Engine::start(model(), refuse)];
        let state = state_dir();
        let gate = quiet(driver).start(state.path(), &engines.each_ref().map(|e| e.addr));
        let made = create(&gate);
        let reply = Agent::connect(gate.agents_addr()).ask(&made.key, &user("q"));
        assert_eq!(reply.status, 400, "{reply:?}");
        assert_eq!(engines.iter().map(|engine| engine.calls().len()).sum::<usize>(), 1);
        assert_eq!(failures(&gate, EngineFailure::Refused), 1);
        assert!(gate.engines().iter().all(|engine| engine.state == "healthy"), "it lives");
    });
}

#[test]
fn a_busy_engine_that_wants_long_peace_is_left_to_the_agent() {
    on_both(|driver| {
        let later = |_| Act::status("429 Slow", "retry-after: 30\r\n", "x");
        let engine = Engine::start(model(), later);
        let state = state_dir();
        let gate = quiet(driver).with(state.path(), &engine);
        let made = create(&gate);
        let reply = Agent::connect(gate.agents_addr()).ask(&made.key, &user("q"));
        assert_eq!((reply.status, engine.calls().len()), (429, 1));
        assert!(reply.head.contains("retry-after: 30"), "{}", reply.head);
    });
}

/// The engine's 503 comes slowly, its agent leaves meanwhile, and another engine is there.
#[test]
fn l15_no_second_engine_is_asked_for_an_agent_that_left() {
    on_both(|driver| {
        let slow = |_| {
            let head = "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nb";
            let pause = Duration::from_millis(400);
            Act::Slowly(head.as_bytes().to_vec(), pause, b"usy".to_vec())
        };
        let engines = [Engine::start(model(), slow), Engine::start(model(), slow)];
        let state = state_dir();
        let limits = Limits { engine_health_ms: 0, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }
            .start(state.path(), &engines.each_ref().map(|e| e.addr));
        let asked = || engines.iter().map(|engine| engine.calls().len()).sum::<usize>();
        for (n, leave) in [Leave::Fin, Leave::Reset].into_iter().enumerate() {
            let made = create(&gate);
            let mut agent = Agent::connect(gate.agents_addr());
            agent.send(&chat(&made.key, &user("q"), false));
            eventually("an engine is asked", || asked() == n + 1);
            agent.leave(leave);
            eventually("its exchange is over", || total(&gate, |s| s.in_flight) == 0);
            assert_eq!(asked(), n + 1, "{leave:?}: another engine was asked");
        }
        assert_eq!(total(&gate, |s| s.engine_retries), 0);
    });
}

/// The engine closes what is idle for 300 ms (5 s, to scale); calls come as often.
#[test]
fn l01_a_connection_is_closed_before_the_engine_does_it() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let limits = Limits { engine_idle_ms: 240, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        engine.keep_alive(Duration::from_millis(300));
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        for _ in 0..6 {
            assert_eq!(agent.ask(&made.key, &user("q")).status, 200);
            wait(Duration::from_millis(300));
        }
        assert_eq!(agent.ask(&made.key, &user("q")).status, 200);
        assert_eq!(agent.ask(&made.key, &user("r")).status, 200);
        let calls = engine.calls();
        assert_eq!(calls.len(), 8, "no call came twice");
        assert_eq!(calls[6].connection, calls[7].connection, "what is young is used again");
        assert_eq!(total(&gate, |s| s.engine_resends) + total(&gate, |s| s.engine_retries), 0);
    });
}

#[test]
fn l22_an_engines_head_beyond_the_limits_is_a_clear_502() {
    on_both(|driver| {
        let script = |call| match call {
            0 => {
                Act::Bytes(format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(600 << 10)).into_bytes())
            }
            1 => many_fields(150),
            _ => many_fields(100),
        };
        let engine = Engine::start(model(), script);
        let state = state_dir();
        let limits = Limits { engine_retries: 0, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        for part in ["larger than 65536 bytes", "more than 128 fields", "no `choices`"] {
            let reply = agent.ask(&made.key, &user("q"));
            assert_eq!(reply.status, 502, "{reply:?}");
            assert!(reply.body.contains(part), "{part:?} lacks: {}", reply.body);
        }
    });
}

#[test]
fn l12_nothing_of_an_agents_head_reaches_an_engine() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let text = String::from_utf8(chat(&made.key, &user("q"), false)).unwrap();
        let more = "cookie: a=b\r\nx-goog-api-key: k\r\nx-secret: 1\r\n\
                    connection: keep-alive, x-secret\r\nproxy-authorization: Basic Zm9v\r\n\
                    user-agent: agent/1\r\ntraceparent: t\r\n";
        let text = text.replacen(
            "content-length",
            &format!("x-api-key: {}\r\n{more}content-length", made.key.expose()),
            1,
        );
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(text.as_bytes());
        assert_eq!(agent.reply().status, 200);
        let head = engine.calls().remove(0).head;
        let names = head.lines().skip(1).filter_map(|line| Some(line.split_once(':')?.0));
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        let all = [
            "accept",
            "accept-encoding",
            "content-length",
            "content-type",
            "host",
            "x-smg-routing-key",
        ];
        assert_eq!(names, all, "{head}");
        let key = made.key.expose().to_lowercase();
        for secret in [key.as_str(), "a=b", "zm9v", "agent/1"] {
            assert!(!head.contains(secret), "{secret}: {head}");
        }
        let journal = std::fs::read(gate.journal_path(&made.session_id)).unwrap();
        let journal = String::from_utf8_lossy(&journal).to_lowercase();
        for secret in [key.as_str(), "a=b", "zm9v"] {
            assert!(!journal.contains(secret), "{secret} is in the journal");
        }
    });
}

#[test]
fn l23_a_base_url_may_end_in_v1_and_in_a_slash() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        for (path, wanted) in [
            ("", "/inference/v1/generate"),
            ("/", "/inference/v1/generate"),
            ("/v1", "/inference/v1/generate"),
            ("/v1/", "/inference/v1/generate"),
            ("/router/v1/", "/router/inference/v1/generate"),
        ] {
            let state = state_dir();
            let url = format!("http://{}{path}", engine.addr);
            let gate = Setting::new(driver).at(state.path(), &[(url, 64)]);
            let made = create(&gate);
            let reply = Agent::connect(gate.agents_addr()).ask(&made.key, &user("q"));
            assert_eq!(reply.status, 200, "{path:?}: {reply:?}");
            assert_eq!(engine.calls().last().unwrap().path, wanted, "{path:?}");
        }
    });
}

/// A call that is gone on with after a pause goes to another engine when its own has gone.
#[test]
fn what_one_engine_began_another_one_ends() {
    on_both(|driver| {
        let sockets = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let addrs: Vec<SocketAddr> = sockets.iter().map(|s| s.local_addr().unwrap()).collect();
        // Whoever is asked first gives up and then hangs up; the other one samples the rest.
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let engines = sockets.map(|socket| {
            let count = count.clone();
            let mine = std::sync::atomic::AtomicBool::new(false);
            Engine::on(socket, model(), move |_| {
                use std::sync::atomic::Ordering::SeqCst;
                if count.fetch_add(1, SeqCst) == 0 {
                    mine.store(true, SeqCst);
                    return Act::GiveUp("one ");
                }
                if mine.load(SeqCst) { Act::Hang } else { Act::Say("two<|im_end|>") }
            })
        });
        let state = state_dir();
        let gate = quiet(driver).start(state.path(), &addrs);
        let made = create(&gate);
        let reply = Agent::connect(gate.agents_addr()).ask(&made.key, &user("q"));
        assert_eq!(reply.content(), "one two", "{reply:?}");
        assert!(engines.iter().all(|engine| !engine.calls().is_empty()), "both had a part");
    });
}
