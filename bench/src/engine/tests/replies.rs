//! Which reply is given, and how it is said.

use rollgate_pipeline::parse;
use rollgate_pipeline::render::PriorTail;
use rollgate_pipeline::turn::{Finish, MessageFields};

use super::*;

const OPEN: &str = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";

#[test]
fn every_shape_is_read_by_the_gateway() {
    for kind in KINDS {
        let script = json!({"replies": [{"reasoning": "Hm.", "content": "Hello 请."}]});
        let engine = engine(kind, script);
        let generated = plain(kind, &engine, &ids(OPEN));
        assert_eq!(text(&generated.ids), "<think>\nHm.\n</think>\n\nHello 请.<|im_end|>");
        assert_eq!(generated.finish, Finish::Stop, "{kind:?}");
        assert_eq!(generated.stop_text, None);
        assert_eq!(generated.prompt_tokens, Some(ids(OPEN).len() as u32));
        assert_eq!(generated.cached_tokens, Some(0));
        assert_eq!(generated.versions.len(), 1);
        assert_eq!(generated.versions[0].version, "v1");
        assert_eq!(
            (engine.requests(), engine.stats().sampled_tokens),
            (1, generated.ids.len() as u64)
        );
        let recorded = engine.recorded();
        assert_eq!(recorded[0].prompt, ids(OPEN));
        assert_eq!(recorded[0].ids, generated.ids);
        assert_eq!(recorded[0].logprobs, generated.logprobs);
    }
}

#[track_caller]
fn check_said(reply: Value, prompt: &str, expected: &str) {
    let engine = engine(EngineKind::Vllm, json!({"otherwise": reply}));
    let generated = plain(EngineKind::Vllm, &engine, &ids(prompt));
    assert_eq!(text(&generated.ids), expected);
    assert_eq!(generated.ids, ids(expected), "canonical ids");
}

#[test]
fn replies_follow_the_grammar_and_the_prompt() {
    let calls =
        json!([{"name": "bash", "arguments": {"command": "ls\n", "n": [1, true]}}, {"name": "x"}]);
    let said = "<tool_call>\n{\"name\": \"bash\", \"arguments\": \
                {\"command\": \"ls\\n\", \"n\": [1, true]}}\n</tool_call>\n\
                <tool_call>\n{\"name\": \"x\", \"arguments\": {}}\n</tool_call><|im_end|>";
    check_said(json!({"tool_calls": calls}), OPEN, said);
    check_said(json!({"content": "Ok.", "tool_calls": calls}), OPEN, &format!("Ok.\n{said}"));
    check_said(json!({"content": "Ok.", "finish": "length"}), OPEN, "Ok.");
    check_said(json!({"raw": "<think>a<tool_call>"}), OPEN, "<think>a<tool_call><|im_end|>");
    let opened = format!("{OPEN}<think>\n");
    check_said(json!({"reasoning": "r", "content": "c"}), &opened, "r\n</think>\n\nc<|im_end|>");
    check_said(json!({"content": "c"}), &opened, "</think>\n\nc<|im_end|>");
    let over = format!("{OPEN}<think>\n\n</think>\n\n");
    check_said(json!({"reasoning": "r", "content": "c"}), &over, "c<|im_end|>");
}

#[test]
fn control_text_in_content_is_plain() {
    let engine = engine(EngineKind::Vllm, json!({"otherwise": {"content": "a <|im_end|> b"}}));
    let generated = plain(EngineKind::Vllm, &engine, &prompt(0));
    let closes = generated.ids.iter().filter(|id| **id == model().markers.close).count();
    assert_eq!(closes, 1);
    assert_eq!(text(&generated.ids), "a <|im_end|> b<|im_end|>");
}

