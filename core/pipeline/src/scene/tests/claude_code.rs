//! What Claude Code calls for, by the evidence it gives.

use super::*;

const SESSION: (&str, &str) = ("x-claude-code-session-id", "ad44f15a");
const MAIN_TOOLS: [&str; 5] = ["Agent", "Bash", "Edit", "Read", "Workflow"];
const REMINDED: &str = "<system-reminder>\nToday is a day.\n</system-reminder>\nCount the files.";
const SUMMARISE: &str = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n<summary> block";

fn case(headers: &[(&str, &str)], tools: &[&str], messages: &[(Role, &str)]) -> Case {
    let case = Case::new(messages).tools(tools).with(|case| case.dialect = Dialect::Messages);
    headers
        .iter()
        .fold(case.header(SESSION.0, SESSION.1), |case, (name, value)| case.header(name, value))
}

fn class(value: &str) -> (&str, &str) {
    ("x-claude-code-request-class", value)
}

fn check(cases: Vec<(Case, Scene, &str)>) {
    check_calls("claude-code", cases);
}

fn titled(case: &mut Case) {
    case.asked.format = Some(serde_json::json!({"type": "json_schema", "schema": {
        "type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}}));
}

#[test]
fn its_hints_decide() {
    let talk: &[(Role, &str)] = &[(Role::System, "You are Claude."), (Role::User, REMINDED)];
    let summed = &[talk, &[(Role::Tool, "x"), (Role::User, SUMMARISE)]].concat();
    let agent = ("x-claude-code-agent-id", "a04428da");
    let aux = class("auxiliary");
    check(vec![
        (case(&[class("main")], &MAIN_TOOLS, talk), Scene::Main, "claude-code-main"),
        (case(&[class("main")], &[], talk), Scene::Main, "claude-code-main"),
        (
            case(&[class("subagent"), agent], &["Bash"], talk),
            Scene::Subagent,
            "claude-code-subagent",
        ),
        (
            case(&[class("workflow"), agent], &["Bash"], talk),
            Scene::Subagent,
            "claude-code-subagent",
        ),
        (
            case(&[class("compaction")], &MAIN_TOOLS, summed),
            Scene::Compaction,
            "claude-code-compaction",
        ),
        (
            case(&[class("compaction"), agent], &["Bash"], summed),
            Scene::Compaction,
            "claude-code-compaction",
        ),
        (case(&[aux], &[], talk).with(titled), Scene::Title, "claude-code-title"),
        (
            case(&[aux, ("x-claude-code-auxiliary-type", "memory_save")], &MAIN_TOOLS, talk),
            Scene::Memory,
            "claude-code-memory",
        ),
        (
            case(&[aux], &[], &[(Role::User, "quota")])
                .with(|c| c.asked.sampling.max_tokens = Some(1)),
            Scene::Probe,
            "claude-code-probe",
        ),
        (
            case(&[aux], &[], &[(Role::User, "\nWeb page content:\n---\nhi")]),
            Scene::Summary,
            "claude-code-web-page",
        ),
        (
            case(&[aux], &[], &[(Role::User, "Perform a web search for the query: rust")]),
            Scene::Summary,
            "claude-code-web-search",
        ),
        // What nobody has seen yet is not swallowed.
        (case(&[aux], &MAIN_TOOLS, talk), Scene::Unknown, "none"),
        (case(&[class("side_reply")], &MAIN_TOOLS, talk), Scene::Unknown, "none"),
        (case(&[class("of tomorrow")], &MAIN_TOOLS, talk), Scene::Unknown, "none"),
    ]);
}

#[test]
fn without_hints_structure_and_markers_decide() {
    let talk: &[(Role, &str)] = &[(Role::System, "You are Claude."), (Role::User, REMINDED)];
    let summed = &[talk, &[(Role::Tool, "x"), (Role::User, SUMMARISE)]].concat();
    let manual = &[talk, &[(Role::User, "Sum up: <summary>")]].concat();
    let suggest = &[talk, &[(Role::User, "[SUGGESTION MODE: what comes next]")]].concat();
    let about = "Where is 'You are now acting as the memory extraction subagent' said?\n\
                 Respond with TEXT ONLY in a <summary>.";
    let quoted: &[(Role, &str)] =
        &[talk[0], (Role::User, about), (Role::Assistant, ""), (Role::Tool, "x")];
    let told = "You are now acting as the memory extraction subagent. Analyze the last messages.";
    let memory = &[talk, &[(Role::User, told)]].concat();
    let line = "x-anthropic-billing-header: cc_version=2.1.332.275; cc_is_subagent=true;";
    let beta = ("anthropic-beta", "claude-code-20250219,fallback-credit-2026-06-01");
    let agent = ("x-claude-code-agent-id", "a04428da");
    check(vec![
        (case(&[], &MAIN_TOOLS, talk), Scene::Main, "claude-code-main-shell"),
        (case(&[], &["Read"], talk), Scene::Main, "claude-code-main-files"),
        (case(&[agent], &MAIN_TOOLS, talk), Scene::Subagent, "claude-code-subagent-id"),
        (
            case(&[], &MAIN_TOOLS, &[(Role::System, line), (Role::User, REMINDED)]),
            Scene::Subagent,
            "claude-code-subagent-line",
        ),
        (case(&[], &MAIN_TOOLS, summed), Scene::Compaction, "claude-code-compaction-text"),
        (case(&[beta], &MAIN_TOOLS, manual), Scene::Compaction, "claude-code-compaction-beta"),
        (case(&[], &[], talk).with(titled), Scene::Title, "claude-code-title"),
        (case(&[], &MAIN_TOOLS, memory), Scene::Memory, "claude-code-memory-text"),
        // Quoted in a task, at its first call and while it is worked on.
        (case(&[], &MAIN_TOOLS, &quoted[..2]), Scene::Main, "claude-code-main-shell"),
        (case(&[], &MAIN_TOOLS, quoted), Scene::Main, "claude-code-main-shell"),
        (case(&[beta], &MAIN_TOOLS, &quoted[..2]), Scene::Main, "claude-code-main-shell"),
        (case(&[beta], &MAIN_TOOLS, quoted), Scene::Main, "claude-code-main-shell"),
        (case(&[], &MAIN_TOOLS, manual), Scene::Main, "claude-code-main-shell"),
        (case(&[], &MAIN_TOOLS, suggest), Scene::Unknown, "none"),
        (case(&[], &[], talk), Scene::Unknown, "none"),
    ]);
}
