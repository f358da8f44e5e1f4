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

fn thoughts(family: Family, name: Option<&str>) -> Option<Box<dyn ReasoningParser>> {
    if family == Family::Mistral {
        let config = ParserConfig {
            think_start_token: "[THINK]".to_owned(),
            think_end_token: "[/THINK]".to_owned(),
            ..ParserConfig::default()
        };
        return Some(Box::new(BaseReasoningParser::new(config)));
    }
    let factory = reasoning_parser::ParserFactory::new();
    name.map(|name| factory.registry().create_parser(name).expect("a registered parser"))
}

/// `None` where no public parser knows the family.
pub fn parse(family: Family, row: &Row, tools: &[Value]) -> Option<Reply> {
    let (calls, thought) = names(family)?;
    let (mut reasoning, mut rest) = (String::new(), row.output.clone());
    if let Some(mut parser) = thoughts(family, thought) {
        if !row.prompt.is_empty() {
            parser.mark_reasoning_started();
            parser.mark_think_start_stripped();
        }
        let found = parser.detect_and_parse_reasoning(&rest).expect("their parser does not fail");
        (reasoning, rest) = (found.reasoning_text, found.normal_text);
    }
    let factory = tool_parser::ParserFactory::new();
    let parser = factory.registry().create_parser(calls).expect("a registered parser");
    let (content, calls) = calls_of(&*parser, &rest, tools);
    Some(Reply::new(&reasoning, &content, calls))
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
