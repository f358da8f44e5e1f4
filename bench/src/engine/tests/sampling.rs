//! Log-probabilities, the prefix cache, budgets and stops.

use rollgate_pipeline::turn::Finish;

use super::*;

const CONTENT: &str = "The engine is asked once for the whole answer.";

fn engine_of(kind: EngineKind) -> EngineHandle {
    engine(kind, json!({"otherwise": {"content": CONTENT, "non_canonical": true}}))
}

#[test]
fn the_same_seed_and_prompt_give_the_same_answer_in_every_shape() {
    let expected = plain(EngineKind::Vllm, &engine_of(EngineKind::Vllm), &prompt(1));
    for kind in KINDS {
        let engine = engine_of(kind);
        // Calls in between change nothing.
        plain(kind, &engine, &prompt(0));
        let again = plain(kind, &engine, &prompt(1));
        assert_eq!((again.ids, again.logprobs), (expected.ids.clone(), expected.logprobs.clone()));
    }
    let script = json!({"otherwise": {"content": CONTENT, "non_canonical": true}}).to_string();
    let script = parse_script(&script).unwrap();
    let other = start(EngineConfig { script, seed: 8, ..EngineConfig::new(model()) }).unwrap();
    let other = plain(EngineKind::Vllm, &other, &prompt(1));
    assert_ne!(other.logprobs, expected.logprobs);
}

#[test]
fn scoring_again_gives_the_same_numbers() {
    let (prompt, sampled) = {
        let engine = engine_of(EngineKind::Vllm);
        (prompt(0), plain(EngineKind::Vllm, &engine, &prompt(0)))
    };
    let all = [prompt.as_slice(), &sampled.ids].concat();
    for kind in KINDS {
        let engine = engine_of(kind);
        let (status, body) = send(&engine, kind.score_request("demo", &all));
        let scores = kind.read_scores(status, &body, &all).unwrap();
        let tail: Vec<f32> = scores[prompt.len()..].iter().map(|score| score.unwrap()).collect();
        assert_eq!(tail, sampled.logprobs, "{kind:?}");
        // Cut elsewhere: the sampled ids after a longer prompt.
        let head = &all[..prompt.len() + 3];
        let (status, body) = send(&engine, kind.score_request("demo", head));
        assert_eq!(kind.read_scores(status, &body, head).unwrap(), scores[..head.len()]);
    }
}

#[test]
fn cached_tokens_are_whole_blocks_of_the_common_prefix() {
    for kind in KINDS {
        let script =
            parse_script(r#"{"otherwise": {"content": "The whole answer is here."}}"#).unwrap();
        let config = EngineConfig {
            shape: shape(kind),
            script,
            block_tokens: 4,
            ..EngineConfig::new(model())
        };
        let engine = start(config).unwrap();
        let prompt = prompt(0);
        let first = plain(kind, &engine, &prompt);
        assert_eq!(first.cached_tokens, Some(0));
        let again = plain(kind, &engine, &prompt);
        assert_eq!(again.cached_tokens, Some((prompt.len() as u32 - 1) / 4 * 4));
        let all = [prompt.as_slice(), &first.ids, &[1; 9]].concat();
        let next = plain(kind, &engine, &all);
        assert_eq!(next.cached_tokens, Some((prompt.len() + first.ids.len()) as u32 / 4 * 4));
        let mut other = prompt.clone();
        other[9] += 1;
        assert_eq!(plain(kind, &engine, &other).cached_tokens, Some(8));
        // Scores of a prompt are not in the cache.
        let scored = engine.stats().cached_tokens;
        send(&engine, kind.score_request("demo", &prompt));
        assert_eq!(engine.stats().cached_tokens, scored);
    }
}

#[test]
fn a_budget_ends_an_answer() {
    for kind in KINDS {
        let engine = engine_of(kind);
        let whole = plain(kind, &engine, &prompt(0));
        let sampling = Sampling { max_tokens: Some(5), ..Sampling::default() };
        let cut = generate(kind, &engine, &prompt(0), &sampling).unwrap();
        assert_eq!((cut.finish, cut.ids.as_slice()), (Finish::Length, &whole.ids[..5]));
        assert_eq!(cut.logprobs, whole.logprobs[..5]);
    }
}

#[test]
fn a_stop_text_ends_an_answer_and_stays_in_the_ids() {
    for kind in KINDS {
        let engine = engine_of(kind);
        let sampling = Sampling { stop: vec!["once for".to_owned()], ..Sampling::default() };
        let cut = generate(kind, &engine, &prompt(0), &sampling).unwrap();
        assert_eq!(cut.stop_text.as_deref(), Some("once for"));
        assert_eq!(text(&cut.ids), "The engine is asked once for");
        assert_eq!(cut.finish, Finish::Stop);
    }
}

#[test]
fn log_probabilities_come_with_alternatives() {
    let engine = engine_of(EngineKind::Vllm);
    let sampling =
        json!({"logprobs": 2, "max_tokens": 3, "stop_token_ids": [model().markers.close]});
    let body =
        json!({"token_ids": prompt(0), "sampling_params": sampling, "return_token_ids": true});
    let (status, answer) = post(&engine, "/inference/v1/generate", body);
    assert_eq!(status, 200);
    assert!(answer["request_id"].as_str().unwrap().starts_with("generate-tokens-"));
    assert_eq!(answer["prompt_token_ids"], json!(prompt(0)));
    for entry in answer["choices"][0]["logprobs"]["content"].as_array().unwrap() {
        let tops = entry["top_logprobs"].as_array().unwrap();
        assert_eq!(tops.len(), 3);
        assert_eq!(tops[0]["token_id"], entry["token_id"]);
        assert!(tops[0]["logprob"].as_f64() > tops[1]["logprob"].as_f64());
    }
    let body = json!({"token_ids": prompt(0), "sampling_params": {"max_tokens": 3}});
    let (_, answer) = post(&engine, "/inference/v1/generate", body);
    assert_eq!(answer["choices"][0]["logprobs"], Value::Null, "only where asked for");
}

#[test]
fn an_aborted_call_keeps_what_it_sampled() {
    for kind in [EngineKind::Vllm, EngineKind::Sglang] {
        let script = json!({"otherwise": {"content": CONTENT, "delay_ms": 20_000}});
        let engine = engine(kind, script);
        let generated = std::thread::scope(|scope| {
            let call = scope.spawn(|| plain(kind, &engine, &prompt(0)));
            while engine.stats().running == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            let abort = |id: &str| match kind {
                EngineKind::Sglang => post(&engine, "/abort_request", json!({"rid": id})).0,
                _ => post(&engine, "/inference/v1/abort_requests", json!({"request_ids": [id]})).0,
            };
            assert_eq!(abort("0123"), 200);
            std::thread::sleep(Duration::from_millis(30));
            assert!(!call.is_finished(), "a part of the id aborts nothing");
            let prefix = if kind == EngineKind::Vllm { "generate-tokens-" } else { "" };
            assert_eq!(abort(&format!("{prefix}0123456789abcdef")), 200);
            call.join().unwrap()
        });
        assert_eq!(generated.finish, Finish::Abort);
        assert_eq!(generated.ids.len(), generated.logprobs.len());
        assert!(ids(CONTENT).starts_with(&generated.ids));
        assert_eq!((engine.stats().aborted, engine.stats().running), (1, 0));
    }
}
