//! Calls of pi, as 1.6.0 makes them.

use super::*;

const INSTRUCTIONS: &str = "You are a coding assistant running inside pi, a coding agent harness.\n\n\
                            <cwd>\n/box/work\n</cwd>";
const TOOLS: [&str; 4] = ["read", "bash", "edit", "write"];

fn call(system: &str, user: &str, tools: &[&str]) -> Case {
    Case::new(&[(Role::System, system), (Role::User, user)])
        .header("user-agent", "pi/1.6.0 (linux; node/v24.21.0; x64)")
        .tools(tools)
}

#[test]
fn calls_of_pi() {
    let summarizing = "You are a context summarization assistant. Your task is to read";
    let own = "Answer in French.\n\n<cwd>\n/box/work\n</cwd>";
    let after = "The conversation history before this point was compacted into a summary";
    check_calls(
        "pi",
        vec![
            (call(INSTRUCTIONS, "Fix it.", &TOOLS), Scene::Main, "pi-main"),
            (call(INSTRUCTIONS, after, &TOOLS), Scene::Main, "pi-main"),
            (call(own, "Fix it.", &["bash"]), Scene::Main, "pi-main-own-instructions"),
            (
                call(summarizing, "# Conversation\n[User]: Fix it.", &[]),
                Scene::Compaction,
                "pi-compaction",
            ),
            (call(INSTRUCTIONS, "Fix it.", &[]), Scene::Unknown, "none"),
            (call("Answer in French.", "Fix it.", &["bash"]), Scene::Unknown, "none"),
        ],
    );
}
