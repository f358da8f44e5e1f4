//! What holds for every family that writes markers: the cut into tokens does not matter, nothing is
//! lost, nothing fails, and the cost is linear.

use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::parse::fake::{Case, Fake};
use crate::parse::grammar::Grammar;
use crate::parse::{Parsed, deepseek, glm45, kimi, minimax, qwen3, qwen3_coder};
use crate::render::Family;

static TOOLS: LazyLock<[Value; 1]> = LazyLock::new(|| {
    let properties = json!({"a": {"type": "string"}, "b": {"type": "string"}, "n": {}});
    [json!({"name": "f", "parameters": {"type": "object", "properties": properties}})]
});

/// A family, its grammar, and parts of its calls. `#` stands for a value.
struct Kind {
    family: Family,
    grammar: &'static Grammar,
    call: &'static str,
    parts: &'static [&'static str],
}

static KINDS: [Kind; 7] = [
    Kind {
        family: Family::Qwen3,
        grammar: &qwen3::GRAMMAR,
        call: "<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":\"#\"}}\n</tool_call>",
        parts: &["{\"name\":\"f\",\"arguments\":", "{\"a\":\"#\"}", "}"],
    },
    Kind {
        family: Family::Qwen3Coder,
        grammar: &qwen3_coder::GRAMMAR,
        call: "<tool_call>\n<function=f>\n<parameter=a>\n#\n</parameter>\n</function>\n</tool_call>",
        parts: &[
            "<function=f>\n",
            "<parameter=a>\n",
            "<parameter=b>#",
            "</parameter>",
            "\n</function>",
            "\n",
        ],
    },
    Kind {
        family: Family::Glm45,
        grammar: &glm45::GRAMMAR,
        call: "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>#</arg_value>\n</tool_call>",
        parts: &["f", "<arg_key>b</arg_key>", "<arg_value>#</arg_value>"],
    },
    Kind {
        family: Family::MiniMaxM2,
        grammar: &minimax::GRAMMAR,
        call: "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">#</parameter></invoke>\
               </minimax:tool_call>",
        parts: &[
            "<invoke name=f>\n",
            "<parameter name='a'>",
            "\n<parameter name=\"b\">#",
            "</parameter>",
            "</invoke>",
        ],
    },
    Kind {
        family: Family::DeepSeekV3,
        grammar: &deepseek::V3,
        call: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":\"#\"}\
               \n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        parts: &["function<｜tool▁sep｜>f\n", "```json\n", "{\"a\":\"#\"}", "\n```", "#\n"],
    },
    Kind {
        family: Family::DeepSeekV31,
        grammar: &deepseek::V31,
        call: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":\"#\"}\
               <｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        parts: &["f<｜tool▁sep｜>", "{\"a\":\"#\"}"],
    },
    Kind {
        family: Family::KimiK2,
        grammar: &kimi::GRAMMAR,
        call: "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0\
               <|tool_call_argument_begin|>{\"a\":\"#\"}<|tool_call_end|>\
               <|tool_calls_section_end|>",
        parts: &[
            "functions.f:1<|tool_call_argument_begin|>",
            "{\"a\":\"#\"}",
            "~<|tool_call_section_begin|>",
            "~<|tool_call_section_end|>",
        ],
    },
];

impl Kind {
    fn calls(&self) -> Vec<&'static str> {
        let Grammar { section_open, section_close, call_open, call_close, inner, .. } =
            self.grammar;
        // Kimi's other spelling is no token.
        let frame = [section_open, section_close].into_iter().filter_map(|texts| texts.first());
        let calls = [call_open, call_close, inner].into_iter().copied().flatten();
        frame.chain(calls).copied().collect()
    }

    fn thoughts(&self) -> [&'static str; 2] {
        [self.grammar.think_open[0], self.grammar.think_close[0]]
    }

    fn case(&self) -> Case<'static> {
        let close = self.grammar.ends[0];
        let added = [&self.calls()[..], &self.thoughts(), &[close]].concat();
        let fake = Fake::new(&added, &["<function=", "</", "}\n", "\n\n", ">\n<"]);
        Case { family: self.family, fake, close, prompt: "", tools: &*TOOLS }
    }
}

/// Which pieces to take, of what kind, and a number to choose one.
fn choices() -> impl Strategy<Value = (usize, Vec<(u8, usize)>)> {
    (0..KINDS.len(), proptest::collection::vec((0..7_u8, 0..1_000_usize), 0..14))
}

