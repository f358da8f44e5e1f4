//! Public parsers: first the thought is taken off, then the calls.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use reasoning_parser::{BaseReasoningParser, ParserConfig, ReasoningParser};
use rollgate_pipeline::render::Family;
use serde_json::{Value, json};
use tool_parser::ToolParser;

use super::{Reply, Row};

/// Names of the public parsers of a family: of calls, and of thoughts where they have one.
fn names(family: Family) -> Option<(&'static str, Option<&'static str>)> {
    match family {
        Family::Qwen3 => Some(("qwen", Some("qwen3"))),
        Family::Qwen3Coder => Some(("qwen_xml", Some("qwen3"))),
        // Their parser of R1 takes every text for a thought.
        Family::DeepSeekV3 => Some(("deepseek", Some("base"))),
        Family::DeepSeekV31 => Some(("deepseek31", Some("deepseek_v31"))),
        Family::Llama31 => Some(("llama", None)),
        Family::Glm45 => Some(("glm45_moe", Some("glm45"))),
        Family::KimiK2 => Some(("kimik2", Some("kimi_k25"))),
        // As with R1.
        Family::MiniMaxM2 => Some(("minimax_m2", Some("base"))),
        Family::Mistral => Some(("mistral", None)),
        Family::Harmony => None,
    }
}

/// The public parsers of a family.
pub struct Parsers {
    calls: Box<dyn ToolParser>,
    thoughts: Option<Box<dyn ReasoningParser>>,
}

impl Parsers {
    /// `None` where no public parser knows the family.
    pub fn of(family: Family) -> Option<Self> {
        let (calls, thoughts) = names(family)?;
        let registered = "a registered parser";
        let factory = tool_parser::ParserFactory::new();
        let calls = factory.registry().create_parser(calls).expect(registered);
        let factory = reasoning_parser::ParserFactory::new();
        let thoughts: Option<Box<dyn ReasoningParser>> = match thoughts {
            Some(name) => Some(factory.registry().create_parser(name).expect(registered)),
            None if family == Family::Mistral => Some(Box::new(bracketed())),
            None => None,
        };
        Some(Self { calls, thoughts })
    }

    pub fn parse(&mut self, row: &Row, tools: &[Value]) -> Reply {
        let (mut reasoning, mut rest) = (String::new(), row.output.clone());
        if let Some(parser) = &mut self.thoughts {
            parser.reset();
            if !row.prompt.is_empty() {
                parser.mark_reasoning_started();
                parser.mark_think_start_stripped();
            }
            let found = parser.detect_and_parse_reasoning(&rest).expect("a thought or none");
            (reasoning, rest) = (found.reasoning_text, found.normal_text);
        }
        let (content, calls) = calls_of(&*self.calls, &rest, tools);
        Reply::new(&reasoning, &content, calls)
    }
}

/// Their parser of thoughts with Mistral's markers.
fn bracketed() -> BaseReasoningParser {
    BaseReasoningParser::new(ParserConfig {
        think_start_token: "[THINK]".to_owned(),
        think_end_token: "[/THINK]".to_owned(),
        ..ParserConfig::default()
    })
}

fn calls_of(
    parser: &dyn ToolParser,
    text: &str,
    tools: &[Value],
) -> (String, Vec<(String, Value)>) {
    let tools = serde_json::from_value(json!(tools)).expect("tools in OpenAI's form");
    // Nothing in these parsers waits for anything.
    let parsed = match pin!(parser.parse_complete_with_tools(text, tools_of(&tools)))
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(parsed) => parsed,
        Poll::Pending => panic!("their parser waits"),
    };
    let (content, calls) = parsed.expect("their parser does not fail");
    let value = |json: &str| serde_json::from_str(json).expect("arguments are JSON");
    let calls =
        calls.iter().map(|c| (c.function.name.clone(), value(&c.function.arguments))).collect();
    (content, calls)
}

/// Lets the type of tools be inferred: its crate is not ours to name.
fn tools_of<T>(tools: &Vec<T>) -> &[T] {
    tools
}
