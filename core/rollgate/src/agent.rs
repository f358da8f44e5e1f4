//! The agent that is built in: a small tool loop over OpenAI Chat, for tests and the demonstration.
//!
//! It has one tool, a shell in the current directory, and works until the model answers without
//! calling it. Base URL and key come from `OPENAI_BASE_URL` and `OPENAI_API_KEY`.

mod reply;
mod shell;
mod wire;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use reply::{Reply, ToolCall};
use wire::{Api, Endpoint};

/// Longest run of one command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Most bytes of a command's output that the model sees.
const COMMAND_OUTPUT_BYTES: usize = 16 << 10;

const SYSTEM: &str = "You solve a task on a computer. Call the tool `bash` to run shell commands; \
                      each runs in a new shell in the work directory. When the task is done, answer \
                      in words without calling a tool.";

/// Flags of the built-in agent.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct AgentArgs {
    /// File with the task in words; without it the task is read from stdin.
    #[arg(long, value_name = "FILE")]
    pub instruction_file: Option<PathBuf>,
    /// Model to ask for.
    #[arg(long)]
    pub model: String,
    /// Ask for streamed replies.
    #[arg(long)]
    pub stream: bool,
    /// Most calls to the model before giving up.
    #[arg(long, default_value_t = 30)]
    pub max_turns: u32,
    /// Milliseconds to wait before each call to the model.
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pub think_ms: u64,
    /// Do not send the model's reasoning back to it.
    #[arg(long)]
    pub drop_reasoning: bool,
}

/// Why the agent gives up.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A variable it needs is missing from the environment.
    #[error("{0} is not set; the agent reads its base URL and key from the environment")]
    Environment(&'static str),
    /// The task cannot be read.
    #[error("cannot read the instruction from {from}: {source}")]
    Instruction {
        /// File, or stdin.
        from: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The API refused, broke or answered nonsense, for good.
    #[error("{0}")]
    Api(String),
    /// No answer within the allowed turns.
    #[error("no answer after {0} turns (--max-turns)")]
    Turns(u32),
    /// A command or the answer cannot be handled by this machine.
    #[error("cannot {what}: {source}")]
    Machine {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
}

/// Works on the task and prints the final answer. Blocks; an error means exit code 1.
pub fn run(args: &AgentArgs) -> Result<(), AgentError> {
    let variable = |name| std::env::var(name).map_err(|_| AgentError::Environment(name));
    let endpoint =
        Endpoint { base_url: variable("OPENAI_BASE_URL")?, key: variable("OPENAI_API_KEY")? };
    let answer = solve(args, endpoint, &instruction(args)?)?;
    let written = writeln!(std::io::stdout(), "{answer}");
    written.map_err(|source| AgentError::Machine { what: "print the answer", source })
}

fn instruction(args: &AgentArgs) -> Result<String, AgentError> {
    let (from, read) = match &args.instruction_file {
        Some(path) => (path.display().to_string(), std::fs::read_to_string(path)),
        None => {
            let mut text = String::new();
            ("stdin".to_owned(), std::io::stdin().read_to_string(&mut text).map(|_| text))
        }
    };
    read.map_err(|source| AgentError::Instruction { from, source })
}

/// The loop: ask, run what is called for, send the results, until there is an answer.
fn solve(args: &AgentArgs, endpoint: Endpoint, task: &str) -> Result<String, AgentError> {
    let api = Api::new(endpoint);
    let mut messages = vec![
        json!({"role": "system", "content": SYSTEM}),
        json!({"role": "user", "content": task}),
    ];
    for _ in 0..args.max_turns {
        std::thread::sleep(Duration::from_millis(args.think_ms));
        let reply = api.ask(&request(args, &messages))?;
        messages.push(echo(&reply, args.drop_reasoning));
        if reply.tool_calls.is_empty() {
            return Ok(reply.content.unwrap_or_default());
        }
        for call in &reply.tool_calls {
            let content = answer_call(call)?;
            messages.push(json!({"role": "tool", "tool_call_id": call.id, "content": content}));
        }
    }
    Err(AgentError::Turns(args.max_turns))
}

fn request(args: &AgentArgs, messages: &[Value]) -> Value {
    let bash = json!({
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Runs a shell command and returns its exit code and output.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string", "description": "The command line."}},
                "required": ["command"],
            },
        },
    });
    let mut body = json!({"model": args.model, "messages": messages, "tools": [bash]});
    if args.stream {
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

/// The model's own turn, as it goes back to it.
fn echo(reply: &Reply, drop_reasoning: bool) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.content});
    if let Some(reasoning) = reply.reasoning.as_ref().filter(|_| !drop_reasoning) {
        message["reasoning_content"] = json!(reasoning);
    }
    if !reply.tool_calls.is_empty() {
        let calls = reply.tool_calls.iter().map(|call| {
            json!({
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            })
        });
        message["tool_calls"] = calls.collect();
    }
    message
}

/// What the model is told about its call. Its own mistakes are told, not raised.
fn answer_call(call: &ToolCall) -> Result<String, AgentError> {
    if call.name != "bash" {
        return Ok(format!("error: there is no tool `{}`; the only one is `bash`", call.name));
    }
    let arguments: Option<Value> = serde_json::from_str(&call.arguments).ok();
    match arguments.as_ref().and_then(|arguments| arguments.get("command")?.as_str()) {
        None => Ok("error: the arguments must be a JSON object with a string `command`".to_owned()),
        // The operating system cannot take it either.
        Some(command) if command.contains('\0') => {
            Ok("error: the command contains a zero byte".to_owned())
        }
        Some(command) => shell::run(command, COMMAND_TIMEOUT, COMMAND_OUTPUT_BYTES)
            .map_err(|source| AgentError::Machine { what: "run a command", source }),
    }
}

#[cfg(test)]
mod tests;