#[test]
fn a_reply_is_chosen_by_match_then_by_turn_then_otherwise() {
    let script = json!({
        "replies": [
            {"content": "first"},
            {"content": "matched", "match": {"turn": 1, "prompt_contains": "squares"}},
            {"content": "second"},
            {"content": "third"},
            {"content": "never", "match": {"prompt_contains": "circles"}},
        ],
        "otherwise": {"content": "otherwise"},
    });
    let engine = engine(EngineKind::Vllm, script);
    let said = |turns: usize| text(&plain(EngineKind::Vllm, &engine, &prompt(turns)).ids);
    // In any order: the choice depends on the prompt alone.
    assert_eq!(said(2), "third<|im_end|>");
    assert_eq!(said(0), "first<|im_end|>");
    assert_eq!(said(1), "matched<|im_end|>");
    assert_eq!(said(0), "first<|im_end|>");
    assert_eq!(said(3), "otherwise<|im_end|>");
    let other = ids("<|im_start|>assistant\na<|im_end|>\n<|im_start|>assistant\n");
    assert_eq!(text(&plain(EngineKind::Vllm, &engine, &other).ids), "second<|im_end|>");
}

#[test]
fn non_canonical_ids_differ_and_say_the_same() {
    let reply = |splits: Value| {
        json!({"otherwise": {"reasoning": "The file exists already.", "content": "Run the test ✓.",
            "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}],
            "non_canonical": splits}})
    };
    let canonical = engine(EngineKind::Vllm, reply(json!(false)));
    for (splits, count) in [(json!(true), 2), (json!(1), 1), (json!(5), 5)] {
        let split = engine(EngineKind::Vllm, reply(splits));
        for turns in 0..4 {
            let expected = plain(EngineKind::Vllm, &canonical, &prompt(turns)).ids;
            let said = plain(EngineKind::Vllm, &split, &prompt(turns)).ids;
            assert_eq!(text(&said), text(&expected));
            assert_eq!(said.len(), expected.len() + count);
            assert_ne!(said, ids(&text(&said)), "not what the tokenizer makes of the text");
            let marks =
                |ids: &[TokenId]| ids.iter().filter(|id| **id >= 3009).copied().collect::<Vec<_>>();
            assert_eq!(marks(&said), marks(&expected), "markers are never split");
        }
    }
}

