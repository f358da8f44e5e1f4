//! Calls of qwen-code, as 0.24.4 makes them.

use super::*;

const INSTRUCTIONS: &str = "You are Qwen Code, a non-interactive CLI agent";
const SUBAGENT: &str = "You are a general-purpose subagent working for a parent agent.\n\n\
    Important Rules:\n - You operate in non-interactive mode: do not ask the user questions";
const SUMMARIZING: &str = "You are the component that summarizes a conversation when";
const TASK: &str = "<system-reminder>The date.</system-reminder>Fix it.\n\n";
const TOOLS: [&str; 3] = ["agent", "read_file", "run_shell_command"];

fn call(system: &str, user: &str, tools: &[&str]) -> Case {
    Case::new(&[(Role::System, system), (Role::User, user)])
        .header("user-agent", "QwenCode/0.24.4 (linux; x64)")
        .tools(tools)
}

fn check(calls: Vec<(Case, Scene, &str)>) {
    check_calls("qwen-code", calls);
}

#[test]
fn loops_of_qwen_code() {
    let fork = "<fork>You are a forked worker process. You are NOT the main agent.</fork>";
    check(vec![
        (call(INSTRUCTIONS, TASK, &TOOLS), Scene::Main, "qwen-code-main"),
        (call(SUBAGENT, TASK, &TOOLS), Scene::Subagent, "qwen-code-subagent"),
        (call(INSTRUCTIONS, fork, &TOOLS), Scene::Subagent, "qwen-code-fork"),
        (call(INSTRUCTIONS, TASK, &[]), Scene::Unknown, "none"),
        (call(INSTRUCTIONS, "[SUGGESTION MODE: what next]", &TOOLS), Scene::Unknown, "none"),
    ]);
}

#[test]
fn side_calls_of_qwen_code() {
    let in_place = format!("{SUMMARIZING} its context window is about to overflow.");
    let end = "First, reason in your <analysis> block.";
    let side = |system: &str| call(system, "x", &[]);
    check(vec![
        (call(SUMMARIZING, end, &[]), Scene::Compaction, "qwen-code-compaction"),
        (call(INSTRUCTIONS, &in_place, &TOOLS), Scene::Compaction, "qwen-code-compaction-in-place"),
        (side("Generate a concise, sentence-case title"), Scene::Title, "qwen-code-title"),
        (side("Extract and summarize the requested"), Scene::Summary, "qwen-code-summary"),
        (side("You are selecting memories that"), Scene::Memory, "qwen-code-memory"),
        (
            call("You are now acting as the managed memory extraction subagent", TASK, &TOOLS),
            Scene::Memory,
            "qwen-code-memory",
        ),
        (side("You are an independent Goal Verifier."), Scene::Review, "qwen-code-review"),
        (side("Rewrite this."), Scene::Unknown, "none"),
    ]);
}
