//! Tables of engine replies, in the shapes that the engines were seen to send.

mod readers;

use serde_json::{Value, json};

use super::EngineKind::{self, Sglang, Vllm, VllmCompletions};
use super::{EngineCall, EngineRequest};
use crate::fault::{Fault, FaultKind};
use crate::id_text;
use crate::turn::{Finish, Generated, Sampling, VersionSpan};

const VOCAB: u32 = 100;

fn text(request: &EngineRequest) -> String {
    String::from_utf8(request.body.concat()).unwrap()
}

fn asks(kind: EngineKind, sampling: Value, path: &str, body: &str) {
    let sampling: Sampling = serde_json::from_value(sampling).unwrap();
    let call = EngineCall {
        model: "m",
        prompt: &[id_text::of(&[1, 2]), id_text::of(&[]), id_text::of(&[30]), id_text::of(&[])],
        sampling: &sampling,
        max_tokens: 64,
        request_id: "r\"1",
    };
    let request = kind.request(&call);
    assert_eq!((request.path, text(&request).as_str()), (path, body));
    serde_json::from_slice::<Value>(&request.body.concat()).unwrap();
}

#[test]
fn only_what_is_set_is_sent() {
    asks(
        Vllm,
        json!({}),
        "/inference/v1/generate",
        r#"{"request_id":"r\"1","model":"m","token_ids":[1,2,30],"sampling_params":{"max_tokens":64,"logprobs":0,"detokenize":false}}"#,
    );
    asks(
        VllmCompletions,
        json!({}),
        "/v1/completions",
        r#"{"request_id":"r\"1","model":"m","prompt":[1,2,30],"max_tokens":64,"logprobs":0,"return_token_ids":true,"return_tokens_as_token_ids":true,"return_weight_versions":true}"#,
    );
    asks(
        Sglang,
        json!({}),
        "/generate",
        r#"{"rid":"r\"1","input_ids":[1,2,30],"sampling_params":{"max_new_tokens":64},"return_logprob":true,"logprob_start_len":-1,"stream":false}"#,
    );
}

#[test]
fn each_engine_has_its_own_names() {
    let sampling = json!({
        "temperature": 0.5, "top_k": 0, "max_tokens": 9, "seed": 7, "stop": ["END"],
        "extra": {"min_tokens": 3, "logprobs": 1}
    });
    asks(
        Vllm,
        sampling.clone(),
        "/inference/v1/generate",
        r#"{"request_id":"r\"1","model":"m","token_ids":[1,2,30],"sampling_params":{"temperature":0.5,"top_k":0,"max_tokens":64,"seed":7,"stop":["END"],"logprobs":1,"min_tokens":3}}"#,
    );
    asks(
        Sglang,
        sampling,
        "/generate",
        r#"{"rid":"r\"1","input_ids":[1,2,30],"sampling_params":{"temperature":0.5,"top_k":-1,"max_new_tokens":64,"sampling_seed":7,"stop":["END"],"min_tokens":3,"logprobs":1},"return_logprob":true,"logprob_start_len":-1,"stream":false}"#,
    );
}