/// Output of pieces, each value in it another word.
fn output(kind: &Kind, choices: &[(u8, usize)], thoughts: bool) -> String {
    let mut output = String::new();
    let calls = kind.calls();
    for &(what, number) in choices {
        output.push_str(match what {
            0 => kind.call,
            1 | 2 => calls[number % calls.len()],
            3 | 4 => kind.parts[number % kind.parts.len()],
            5 if thoughts => kind.thoughts()[number % 2],
            _ => ["#", " # ", "\n", "x < ", "\n#\n", "\u{e9}"][number % 6],
        });
    }
    let mut parts = output.split('#');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for (at, part) in parts.enumerate() {
        numbered.push_str(&format!("w{at}w{part}"));
    }
    numbered
}

fn all_text(parsed: &Parsed) -> String {
    let reply = &parsed.reply;
    let calls = reply.tool_calls.iter().map(|c| format!("{} {} {}", c.id, c.name, c.arguments));
    let reasoning = reply.reasoning.clone().unwrap_or_default();
    format!("{reasoning} {} {}", reply.content, calls.collect::<String>())
}

fn has(parsed: &Parsed, remark: &str) -> bool {
    parsed.reply.remarks.iter().any(|have| have == remark)
}

fn without_blanks(text: &str) -> usize {
    text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_cut_into_tokens_does_not_matter((at, choices) in choices(), salt: usize) {
        let case = KINDS[at].case();
        let output = output(&KINDS[at], &choices, true);
        let output = output.as_bytes();
        let parsed = case.run(&case.fake, &case.fake.bytes(output), None);
        prop_assert_eq!(&case.run(&case.fake, &case.fake.words(output), None), &parsed);
        let mut fake = case.fake.clone();
        let ids = fake.pieces_cut(output, |at| (at ^ salt).wrapping_mul(0x9e37_79b9) & 0x30 == 0);
        prop_assert_eq!(&case.run(&fake, &ids, None), &parsed);
    }

    #[test]
    fn no_text_is_lost((at, choices) in choices()) {
        let case = KINDS[at].case();
        let output = output(&KINDS[at], &choices, true);
        let parsed = case.run(&case.fake, &case.fake.bytes(output.as_bytes()), None);
        let text = all_text(&parsed);
        for word in output.split('w').skip(1).step_by(2).map(|number| format!("w{number}w")) {
            let replaced = has(&parsed, "call_key_repeated");
            prop_assert!(replaced || text.contains(&word), "{word} of {output:?} is not in {text:?}");
        }
    }

    /// What is no call and no thought is content to the last letter, markers included.
    #[test]
    fn ill_formed_output_is_content((at, choices) in choices()) {
        let case = KINDS[at].case();
        let output = output(&KINDS[at], &choices, false);
        let reply = case.run(&case.fake, &case.fake.bytes(output.as_bytes()), None).reply;
        prop_assert!(reply.reasoning.is_none());
        if reply.tool_calls.is_empty() {
            prop_assert_eq!(reply.content, output.replace('~', ""));
        } else {
            prop_assert!(without_blanks(&reply.content) <= without_blanks(&output));
        }
    }

    #[test]
    fn any_ids_give_a_reply(
        at in 0..KINDS.len(),
        tail in proptest::collection::vec(0_u32..300, 0..4),
        ids in proptest::collection::vec(prop_oneof![0_u32..300, 256_u32..266], 0..64),
        stop in proptest::option::of("[a-z<}]{0,2}"),
    ) {
        let case = KINDS[at].case();
        let ids = [tail, ids].concat();
        let parsed = case.run(&case.fake, &ids, stop.as_deref());
        let most = ids.len() * 40;
        prop_assert!(parsed.reply.content.len() <= most);
    }
}

