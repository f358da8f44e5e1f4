//! What Hermes calls for, by the evidence it gives.

use super::*;

const SOUL: &str = "You are Hermes Agent.\n\nConversation started: Sunday, November 29, 2026\n\
                    Model: m\nProvider: custom";
const CHILD: &str = "You are Hermes Agent.\n\nConversation started: Sunday, November 29, 2026\n\
                     Model: m\nProvider: custom\n\nYou are a focused subagent working on a task.\n";
const TOOLS: [&str; 3] = ["delegate_task", "memory", "terminal"];
const REVIEW: &str = "Review the conversation above and update the skill library. Be ACTIVE.\n\n\
                      You can only call memory and skill management tools. Others are denied.";
const LIMIT: &str = "You've reached the maximum number of tool-calling iterations allowed.";

#[track_caller]
fn check(tools: &[&str], messages: &[(Role, &str)], scene: Scene, rule: &str) {
    check_calls("hermes", vec![(Case::new(messages).tools(tools), scene, rule)]);
}

#[test]
fn its_texts_and_tools_decide() {
    let task = [(Role::System, SOUL), (Role::User, "Count the files.")];
    let worked = [&task[..], &[(Role::Assistant, ""), (Role::Tool, "3")]].concat();
    let done = [&worked[..], &[(Role::Assistant, "Three.")]].concat();
    let then = |text| [&done[..], &[(Role::User, text)]].concat();
    let child = [(Role::System, CHILD), (Role::User, "Count the folders.")];
    for (tools, messages, scene, rule) in [
        (&TOOLS[..], &task[..], Scene::Main, "hermes-main"),
        (&TOOLS, &worked, Scene::Main, "hermes-main"),
        (&TOOLS, &then("And the folders?"), Scene::Main, "hermes-main"),
        (&TOOLS, &then("Review the conversation above and go on."), Scene::Main, "hermes-main"),
        (&[], &then(LIMIT), Scene::Main, "hermes-out-of-iterations"),
        (&["terminal"], &child, Scene::Subagent, "hermes-subagent"),
        (&TOOLS, &then(REVIEW), Scene::Review, "hermes-review"),
        // What the review does about it.
        (
            &TOOLS,
            &[&then(REVIEW)[..], &[(Role::Assistant, ""), (Role::Tool, "[]")]].concat(),
            Scene::Review,
            "hermes-review",
        ),
        (
            &TOOLS,
            &[
                (Role::System, SOUL),
                (Role::User, "You are running as Hermes' background skill CURATOR."),
            ],
            Scene::Review,
            "hermes-curator",
        ),
        (
            &[],
            &[
                (Role::System, "You are a strict judge evaluating whether an autonomous agent has"),
                (Role::User, "Goal: …"),
            ],
            Scene::Review,
            "hermes-goal-judge",
        ),
        (
            &[],
            &[(Role::User, "You are a summarization agent creating a context checkpoint. …")],
            Scene::Compaction,
            "hermes-compaction",
        ),
        (
            &[],
            &[
                (Role::System, "Generate a short, descriptive title (3-7 words) for"),
                (Role::User, "User: Count the files."),
            ],
            Scene::Title,
            "hermes-title",
        ),
        // A kind of call that nobody has seen yet.
        (&[], &[(Role::System, "You judge commands."), (Role::User, "rm")], Scene::Unknown, "none"),
        (&[], &done, Scene::Unknown, "none"),
    ] {
        check(tools, messages, scene, rule);
    }
}

#[test]
fn a_session_that_names_no_agent_is_known_by_its_instructions() {
    let set = SceneSet::for_session(None, &[], &[]).unwrap();
    let case = |messages: &[(Role, &str)]| Case::new(messages).tools(&TOOLS);
    let messages = [(Role::System, CHILD), (Role::User, "Count the folders.")];
    assert_eq!(case(&messages).verdict(&set).1, "hermes-subagent");
    let messages = [(Role::System, "You are Forge."), (Role::User, REVIEW)];
    assert_eq!(case(&messages).verdict(&set), (Scene::Main, "default-main".to_owned()));
}