#[test]
fn an_engine_is_told_to_give_up_in_its_own_words() {
    let told = |kind: EngineKind| kind.abort_request("r\"1").map(|r| (r.path, text(&r)));
    let vllm = r#"{"request_ids":["generate-tokens-r\"1"]}"#;
    assert_eq!(told(Vllm), Some(("/inference/v1/abort_requests", vllm.to_owned())));
    assert_eq!(told(VllmCompletions), None);
    assert_eq!(told(Sglang), Some(("/abort_request", r#"{"rid":"r\"1"}"#.to_owned())));
}

#[test]
fn a_pause_is_told_from_a_queue_that_is_full() {
    let says = |status, message: &str| {
        Vllm.paused(status, json!({"error": {"message": message}}).to_string().as_bytes())
    };
    assert!(says(503, "Generation is paused. Please retry after it resumes."));
    assert!(says(503, "a weight update is in progress"));
    assert!(!says(503, "The queue is full."));
    assert!(!says(429, "Generation is paused."));
    assert!(!Vllm.paused(503, b""));
}

/// A reply of two sampled ids, with these changes: a JSON pointer and its new value.
fn reply(kind: EngineKind, changes: &[(&str, Value)]) -> Vec<u8> {
    let mut reply = match kind {
        Vllm => json!({
            "request_id": "generate-tokens-r1", "model": "m", "created": 0,
            "choices": [{
                "index": 0, "finish_reason": "stop", "stop_reason": null, "token_ids": [5, 9],
                "logprobs": {"content": [
                    {"token_id": 5, "logprob": -0.5, "rank": 1,
                     "top_logprobs": [{"token_id": 5, "logprob": -0.5, "rank": 1}]},
                    {"token_id": 9, "logprob": -1.25, "rank": 2, "top_logprobs": []}
                ]},
                "routed_experts": null,
                "weight_versions": [{"version": "7", "start": 0, "end": 2}]
            }],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5,
                      "prompt_tokens_details": {"cached_tokens": 1}},
            "prompt_logprobs": null
        }),
        VllmCompletions => json!({
            "id": "cmpl-1", "object": "text_completion", "model": "m",
            "choices": [{
                "index": 0, "text": "x", "finish_reason": "stop", "stop_reason": null,
                "token_ids": [5, 9], "prompt_token_ids": [1, 2, 30],
                "logprobs": {"text_offset": [0, 1], "token_logprobs": [-0.5, -1.25],
                             "tokens": ["token_id:5", "token_id:9"], "top_logprobs": [{}, {}]},
                "weight_versions": [{"version": "7", "start": 0, "end": 2}]
            }],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2,
                      "prompt_tokens_details": {"cached_tokens": 1}}
        }),
        Sglang => json!({
            "text": "x", "output_ids": [5, 9],
            "meta_info": {
                "id": "r1", "finish_reason": {"type": "stop", "matched": 9},
                "prompt_tokens": 3, "completion_tokens": 2, "cached_tokens": 1,
                "weight_version": "7", "e2e_latency": 0.25,
                "output_token_logprobs": [[-0.5, 5, null], [-1.25, 9, "x"]]
            }
        }),
    };
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match reply.pointer_mut(parent).unwrap() {
            Value::Object(members) => drop(members.insert(name.to_owned(), value.clone())),
            parent => parent[name.parse::<usize>().unwrap()] = value.clone(),
        }
    }
    reply.to_string().into_bytes()
}

fn read(kind: EngineKind, changes: &[(&str, Value)]) -> Result<Generated, Fault> {
    kind.read(200, &reply(kind, changes), VOCAB)
}

fn refuses(kind: EngineKind, changes: &[(&str, Value)], part: &str) {
    let fault = read(kind, changes).unwrap_err();
    assert_eq!(fault.kind, FaultKind::EngineBadReply, "{fault}");
    assert!(fault.message.contains(part), "{fault}");
}

#[test]
fn a_good_reply_is_read_in_every_shape() {
    let good = Generated {
        ids: vec![5, 9],
        logprobs: vec![-0.5, -1.25],
        finish: Finish::Stop,
        stop_text: None,
        versions: vec![VersionSpan { start: 0, version: "7".to_owned() }],
        cached_tokens: Some(1),
        prompt_tokens: Some(3),
    };
    for kind in [Vllm, VllmCompletions, Sglang] {
        assert_eq!(read(kind, &[]).unwrap(), good, "{kind:?}");
    }
}

#[test]
fn the_end_is_read() {
    let ends = |kind, changes: &[(&str, Value)], finish, stop_text: Option<&str>| {
        let read = read(kind, changes).unwrap();
        assert_eq!((read.finish, read.stop_text.as_deref()), (finish, stop_text));
    };
    let vllm = |finish: &str, stop: Value| {
        [("/choices/0/finish_reason", json!(finish)), ("/choices/0/stop_reason", stop)]
    };
    for kind in [Vllm, VllmCompletions] {
        ends(kind, &vllm("stop", json!("END")), Finish::Stop, Some("END"));
        ends(kind, &vllm("stop", json!(9)), Finish::Stop, None);
        ends(kind, &vllm("length", json!(null)), Finish::Length, None);
        ends(kind, &vllm("abort", json!(null)), Finish::Abort, None);
        ends(kind, &vllm("repetition", json!("repetition_detected")), Finish::Stop, None);
        refuses(kind, &vllm("error", json!(null)), "finish reason \"error\"");
    }
    let sglang = |reason: Value| [("/meta_info/finish_reason", reason)];
    ends(Sglang, &sglang(json!({"type": "stop", "matched": "END"})), Finish::Stop, Some("END"));
    ends(Sglang, &sglang(json!({"type": "stop", "matched": [3, 4]})), Finish::Stop, None);
    ends(Sglang, &sglang(json!({"type": "length", "length": 2})), Finish::Length, None);
    let abort = json!({"type": "abort", "message": "x", "status_code": null, "err_type": null});
    ends(Sglang, &sglang(abort), Finish::Abort, None);
    refuses(Sglang, &sglang(json!(null)), "not finished");
}

