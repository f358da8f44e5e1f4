//! The quick readers against the one that knows all of JSON: on replies as engines send them, in any
//! order and with anything besides, and on the same replies cut and damaged.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Sglang, VOCAB, Vllm, VllmCompletions};
use crate::engine::check::{self, Told};
use crate::engine::{EngineKind, sglang, vllm};
use crate::fault::Fault;
use crate::turn::Generated;

/// What each reader says: the quick one, if it understands, and the other.
type Both = (Option<Result<Generated, Fault>>, Result<Generated, Fault>);

fn both(kind: EngineKind, reply: &[u8]) -> Both {
    let (quick, slow) = match kind {
        Vllm => vllm::both_generate(reply),
        VllmCompletions => vllm::both_complete(reply),
        Sglang => sglang::both(reply),
    };
    let checked = |told: Result<Told, Fault>| check::generated(kind, told?, VOCAB);
    (quick.map(checked), checked(slow))
}

/// What one reply says.
#[derive(Clone, Debug)]
struct Said {
    ids: Vec<u32>,
    logprobs: Vec<f32>,
    finish: &'static str,
    stop: Value,
    text: String,
    cached: Option<u32>,
    tops: bool,
}

fn said() -> impl Strategy<Value = Said> {
    let ids = prop::collection::vec((0..VOCAB, -30.0..0.0_f32), 0..12);
    let finish = prop::sample::select(vec!["stop", "length", "abort", "repetition", "odd"]);
    let stop = prop::sample::select(vec![
        Value::Null,
        json!(7),
        json!("END"),
        json!("a\n\"b\" \u{e9}\u{1f600}"),
        json!([1, 2]),
    ]);
    (ids, finish, stop, ".{0,20}", any::<Option<u32>>(), any::<bool>()).prop_map(
        |(column, finish, stop, text, cached, tops)| {
            let (ids, logprobs) = column.into_iter().unzip();
            Said { ids, logprobs, finish, stop, text, cached, tops }
        },
    )
}

impl Said {
    fn logprobs(&self) -> Vec<f64> {
        self.logprobs.iter().map(|logprob| f64::from(*logprob)).collect()
    }

    fn usage(&self) -> Value {
        let details = self.cached.map(|cached| json!({"cached_tokens": cached, "more": [1.5e3]}));
        json!({"prompt_tokens": 3, "completion_tokens": self.ids.len(), "total_tokens": 9,
            "prompt_tokens_details": details})
    }

    fn spans(&self) -> Value {
        json!([{"version": self.text, "start": 0, "end": self.ids.len(), "at": null}])
    }

    fn reply(&self, kind: EngineKind) -> Value {
        let pairs = self.ids.iter().zip(self.logprobs());
        match kind {
            Vllm => {
                let entries = pairs.map(|(id, logprob)| {
                    let top = json!({"token_id": id, "logprob": logprob, "rank": 1});
                    let other = json!({"token_id": 5, "logprob": -9.25, "rank": 2});
                    let tops = if self.tops { json!([top, other]) } else { json!([top]) };
                    json!({"token_id": id, "logprob": logprob, "rank": 1, "top_logprobs": tops})
                });
                let content: Vec<Value> = entries.collect();
                json!({"request_id": self.text, "choices": [{"index": 0, "token_ids": self.ids,
                    "logprobs": {"content": content}, "finish_reason": self.finish,
                    "stop_reason": self.stop, "routed_experts": "AAAA/+8=", "sampling_mask": null,
                    "weight_versions": self.spans()}], "usage": self.usage()})
            }
            VllmCompletions => {
                let tokens: Vec<_> = self.ids.iter().map(|id| format!("token_id:{id}")).collect();
                json!({"id": "c", "choices": [{"text": self.text, "token_ids": self.ids,
                    "logprobs": {"tokens": tokens, "token_logprobs": self.logprobs(),
                        "top_logprobs": [{"x": -1.0}], "text_offset": [0, 1]},
                    "finish_reason": self.finish, "stop_reason": self.stop}],
                    "usage": self.usage()})
            }
            Sglang => {
                let column: Vec<_> =
                    pairs.map(|(id, logprob)| json!([logprob, id, null])).collect();
                json!({"text": self.text, "output_ids": self.ids, "meta_info": {"id": "r",
                    "finish_reason": {"type": self.finish, "matched": self.stop},
                    "prompt_tokens": 3, "completion_tokens": self.ids.len(),
                    "cached_tokens": self.cached, "weight_version": "default",
                    "output_token_logprobs": column, "e2e_latency": 1.25e-3}})
            }
        }
    }
}

/// The members of all objects in another order.
fn turned(value: &Value, by: usize) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| turned(item, by)).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.iter().map(|(key, value)| (key.clone(), turned(value, by))).collect();
            let middle = by % members.len().max(1);
            members.rotate_left(middle);
            Value::Object(members.into_iter().collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn text(value: &Value, wide: bool) -> Vec<u8> {
    let text = if wide { serde_json::to_vec_pretty(value) } else { serde_json::to_vec(value) };
    text.unwrap()
}

const KINDS: [EngineKind; 3] = [Vllm, VllmCompletions, Sglang];

proptest! {
    #[test]
    fn a_reply_is_read_alike(said in said(), by in 0..9_usize, wide: bool) {
        for kind in KINDS {
            let reply = text(&turned(&said.reply(kind), by), wide);
            let (quick, slow) = both(kind, &reply);
            // A list of stop ids is rare enough to be left to the other reader.
            prop_assert!(quick.is_some() || said.stop.is_array(), "{}", String::from_utf8_lossy(&reply));
            prop_assert_eq!(quick.unwrap_or(slow.clone()), slow);
        }
    }

    #[test]
    fn a_damaged_reply_is_not_believed_sooner(
        said in said(),
        damage in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(b"{}[]\",:\\0123456789.-eEntf \n\x00\xff".to_vec())),
            1..4,
        ),
        cut: prop::sample::Index,
        repeat: prop::sample::Index,
    ) {
        for kind in KINDS {
            let whole = text(&said.reply(kind), false);
            let mut changed = whole.clone();
            for (at, byte) in &damage {
                let at = at.index(changed.len());
                changed[at] = *byte;
            }
            let mut longer = whole.clone();
            let at = repeat.index(whole.len());
            longer.splice(at..at, whole[at..].iter().take(20).copied());
            for reply in [&changed[..], &longer, &whole[..cut.index(whole.len())], &whole[at..]] {
                if let (Some(quick), slow) = both(kind, reply) {
                    prop_assert_eq!(quick, slow, "{}", String::from_utf8_lossy(reply));
                }
            }
        }
    }
}

#[test]
fn members_that_are_repeated_or_of_another_type_are_for_the_other_reader() {
    for reply in [
        r#"{"choices":[],"choices":[]}"#,
        r#"{"choices":null}"#,
        r#"{"choices":[{"token_ids":[1],"token_ids":[1]}]}"#,
        r#"{"choices":[{"token_ids":[1.0]}]}"#,
        r#"{"choices":[{"token_ids":[-1]}]}"#,
        r#"{"choices":[{"finish_\u0072eason":"stop"}]}"#,
        r#"{"choices":[{"stop_reason":1e999}]}"#,
        r#"{"choices":[{"weight_versions":[{"version":"a","start":0}]}]}"#,
        r#"{"choices":[{"logprobs":{"content":[{"logprob":1e999}]}}]}"#,
        r#"[[]]"#,
        r#"{"choices":[]} x"#,
    ] {
        assert!(both(Vllm, reply.as_bytes()).0.is_none(), "{reply}");
    }
}
