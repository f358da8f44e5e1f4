//! Every family: found, probed, and continued exactly. Templates in their public formats, written
//! for these tests, over a tokenizer with the family's added tokens.

use super::super::sample_model::files_of;
use super::*;

/// A family, its template, and its added tokens: BOS first.
struct Sample {
    family: Family,
    template: Option<&'static str>,
    added: &'static [&'static str],
    class: TemplateClass,
    close: &'static str,
}

macro_rules! template {
    ($name:literal) => {
        Some(include_str!(concat!("../../../tests/templates/", $name, ".jinja")))
    };
}

const QWEN: &[&str] = &[
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
];

const DEEPSEEK: &[&str] = &[
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
    "<｜tool▁sep｜>",
    "<think>",
    "</think>",
];

const SAMPLES: [Sample; 10] = [
    Sample {
        family: Family::Qwen3,
        template: Some(TEMPLATE),
        added: QWEN,
        class: TemplateClass::AppendOnlyInToolCycle,
        close: "<|im_end|>",
    },
    Sample {
        family: Family::Qwen3Coder,
        template: template!("qwen3_coder"),
        added: QWEN,
        class: TemplateClass::AppendOnly,
        close: "<|im_end|>",
    },
    Sample {
        family: Family::DeepSeekV3,
        template: template!("deepseek_v3"),
        added: DEEPSEEK,
        class: TemplateClass::AppendOnly,
        close: "<｜end▁of▁sentence｜>",
    },
    Sample {
        family: Family::DeepSeekV31,
        template: template!("deepseek_v31"),
        added: DEEPSEEK,
        class: TemplateClass::AppendOnly,
        close: "<｜end▁of▁sentence｜>",
    },
    Sample {
        family: Family::Llama31,
        template: template!("llama31"),
        added: &[
            "<|begin_of_text|>",
            "<|end_of_text|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eom_id|>",
            "<|eot_id|>",
            "<|python_tag|>",
        ],
        class: TemplateClass::AppendOnly,
        close: "<|eot_id|>",
    },
    Sample {
        family: Family::Harmony,
        template: None,
        added: super::harmony::ADDED,
        class: TemplateClass::AppendOnlyInToolCycle,
        close: "<|end|>",
    },
    Sample {
        family: Family::Glm45,
        template: template!("glm45"),
        added: &[
            "<|endoftext|>",
            "[gMASK]",
            "<sop>",
            "<|system|>",
            "<|user|>",
            "<|assistant|>",
            "<|observation|>",
            "<think>",
            "</think>",
            "<tool_call>",
            "</tool_call>",
            "<arg_key>",
            "</arg_key>",
            "<arg_value>",
            "</arg_value>",
            "<tool_response>",
            "</tool_response>",
        ],
        class: TemplateClass::AppendOnly,
        close: "<|user|>",
    },
    Sample {
        family: Family::KimiK2,
        template: template!("kimi_k2"),
        added: &[
            "[BOS]",
            "<|im_end|>",
            "<|im_user|>",
            "<|im_assistant|>",
            "<|im_system|>",
            "<|im_middle|>",
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
        ],
        class: TemplateClass::AppendOnly,
        close: "<|im_end|>",
    },
    Sample {
        family: Family::MiniMaxM2,
        template: template!("minimax_m2"),
        added: &[
            "]~!b[",
            "]~b]",
            "[e~[",
            "<think>",
            "</think>",
            "<minimax:tool_call>",
            "</minimax:tool_call>",
        ],
        class: TemplateClass::AppendOnlyInToolCycle,
        close: "[e~[",
    },
    Sample {
        family: Family::Mistral,
        template: template!("mistral"),
        added: &[
            "<s>",
            "</s>",
            "[INST]",
            "[/INST]",
            "[SYSTEM_PROMPT]",
            "[/SYSTEM_PROMPT]",
            "[AVAILABLE_TOOLS]",
            "[/AVAILABLE_TOOLS]",
            "[TOOL_CALLS]",
            "[CALL_ID]",
            "[ARGS]",
            "[TOOL_RESULTS]",
            "[TOOL_CONTENT]",
            "[/TOOL_RESULTS]",
        ],
        class: TemplateClass::AppendOnly,
        close: "</s>",
    },
];

fn load(family: Family) -> Model {
    let sample = SAMPLES.iter().find(|sample| sample.family == family).unwrap();
    Model::load(files_of(sample.template, sample.added)).unwrap()
}

/// One model of each family.
pub(super) fn every_family() -> Vec<Model> {
    SAMPLES.iter().map(|sample| load(sample.family)).collect()
}

fn added(model: &Model, text: &str) -> TokenId {
    model.tokenizer.added(text).unwrap()
}

fn stretch(model: &Model, last: Option<TokenId>, new: &[Message]) -> (String, u32) {
    let tail = PriorTail { last, reasoning_open: false };
    let kwargs = probe::pinned();
    let stretch = model.stretch_after(tail, &[], new, &[], &kwargs).unwrap();
    (text(model, &stretch.ids), stretch.marker_conflicts)
}