#[test]
fn i01_i08_lengths_must_agree() {
    for kind in [Vllm, VllmCompletions] {
        refuses(kind, &[("/choices/0/token_ids", json!([5]))], "1 token ids, but 2 log-prob");
        refuses(kind, &[("/usage/completion_tokens", json!(5))], "2 token ids, but it counts 5");
    }
    refuses(Sglang, &[("/output_ids", json!([5, 9, 9]))], "3 token ids, but 2 log-prob");
    refuses(Sglang, &[("/meta_info/completion_tokens", json!(20))], "but it counts 20");
}

#[test]
fn i02_i05_missing_ids_name_the_switch() {
    refuses(Vllm, &[("/choices/0/token_ids", json!(null))], "/inference/v1/generate");
    refuses(VllmCompletions, &[("/choices/0/token_ids", json!(null))], "`return_token_ids`");
    refuses(Sglang, &[("/output_ids", json!(null))], "native /generate route");
    refuses(Vllm, &[("/choices/0/logprobs", json!(null))], "no log-probabilities");
    refuses(Sglang, &[("/meta_info/output_token_logprobs", json!(null))], "return_logprob");
}

#[test]
fn i04_ids_in_token_texts_are_compared() {
    let tokens = "/choices/0/logprobs/tokens";
    refuses(VllmCompletions, &[(tokens, json!(["token_id:5", "token_id:8"]))], "is of id 8");
    // A server that spells texts there names no ids to compare.
    assert!(read(VllmCompletions, &[(tokens, json!(["a", "b"]))]).is_ok());
    let entry = "/choices/0/logprobs/content/1";
    refuses(Vllm, &[(entry, json!({"token": "token_id:8", "logprob": -1.0}))], "is of id 8");
    refuses(Sglang, &[("/meta_info/output_token_logprobs/0/1", json!(6))], "is of id 6");
}

#[test]
fn i07_nothing_sampled_is_an_answer() {
    let none = |kind, changes: &[(&str, Value)]| {
        let read = read(kind, changes).unwrap();
        assert_eq!((read.ids.len(), read.logprobs.len(), read.versions.len()), (0, 0, 0));
        assert_eq!(read.prompt_tokens, Some(3));
    };
    for logprobs in [json!(null), json!({"content": []}), json!({"content": null})] {
        none(
            Vllm,
            &[
                ("/choices/0/token_ids", json!([])),
                ("/choices/0/logprobs", logprobs),
                ("/choices/0/weight_versions", json!([])),
                ("/usage/completion_tokens", json!(0)),
            ],
        );
    }
    let empty = [
        ("/output_ids", json!([])),
        ("/meta_info/output_token_logprobs", json!([])),
        ("/meta_info/completion_tokens", json!(0)),
    ];
    none(Sglang, &empty);
    // An abort in the queue: no lists at all.
    none(
        Sglang,
        &[
            ("/output_ids", json!(null)),
            ("/meta_info/output_token_logprobs", json!(null)),
            ("/meta_info/completion_tokens", json!(null)),
            ("/meta_info/finish_reason", json!({"type": "abort", "message": "x"})),
        ],
    );
}

#[test]
fn ids_outside_the_vocabulary_are_refused() {
    let fault = Sglang.read(200, &reply(Sglang, &[]), 9).unwrap_err();
    assert!(fault.message.contains("id 9 at 1 is outside the vocabulary of 9"), "{fault}");
    refuses(Vllm, &[("/choices/0/token_ids/0", json!(-1))], "its JSON");
}

