//! Calls of opencode, as 1.18.33 makes them.

use super::*;

const INSTRUCTIONS: &str = "You are opencode, an interactive CLI tool";
const TOOLS: [&str; 4] = ["bash", "edit", "read", "task"];

fn call(system: &str, user: &str, tools: &[&str]) -> Case {
    Case::new(&[(Role::System, system), (Role::User, user)])
        .header("user-agent", "opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14")
        .header("x-session-id", "ses_dd6704b4affe7WhJztLB2WwjZR")
        .tools(tools)
}

fn child(case: Case) -> Case {
    case.header("x-parent-session-id", "ses_dd66f8009ffed8aRTos4dzuiKi")
}

#[test]
fn calls_of_opencode() {
    let title = "You are a title generator. You output ONLY a thread title.";
    let summarizing = "You are a context summarization agent. You are given";
    let done = "Summarize what was done in this conversation.";
    let transcript = "Here is the conversation so far:\n\n<conversation>";
    check_calls(
        "opencode",
        vec![
            (call(INSTRUCTIONS, "Fix it.", &TOOLS), Scene::Main, "opencode-main"),
            // Its subagents have the same instructions, or others.
            (child(call(INSTRUCTIONS, "Count.", &["bash"])), Scene::Subagent, "opencode-subagent"),
            (child(call("You search.", "Count.", &["grep"])), Scene::Subagent, "opencode-subagent"),
            (call(title, "Generate a title", &[]), Scene::Title, "opencode-title"),
            (call(summarizing, transcript, &[]), Scene::Compaction, "opencode-compaction"),
            (child(call(summarizing, transcript, &[])), Scene::Compaction, "opencode-compaction"),
            (call(done, transcript, &[]), Scene::Summary, "opencode-summary"),
            (call(INSTRUCTIONS, "Fix it.", &[]), Scene::Unknown, "none"),
        ],
    );
}