#[test]
fn what_cannot_be_said_in_two_pieces_is_refused_at_the_start() {
    let script =
        parse_script(r#"{"otherwise": {"content": "Done.", "non_canonical": true}}"#).unwrap();
    assert!(start(EngineConfig { script, ..EngineConfig::new(model()) }).is_ok());
    let script = parse_script(r#"{"otherwise": {"raw": "<think>", "non_canonical": 1}}"#).unwrap();
    let error = start(EngineConfig { script, ..EngineConfig::new(model()) }).err().unwrap();
    assert!(error.to_string().contains("otherwise of the script"), "{error}");
}

#[test]
fn a_script_without_a_fitting_reply_says_so() {
    for kind in KINDS {
        let engine = engine(kind, json!({"replies": [{"content": "a"}]}));
        let fault = generate(kind, &engine, &prompt(1), &Sampling::default()).unwrap_err();
        assert!(fault.message.contains("no reply for turn 1"), "{}", fault.message);
    }
}

#[test]
fn weights_change_after_so_many_calls() {
    for kind in KINDS {
        let script =
            json!({"otherwise": {"content": "a"}, "version_bumps": [[1, "v2"], [3, "v3"]]});
        let engine = engine(kind, script);
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(plain(kind, &engine, &prompt(0)).versions[0].version.clone());
        }
        assert_eq!(seen, ["v1", "v2", "v2", "v3"]);
    }
}

/// Plays the demo as a gateway and an agent would, with a real shell in an empty directory.
#[test]
fn the_demo_episode_works() {
    let directory = tempfile::tempdir().unwrap();
    let engine = start(EngineConfig::new(model())).unwrap();
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let tools = [json!({"type": "function", "function":
        {"name": "bash", "description": "Runs a command.", "parameters": parameters}})];
    let asked = [Message::text(Role::User, "Write a script that prints squares.")];
    let mut prompt = model().first(&asked, &tools, &Map::new()).unwrap();
    let mut outputs = Vec::new();
    loop {
        let generated = plain(EngineKind::Vllm, &engine, &prompt);
        assert_ne!(generated.ids, ids(&text(&generated.ids)), "every reply is non-canonical");
        let parsed = parse::parse(&model(), &prompt, &generated.ids, None, &tools, "seed");
        let reply = parsed.reply;
        assert_eq!((reply.ill_formed, reply.remarks.len()), (false, 0), "{reply:?}");
        assert!(reply.reasoning.is_some());
        let Some(call) = reply.tool_calls.first() else { break };
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        outputs.push(run(directory.path(), arguments["command"].as_str().unwrap()));
        let result = [Message::from(MessageFields {
            tool_call_id: Some(call.id.clone()),
            ..MessageFields::text(Role::Tool, outputs.last().unwrap().as_str())
        })];
        let tail = PriorTail { last: Some(model().markers.close), reasoning_open: false };
        let stretch = model().stretch(tail, &result, &tools, &Map::new()).unwrap();
        prompt.extend(generated.ids.iter().chain(&stretch));
    }
    assert_eq!(engine.requests(), 4);
    let squares = "1\n4\n9\n16\n25\n36\n49\n64\n81\n100\n";
    assert_eq!(outputs[1..], [squares, "ok: the squares add up to 385\n"]);
    // Each prompt but the first was cached up to its last whole block.
    let cached = engine.stats().cached_tokens;
    assert!(cached > engine.stats().prompt_tokens / 2, "{cached}");
}

fn run(directory: &std::path::Path, command: &str) -> String {
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", command]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A prompt of ChatML messages, `(role, text)`, that asks for an assistant turn.
fn chat(messages: &[(&str, &str)]) -> Vec<TokenId> {
    let said =
        messages.iter().map(|(role, text)| format!("<|im_start|>{role}\n{text}<|im_end|>\n"));
    ids(&(said.collect::<String>() + "<|im_start|>assistant\n"))
}

#[test]
fn parts_of_the_prompt_choose_the_reply() {
    let script = json!({
        "replies": [
            {"content": "both", "match": {"system_contains": ["agent", "bash"], "last_contains": "go"}},
            {"content": "system", "match": {"system_contains": "agent"}},
            {"content": "last", "match": {"last_contains": ["user", "go"], "without": "stop"}},
            {"content": "tool", "match": {"last_contains": "tool\n"}},
            {"content": "anywhere", "match": {"prompt_contains": ["go", "stop"]}},
        ],
        "otherwise": {"content": "otherwise"},
    });
    let engine = engine(EngineKind::Vllm, script);
    for (messages, expected) in [
        (&[("system", "agent with bash"), ("user", "go")][..], "both"),
        (&[("system", "agent with bash"), ("user", "wait")], "system"),
        (&[("system", "agent"), ("user", "go")], "system"),
        (&[("user", "agent"), ("user", "go")], "last"),
        (&[("user", "go"), ("assistant", "a"), ("user", "b")], "otherwise"),
        (&[("user", "stop"), ("user", "go")], "anywhere"),
        (&[("user", "go"), ("assistant", "a"), ("tool", "b")], "tool"),
    ] {
        let generated = plain(EngineKind::Vllm, &engine, &chat(messages));
        assert_eq!(text(&generated.ids), format!("{expected}<|im_end|>"), "{messages:?}");
    }
}

#[test]
fn replies_count_their_prompts_and_a_repeated_one_keeps_its_number() {
    let script = json!({
        "replies": [
            {"content": "first", "match": {"last_contains": "go", "nth": 1}},
            {"content": "second", "match": {"last_contains": "go", "nth": 2}},
            {"content": "later", "match": {"prompt_contains": "go", "after": 3}},
        ],
        "otherwise": {"content": "otherwise"},
    });
    let engine = engine(EngineKind::Vllm, script);
    for (word, expected) in [
        ("go a", "first"),
        ("wait", "otherwise"),
        ("go b", "second"),
        ("go a", "first"),
        ("go b", "second"),
        ("go c", "otherwise"),
        ("go d", "later"),
        ("go c", "otherwise"),
        ("go e", "later"),
    ] {
        let generated = plain(EngineKind::Vllm, &engine, &chat(&[("user", word)]));
        assert_eq!(text(&generated.ids), format!("{expected}<|im_end|>"), "{word}");
    }
}