#[test]
fn odd_log_probabilities() {
    let odd = "/choices/0/logprobs/content/0/logprob";
    assert_eq!(read(Vllm, &[(odd, json!(-9999.0))]).unwrap().logprobs[0], -9999.0);
    refuses(Vllm, &[(odd, json!(null))], "no log-probability for id 0");
    refuses(Sglang, &[("/meta_info/output_token_logprobs/1/0", json!(null))], "for id 1");
    let body = String::from_utf8(reply(Vllm, &[])).unwrap().replace("-1.25", "NaN");
    let fault = Vllm.read(200, body.as_bytes(), VOCAB).unwrap_err();
    assert!(fault.message.contains("line 1, column"), "{fault}");
}

#[test]
fn weight_versions_must_cover_the_answer() {
    let span = |version: &str, start: u32, end: u32| json!({"version": version, "start": start, "end": end});
    let vllm = |spans: Value| [("/choices/0/weight_versions", spans)];
    let spans = json!([span("7", 0, 1), span("7", 1, 1), span("8", 1, 1), span("9", 1, 2)]);
    let read_spans = read(Vllm, &vllm(spans.clone())).unwrap().versions;
    let two = [(0, "7"), (1, "9")]
        .map(|(start, version)| VersionSpan { start, version: version.to_owned() });
    assert_eq!(read_spans, two);
    assert_eq!(read(Sglang, &[("/meta_info/weight_versions", spans)]).unwrap().versions, two);
    assert_eq!(read(Vllm, &vllm(json!(null))).unwrap().versions, []);
    refuses(Vllm, &vllm(json!([span("7", 1, 2)])), "span [1, 2) follows token 0");
    refuses(Vllm, &vllm(json!([span("7", 0, 1)])), "cover 1 of 2");
    refuses(Vllm, &vllm(json!([span("7", 0, 2), span("8", 1, 2)])), "[1, 2) follows token 2");
    refuses(Vllm, &vllm(json!([span("7", 0, 3)])), "cover 3 of 2");
}

