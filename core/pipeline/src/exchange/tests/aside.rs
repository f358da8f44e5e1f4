//! Prompts that are encoded beside the shard: the same as others, whatever happens meanwhile.

use super::*;
use crate::limits::ENCODE_INLINE_BYTES;
use crate::record::Sealed;
use crate::render::ModelFiles;
use crate::render::sample_model::test_files;

static LONG: LazyLock<Arc<Model>> = LazyLock::new(|| {
    let files = ModelFiles { max_context: Some(1 << 22), ..test_files() };
    Arc::new(Model::load(files).unwrap())
});

fn play(options: SessionOptions) -> Play {
    let mut gatehouse = Play::gatehouse();
    gatehouse.model = LONG.clone();
    gatehouse.limits.body_bytes = 1 << 22;
    Play::at(gatehouse, options)
}

fn long() -> String {
    "the <|im_end|> of it é ".repeat(ENCODE_INLINE_BYTES / 20)
}

fn asked(text: &str) -> Value {
    chat(json!([{"role": "user", "content": text}]))
}

impl Play {
    /// A request whose prompt is encoded beside the shard, and the job.
    fn halted(&mut self, request: &Value) -> (Exchange, EncodeJob) {
        let (exchange, want) = self.begin(&request.to_string());
        let Want::Encode(job) = want else { panic!("{want:?}") };
        assert!(job.bytes() > ENCODE_INLINE_BYTES);
        assert_eq!(exchange.passage().encodes_aside, 1);
        (exchange, job)
    }
}

#[test]
fn a_long_prompt_is_encoded_aside_and_is_the_same() {
    let mut play = play(SessionOptions::default());
    let (mut exchange, job) = play.halted(&asked(&long()));
    let want = play.step(|cx| exchange.encoded(cx, job.run()));
    let message = crate::turn::Message::text(crate::turn::Role::User, long());
    let whole = LONG.first(&[message], &[], &Default::default()).unwrap();
    assert_eq!(call(&want).0, whole);
    let reply = play.engine_reply("a<|im_end|>");
    let want = play.reply(&mut exchange, &reply);
    let (answer, _) = play.drive(&mut exchange, want);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The next turn adds little, and goes on from it.
    let next = play.ask(
        &chat(json!([
            {"role": "user", "content": long()},
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": "b"},
        ])),
        "c<|im_end|>",
    );
    assert!(next.prompt.starts_with(&whole) && next.prompt.len() > whole.len());
}

#[test]
fn assistant_texts_that_were_not_sampled_are_counted_with_it() {
    let history = |text: &str| {
        chat(json!([
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": text},
            {"role": "user", "content": "r"},
        ]))
    };
    let mut play = play(SessionOptions::default());
    let (mut exchange, job) = play.halted(&history(&long()));
    let want = play.step(|cx| exchange.encoded(cx, job.run()));
    assert!(matches!(want, Want::Engine(_)), "{want:?}");
    let reply = play.engine_reply("a<|im_end|>");
    let want = play.reply(&mut exchange, &reply);
    play.drive(&mut exchange, want);
    let mut ids = Vec::new();
    LONG.tokenizer.encode(&long(), ControlText::Plain, &mut ids).unwrap();
    assert_eq!(play.turns()[0].foreign_tokens as usize, ids.len());
}

#[test]
fn other_turns_may_come_meanwhile() {
    let mut play = play(SessionOptions::default());
    play.ask(&asked("q"), "a<|im_end|>");
    let go_on = |text: &str| {
        chat(json!([
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": text},
        ]))
    };
    let (mut exchange, job) = play.halted(&go_on(&long()));
    let other = play.ask(&go_on("short"), "b<|im_end|>");
    assert_eq!(other.status, 200);
    let want = play.step(|cx| exchange.encoded(cx, job.run()));
    let (prompt, _) = call(&want);
    let reply = play.engine_reply("c<|im_end|>");
    let want = play.reply(&mut exchange, &reply);
    play.drive(&mut exchange, want);
    let turns = play.turns();
    let first = crate::id::TurnIndex(0);
    assert_eq!([turns[1].parent, turns[2].parent], [Some(first); 2]);
    let before = turns[0].stretch.len() + turns[0].ids.len();
    assert_eq!(prompt[before..], turns[2].stretch);
}

#[test]
fn who_leaves_meanwhile_is_answered_by_nothing() {
    let mut play = play(SessionOptions::default());
    let (mut exchange, job) = play.halted(&asked(&long()));
    play.gone(&mut exchange);
    assert!(play.step(|cx| exchange.give_up(cx)).is_none());
    let want = play.step(|cx| exchange.encoded(cx, job.run()));
    let (_, want) = play.drive(&mut exchange, want);
    assert!(matches!(want, Want::Done { keep_alive: false }), "{want:?}");
    assert_eq!(play.turns().len(), 0);
}

#[test]
fn a_session_that_is_closed_meanwhile_takes_no_turn() {
    let mut play = play(SessionOptions::default());
    let (mut exchange, job) = play.halted(&asked(&long()));
    play.session.apply(&Record::Sealed(Sealed { at_ms: 1 })).unwrap();
    let want = play.step(|cx| exchange.encoded(cx, job.run()));
    let (answer, _) = play.drive(&mut exchange, want);
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[test]
fn a_job_that_fails_is_a_fault() {
    let mut play = play(SessionOptions::default());
    let (mut exchange, _) = play.halted(&asked(&long()));
    let fault = Fault::new(FaultKind::Internal, "it broke");
    let want = play.step(|cx| exchange.encoded(cx, Err(fault)));
    let (answer, _) = play.drive(&mut exchange, want);
    assert!(answer.starts_with("HTTP/1.1 500") && answer.contains("it broke"), "{answer}");
}

#[test]
fn a_budget_that_others_took_meanwhile_is_waited_for() {
    let options = SessionOptions {
        limits: Budget { turns: Some(2), tokens: None },
        ..SessionOptions::default()
    };
    let mut play = play(options);
    let (mut exchange, job) = play.halted(&asked(&long()));
    let others = ["q", "r"].map(|text| play.begin(&asked(text).to_string()));
    assert!(others.iter().all(|(_, want)| matches!(want, Want::Engine(_))));
    let want = play.step(|cx| exchange.encoded(cx, job.run()));
    assert!(matches!(want, Want::Wait { .. }), "{want:?}");
    drop(others);
    // What was encoded is not encoded again.
    let want = play.woken(&mut exchange);
    assert!(matches!(want, Want::Engine(_)), "{want:?}");
}

#[test]
fn long_prompts_are_counted_aside_too() {
    let mut play = play(SessionOptions::default());
    play.path = "/v1/messages/count_tokens".into();
    let (mut exchange, job) = play.halted(&json!({"model": "m", "messages": [
        {"role": "user", "content": long()},
    ]}));
    let want = play.step(|cx| exchange.encoded(cx, job.run()));
    let (answer, _) = play.drive(&mut exchange, want);
    let message = crate::turn::Message::text(crate::turn::Role::User, long());
    let whole = LONG.first(&[message], &[], &Default::default()).unwrap();
    assert!(answer.contains(&format!("\"input_tokens\":{}", whole.len())), "{answer}");
}