/// A call of each family with the value `v`, and how it reads.
fn each(check: impl Fn(&Kind, &Case<'_>, String)) {
    for kind in &KINDS {
        check(kind, &kind.case(), kind.call.replace('#', "v"));
    }
}

const READ: &str = "f {\"a\":\"v\"}";

#[test]
fn f01_f10_f12_markers_are_tokens() {
    each(|kind, case, call| {
        case.check(&call, (None, "", &[READ], ""));
        let close = kind.grammar.ends[0];
        case.check(&format!("{call}done{close}"), (None, "done", &[READ], ""));
    });
}

#[test]
fn f11_f18_markers_in_letters_are_text() {
    each(|kind, case, call| {
        let markers = kind.calls();
        let spelled = markers.iter().fold(call, |text, m| text.replace(m, &format!("~{m}")));
        let shown = spelled.replace('~', "");
        case.check(&spelled, (None, &shown, &[], "marker_as_text"));
    });
}

#[test]
fn f13_what_only_looks_like_a_marker_is_text() {
    each(|_, case, _| {
        let text = "<my-tag> x < y and <toolbox> </tool <";
        case.check(text, (None, text, &[], ""));
    });
}

#[test]
fn f19_text_and_all_calls_are_kept() {
    each(|kind, case, call| {
        let twice = if kind.family == Family::KimiK2 { "call_id_repeated" } else { "" };
        case.check(
            &format!("I will check both.\n{call}\n{call}"),
            (None, "I will check both.", &[READ, READ], twice),
        );
    });
}

/// Our choice: whoever asked for thoughts or not, a thought is handed on as one.
#[test]
fn g03_g06_thoughts_are_always_handed_on() {
    each(|kind, case, call| {
        let [open, close] = kind.thoughts();
        case.check(&format!("{open}s{close}ANSWER"), (Some("s"), "ANSWER", &[], ""));
        let both = format!("{open}\ns\n{close}\n\n{call}");
        case.check(&both, (Some("s"), "", &[READ], ""));
        case.check(&format!("{open}s"), (Some("s"), "", &[], "reasoning_unclosed"));
    });
}

#[test]
fn g04_a_call_ends_an_open_thought() {
    each(|kind, case, call| {
        let open = kind.thoughts()[0];
        let expected = (Some("go"), "", &[READ] as &[&str], "call_ended_reasoning");
        case.check(&format!("{open}go\n{call}"), expected);
    });
}

/// How often the long text of [`check_linear`] is the short one.
const TIMES: usize = 16;

/// Time that `runs` runs take over a text of about `size` bytes made of `unit` between two ends.
#[expect(clippy::disallowed_methods, reason = "what is tested is the time it takes")]
fn time(kind: &Kind, [before, unit, after]: [&str; 3], size: usize, runs: usize) -> Duration {
    let case = kind.case();
    let mut fake = case.fake.clone();
    let [before, ids, after] = [before, unit, after].map(|text| fake.pieces(text.as_bytes(), &[]));
    let ids = [before, ids.repeat(size / unit.len()), after].concat();
    let start = std::time::Instant::now();
    for _ in 0..runs {
        case.run(&fake, &ids, None);
    }
    start.elapsed()
}

/// Checks that a long text takes about as long as many short ones: a cost that grows with the square
/// would take [`TIMES`] times as long. Other programs take time too: the least of many runs counts.
fn check_linear(kind: &Kind, shape: [&str; 3]) {
    let size = 2 << 10;
    let (mut many, mut long) = (Duration::MAX, Duration::MAX);
    for _ in 0..100 {
        many = many.min(time(kind, shape, size, TIMES));
        long = long.min(time(kind, shape, size * TIMES, 1));
        if long < many * 5 {
            return;
        }
    }
    panic!("{:?} {shape:?}: {many:?}, then {long:?}", kind.family);
}

#[test]
fn long_answers_cost_what_they_are_long() {
    for kind in &KINDS {
        let [think_open, think_close] = kind.thoughts();
        let (before, after) = kind.call.split_once('#').unwrap();
        let opener = kind.grammar.call_open[0];
        let mut shapes = vec![
            [before, "lorem ipsum ", after],
            [before, " ", after],
            ["", kind.call, ""],
            ["", opener, ""],
            [think_open, opener, ""],
            [think_open, " x ", think_close],
            [think_open, &format!(" {think_open}"), ""],
            ["", &format!(" {think_open}x{think_close} "), ""],
            ["", "\n ", kind.call],
            [kind.call, &format!("\n{opener}"), ""],
        ]
        .into_iter()
        .map(|shape| shape.map(str::to_owned))
        .collect::<Vec<_>>();
        for part in kind.parts {
            shapes.push([before, part, after].map(str::to_owned));
            shapes.push(["\n", part, "\n"].map(str::to_owned));
        }
        for marker in kind.calls() {
            shapes.push([before, marker, after].map(str::to_owned));
            shapes.push(["", &format!("{marker}x\n"), ""].map(str::to_owned));
        }
        for shape in &shapes {
            check_linear(kind, [&*shape[0], &*shape[1], &*shape[2]]);
        }
    }
}

/// A megabyte of arguments.
#[test]
fn a_megabyte_of_arguments_is_a_call() {
    for kind in &KINDS {
        let case = kind.case();
        let mut fake = case.fake.clone();
        let value = "a line of a file, with x < y in it. ".repeat((1 << 20) / 36);
        let output = kind.call.replace('#', &value);
        let ids = fake.pieces_cut(output.as_bytes(), |at| at % 5 == 0);
        let reply = case.run(&fake, &ids, None).reply;
        assert_eq!((reply.tool_calls.len(), reply.ill_formed), (1, false));
        let arguments: Value = serde_json::from_str(&reply.tool_calls[0].arguments).unwrap();
        assert_eq!(arguments, json!({ "a": value }));
    }
}