#[test]
fn e03_what_is_no_single_answer_is_refused() {
    refuses(Vllm, &[("/choices", json!([]))], "no `choices`");
    let choice = json!({"token_ids": [], "finish_reason": "stop"});
    refuses(Vllm, &[("/choices", json!([choice, choice]))], "take `n` out");
    for (kind, body) in [(Sglang, "[]"), (Sglang, "{}"), (Vllm, ""), (Vllm, r#"{"error":{}}"#)] {
        let fault = kind.read(200, body.as_bytes(), VOCAB).unwrap_err();
        assert_eq!(fault.kind, FaultKind::EngineBadReply, "{fault}");
    }
    let fault = Sglang.read(200, br#"{"meta_info":"SECRET TEXT"}"#, VOCAB).unwrap_err();
    assert!(!fault.message.contains("SECRET"), "no text of the reply is quoted: {fault}");
}

#[test]
fn refusals_by_status() {
    let check = |kind: EngineKind, status, body: &str, fault, part: &str| {
        let got = kind.read(status, body.as_bytes(), VOCAB).unwrap_err();
        assert_eq!(got.kind, fault, "{got}");
        assert!(got.message.contains(part), "{got}");
        got
    };
    use FaultKind::*;
    let error = |message: &str| json!({"error": {"message": message, "code": 1}}).to_string();
    for message in [
        "This model's maximum context length is 100 tokens. However, your prompt has 120 input tokens",
        "Input length (120) exceeds model's maximum context length (100)",
        "The decoder prompt (length 120) is longer than the maximum model length of 100.",
        "prompt (length 100) plus the number of requested output tokens (at least 1) is longer than",
        "max_tokens=200 cannot be greater than max_model_len=100",
        "The input (120 tokens) is longer than the model's context length (100 tokens).",
        "Requested token count exceeds the model's maximum context length of 100 tokens.",
        "Input length 120 exceeds the maximum allowed length 100",
    ] {
        check(Vllm, 400, &error(message), ContextOverflow, message);
        let told = Vllm.told_context(error(message).as_bytes());
        let silent = message.contains("plus the number") || message.contains("allowed length");
        assert_eq!(told, (!silent).then_some(100), "{message}");
    }
    check(Vllm, 400, &error("top_p must be in (0, 1]"), EngineRefused, "top_p must be");
    check(Vllm, 404, r#"{"detail":"Not Found"}"#, EngineRefused, "Not Found");
    check(Sglang, 400, r#"{"error":"unknown field `x`"}"#, EngineRefused, "unknown field `x`");
    check(Sglang, 400, r#"{"object":"error","message":"flat"}"#, EngineRefused, "flat");
    let detail =
        r#"{"detail":[{"loc":["body","input_ids",0],"msg":"not an int","input":"PROMPT"}]}"#;
    let fault = check(Vllm, 422, detail, EngineRefused, "body.input_ids.0: not an int");
    assert!(!fault.message.contains("PROMPT"));
    for (status, kind) in [(429, EngineLimited), (503, EngineBusy)] {
        let fault = check(Vllm, status, &error("paused"), kind, "paused");
        assert_eq!((fault.kind.status(), fault.retry_after_s), (status, Some(1)));
    }
    for status in [401, 403, 407] {
        let fault = check(Vllm, status, &error("no key"), EngineDenied, "credentials");
        assert_eq!(fault.kind.status(), 502, "the agent's own key is right");
    }
    check(Vllm, 500, "Internal Server Error", EngineBadReply, "Internal Server Error");
    check(Vllm, 501, &error("no"), EngineRefused, "no");
    check(Vllm, 502, "", EngineDown, "no message");
    check(Vllm, 504, "<html>", EngineTimeout, "<html>");
    check(Vllm, 302, "", EngineBadReply, "302");
    let long = check(Vllm, 400, &error(&"é".repeat(10_000)), EngineRefused, "é");
    assert!(long.message.len() < 700, "{}", long.message.len());
}

#[test]
fn scores_are_of_the_prompt() {
    let ids = [1, 2, 30];
    let check = |kind: EngineKind, path, request: &str, reply: Value, wrong: Value| {
        let asked = kind.score_request("m", &ids);
        assert_eq!((asked.path, text(&asked).as_str()), (path, request));
        let scores = kind.read_scores(200, reply.to_string().as_bytes(), &ids).unwrap();
        assert_eq!(scores, [None, Some(-0.5), Some(-2.0)]);
        for wrong in [wrong, json!({}), json!({"meta_info": {}})] {
            let fault = kind.read_scores(200, wrong.to_string().as_bytes(), &ids).unwrap_err();
            assert_eq!(fault.kind, FaultKind::EngineBadReply);
        }
    };
    let score = |logprob: f64| json!({"logprob": logprob, "rank": 1, "decoded_token": "x"});
    let right = json!([null, {"2": score(-0.5)}, {"7": score(-0.1), "30": score(-2.0)}]);
    let wrong = json!([null, {"2": score(-0.5)}, {"7": score(-0.1)}]);
    check(
        Vllm,
        "/inference/v1/generate",
        r#"{"model":"m","token_ids":[1,2,30],"sampling_params":{"max_tokens":1,"temperature":1.0,"prompt_logprobs":0,"detokenize":false}}"#,
        json!({"prompt_logprobs": right}),
        json!({"prompt_logprobs": wrong}),
    );
    check(
        VllmCompletions,
        "/v1/completions",
        r#"{"model":"m","prompt":[1,2,30],"max_tokens":1,"temperature":1.0,"prompt_logprobs":0}"#,
        json!({"choices": [{"prompt_logprobs": right}]}),
        json!({"choices": [{"prompt_logprobs": wrong}]}),
    );
    let sglang = |last: u32| {
        json!({"meta_info": {"input_token_logprobs":
            [[null, 1, null], [-0.5, 2, null], [-2.0, last, null]]}})
    };
    check(
        Sglang,
        "/generate",
        r#"{"input_ids":[1,2,30],"sampling_params":{"max_new_tokens":1,"temperature":1.0},"return_logprob":true,"logprob_start_len":0,"stream":false}"#,
        sglang(30),
        sglang(31),
    );
    let fault = Vllm.read_scores(503, b"", &ids).unwrap_err();
    assert_eq!(fault.kind, FaultKind::EngineBusy);
}

proptest::proptest! {
    #[test]
    fn no_reply_makes_it_panic(status in 100_u16..600, body: Vec<u8>) {
        for kind in [Vllm, VllmCompletions, Sglang] {
            let _ = kind.read(status, &body, VOCAB);
            let _ = kind.read_scores(status, &body, &[1]);
        }
    }
}