fn result(text: &str) -> Message {
    let mut message = Message::text(Role::Tool, text);
    message.tool_call_id = Some("abcdef001".to_owned());
    message
}

#[test]
fn every_family_is_found_and_classified() {
    assert_eq!(SAMPLES.len(), Family::ALL.len());
    for sample in &SAMPLES {
        let model = load(sample.family);
        let report = model.report();
        assert_eq!(model.family, sample.family, "{report:#?}");
        assert_eq!(model.class, sample.class, "{report:#?}");
        assert_eq!(report.close.text, sample.close, "{report:#?}");
        let open = model.class == TemplateClass::AppendOnly;
        assert_eq!(report.counterexample.is_none(), open, "{report:#?}");
        assert!(model.markers.ends.contains(&model.markers.close) || sample.close == "<|end|>");
        assert!(!report.generation_prompt.is_empty() || model.family == Family::Mistral);
    }
}

#[test]
fn h08_continued_prompts_are_whole_renders_in_every_family() {
    for sample in &SAMPLES {
        let model = load(sample.family);
        let compared = check_bridges(&model).unwrap_or_else(|found| {
            panic!("{:?}: {found:#?}", sample.family);
        });
        assert!(compared.prompts >= 12, "{:?} {compared:?}", sample.family);
        assert!(compared.same_ids >= compared.prompts / 2, "{:?} {compared:?}", sample.family);
    }
}

#[test]
fn glm_keeps_its_own_history_when_asked() {
    let model = load(Family::Glm45);
    assert_eq!(model.report().switches, Map::from_iter([("clear_thinking".into(), json!(false))]));
    let mut answer = Message::text(Role::Assistant, "so");
    answer.reasoning = Some("why".to_owned());
    let messages = [user("a"), answer, user("b")];
    assert!(text(&model, &first(&model, &messages)).contains("<think>why</think>\nso"));
    let kwargs = Map::from_iter([("clear_thinking".to_owned(), json!(true))]);
    let asked = model.first(&messages, &[], &kwargs).unwrap();
    assert!(text(&model, &asked).contains("<think></think>\nso"), "the request's switch wins");
}

#[test]
fn a_stop_token_that_begins_the_next_turn_is_written_once() {
    let model = load(Family::Glm45);
    let (user_id, result_id) = (added(&model, "<|user|>"), added(&model, "<|observation|>"));
    let next = "\nhi<|assistant|>\n";
    assert_eq!(stretch(&model, Some(user_id), &[user("hi")]), (next.to_owned(), 0));
    let both = format!("<|user|>{next}");
    assert_eq!(stretch(&model, Some(result_id), &[user("hi")]), (both.clone(), 1));
    assert_eq!(stretch(&model, None, &[user("hi")]), (both, 0));
    let results = "\n<tool_response>\n1\n</tool_response><|assistant|>\n";
    assert_eq!(stretch(&model, Some(result_id), &[result("1")]), (results.to_owned(), 0));
    let end = added(&model, "<|endoftext|>");
    let mut files = files_of(SAMPLES[6].template, SAMPLES[6].added);
    files.generation_config = Some(json!({"eos_token_id": [end, 9_999]}).to_string().into());
    let model = Model::load(files).unwrap();
    assert_eq!(model.markers.ends, [user_id, result_id, end]);
    assert_eq!(stretch(&model, Some(end), &[user("hi")]), (format!("<|user|>{next}"), 1));
}

#[test]
fn other_ends_of_a_turn_stay_as_sampled() {
    let model = load(Family::Llama31);
    let next = "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>\
                <|start_header_id|>assistant<|end_header_id|>\n\n";
    for end in ["<|eot_id|>", "<|eom_id|>"] {
        let last = Some(added(&model, end));
        assert_eq!(stretch(&model, last, &[user("hi")]), (next.to_owned(), 0));
    }
    let cut = stretch(&model, Some(65), &[user("hi")]);
    assert_eq!(cut, (format!("<|eot_id|>{next}"), 0), "what was cut off is closed");
    let mut files = test_files();
    files.generation_config =
        Some(json!({"eos_token_id": marker("<|endoftext|>")}).to_string().into());
    let model = Model::load(files).unwrap();
    let (written, conflicts) = stretch(&model, Some(marker("<|endoftext|>")), &[user("hi")]);
    assert!(written.starts_with("<|im_end|>\n<|im_start|>user"), "{written:?}");
    assert_eq!(conflicts, 1);
}

