//! What Codex calls for, by the evidence it gives.

use super::*;

const TOOLS: [&str; 3] = ["exec_command", "write_stdin", "multi_agent_v1__spawn_agent"];
const TURN: &str = r#"{"agent_name":"/root","request_kind":"turn","thread_source":"user"}"#;
const SPAWNED: &str =
    r#"{"request_kind":"turn","subagent_kind":"thread_spawn","thread_source":"subagent"}"#;
const COMPACTS: &str = r#"{"request_kind":"compaction","thread_source":"user"}"#;
const CHECKPOINT: &str = "You are performing a CONTEXT CHECKPOINT COMPACTION.";

fn case(headers: &[(&str, &str)], tools: &[&str], last: &str) -> Case {
    let messages = [(Role::Developer, "You are a coding agent."), (Role::User, last)];
    let case = Case::new(&messages).tools(tools).with(|case| case.dialect = Dialect::Responses);
    let case = case.header("originator", "codex_exec");
    headers.iter().fold(case, |case, (name, value)| case.header(name, value))
}

#[test]
fn its_headers_decide_and_structure_where_there_are_none() {
    let told = |value| ("x-codex-turn-metadata", value);
    let part = |value| ("x-openai-subagent", value);
    let item = |case: &mut Case| case.asked.purpose = crate::turn::Purpose::Compaction;
    let spaced = r#"{ "thread_source" : "user", "request_kind" : "turn" }"#;
    let prewarm = r#"{"request_kind":"prewarm","thread_source":"user"}"#;
    let cases = vec![
        (case(&[told(TURN)], &TOOLS, "q"), Scene::Main, "codex-main"),
        (case(&[told(spaced)], &[], "q"), Scene::Main, "codex-main"),
        (
            case(&[told(SPAWNED), part("collab_spawn")], &TOOLS, "q"),
            Scene::Subagent,
            "codex-subagent",
        ),
        (case(&[told(SPAWNED)], &TOOLS, "q"), Scene::Subagent, "codex-subagent-metadata"),
        (case(&[told(COMPACTS)], &[], CHECKPOINT), Scene::Compaction, "codex-compaction"),
        (
            case(&[told(COMPACTS), part("collab_spawn")], &[], CHECKPOINT),
            Scene::Compaction,
            "codex-compaction",
        ),
        (case(&[], &TOOLS, "q").with(item), Scene::Compaction, "codex-compaction-item"),
        (case(&[part("compact")], &[], "q"), Scene::Compaction, "codex-compaction-agent"),
        (case(&[part("memory_consolidation")], &TOOLS, "q"), Scene::Memory, "codex-memory"),
        (
            case(&[("x-openai-memgen-request", "true")], &[], "q"),
            Scene::Memory,
            "codex-memory-request",
        ),
        (case(&[told(TURN), part("review")], &TOOLS, "q"), Scene::Review, "codex-review"),
        (case(&[told(prewarm)], &TOOLS, ""), Scene::Probe, "codex-prewarm"),
        (case(&[], &TOOLS, "q"), Scene::Main, "codex-main-shell"),
        (case(&[], &["shell"], "q"), Scene::Main, "codex-main-old-shell"),
        (case(&[], &[], CHECKPOINT), Scene::Compaction, "codex-compaction-text"),
        // What nobody has seen yet is not swallowed.
        (case(&[told(TURN), part("guardian")], &TOOLS, "q"), Scene::Unknown, "none"),
        (case(&[told(r#"{"request_kind":"other"}"#)], &TOOLS, "q"), Scene::Unknown, "none"),
        (case(&[], &[], "q"), Scene::Unknown, "none"),
    ];
    check_calls("codex", cases);
}