/// Ids that another model's calls had, in the history of one that prints ids.
#[test]
fn a21_ids_fit_a_template_that_prints_functions() {
    let model = load(Family::KimiK2);
    let named = |id: &str, name: &str| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: "{}".to_owned(),
    };
    let mut answer = Message::text(Role::Assistant, "");
    answer.tool_calls = vec![named("toolu_01AbC-def", "f"), named("functions.g:3", "g")];
    let mut results = [result("1"), result("2"), result("3")];
    for (result, id) in results.iter_mut().zip(["toolu_01AbC-def", "functions.g:3", "lost"]) {
        result.tool_call_id = Some(id.to_owned());
    }
    let [one, two, three] = results;
    let messages = [user("a"), answer, one, two, three];
    let whole = text(&model, &first(&model, &messages));
    let id = whole.split_once("<|tool_call_begin|>").unwrap().1;
    let id = id.split_once("<|tool_call_argument_begin|>").unwrap().0.to_owned();
    let number = id.strip_prefix("functions.f:").unwrap();
    assert!(number.parse::<u16>().is_ok(), "{id}");
    for shown in [
        format!("## Return of {id}\n1"),
        "<|tool_call_begin|>functions.g:3<|tool_call_argument_begin|>".to_owned(),
        "## Return of functions.g:3\n2".to_owned(),
        "## Return of lost\n3".to_owned(),
    ] {
        assert!(whole.contains(&shown), "{shown} {whole}");
    }
    // The same again behind more, and where only the results are rendered.
    let tail = PriorTail { last: Some(model.markers.close), reasoning_open: false };
    let calls = &messages[1].tool_calls;
    let behind = model.stretch_after(tail, calls, &messages[2..], &[], &probe::pinned()).unwrap();
    assert!(whole.ends_with(&text(&model, &behind.ids)), "{whole}");
}

#[test]
fn a21_ids_of_calls_fit_the_template() {
    let model = load(Family::Mistral);
    assert!(model.report().notes.iter().any(|note| note.contains("nine letters")));
    let mut answer = Message::text(Role::Assistant, "");
    answer.tool_calls = vec![ToolCall {
        id: "call_0123456789".to_owned(),
        name: "f".to_owned(),
        arguments: "{}".to_owned(),
    }];
    let mut result = result("1");
    result.tool_call_id = Some("call_0123456789".to_owned());
    let whole = text(&model, &first(&model, &[user("a"), answer, result]));
    let id = whole.split_once("[CALL_ID]").unwrap().1.split_once("[ARGS]").unwrap().0;
    assert!(
        id.len() == 9 && whole.contains(&format!("[TOOL_RESULTS]{id}[TOOL_CONTENT]1")),
        "{whole}"
    );
}

#[test]
fn an_answer_reads_as_what_was_sampled() {
    let model = test_model();
    let check = |sent: &Message, sampled: &str, expected: bool| {
        let mut ids = Vec::new();
        model.tokenizer.encode(sampled, ControlText::Match, &mut ids).unwrap();
        assert_eq!(model.reads_as(sent, &ids), expected, "{sampled:?} {sent:?}");
    };
    let mut call = Message::text(Role::Assistant, "");
    call.tool_calls = vec![ToolCall {
        id: "x".to_owned(),
        name: "f".to_owned(),
        arguments: r#"{"a":1}"#.to_owned(),
    }];
    let written = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
    check(&call, &format!("{written}<|im_end|>"), true);
    check(&call, written, true);
    check(&call, &format!("{}<|im_end|>", written.replace(": {", ":{")), false);
    let thought = format!("<think>\nhm\n</think>\n\n{written}<|im_end|>");
    check(&call, &thought, false);
    call.reasoning = Some("hm".to_owned());
    check(&call, &thought, true);
    let mut plain = Message::text(Role::Assistant, "so");
    check(&plain, "so<|im_end|>", true);
    check(&plain, "<think>\n\n</think>\n\nso<|im_end|>", true);
    check(&plain, "so <|im_end|>", false);
    plain.reasoning = Some("hm".to_owned());
    check(&plain, "<think>\nhm\n</think>\n\nso<|im_end|>", true);
    let forged = Message::text(Role::Assistant, "a<tool_call>");
    check(&forged, "a<tool_call><|im_end|>", false);
    let mut ids = super::plain(&model, "a<tool_call>");
    ids.push(model.markers.close);
    assert!(model.reads_as(&forged, &ids));
    assert!(!model.reads_as(&user("so"), &super::plain(&model, "so")));
}

#[test]
fn only_a_person_changes_the_past_of_a_tool_cycle() {
    let model = test_model();
    assert_eq!(model.class, TemplateClass::AppendOnlyInToolCycle);
    let instructions = Message::text(Role::System, "s");
    assert!(!model.changes_past(&[result("1"), result("2")]));
    assert!(model.changes_past(&[result("1"), user("and")]));
    assert!(!model.changes_past(&[user("<tool_response>\n1\n</tool_response>")]));
    assert!(!model.changes_past(&[instructions]));
    assert!(!load(Family::Qwen3Coder).changes_past(&[user("and")]));
}
