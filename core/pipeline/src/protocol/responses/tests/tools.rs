//! Tools under flat names and back.

use serde_json::{Value, json};

use super::{X, call, meta, output_of, read, reply, try_read, user, wire};
use crate::protocol::ReplyMeta;
use crate::turn::{Asked, Finish, ToolChoice, WireForm};

fn with_tools(tools: Value) -> Asked {
    read(&json!({"model": "m", "input": "hi", "tools": tools}))
}

fn names(asked: &Asked) -> Vec<&str> {
    asked.tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

/// A reply with this call as the agent gets it.
fn sent(asked: &Asked, name: &str, arguments: &str) -> Value {
    let meta = ReplyMeta { wire_tools: asked.wire_tools.clone(), ..meta(Finish::Stop) };
    output_of(&reply(None, "", &[call("c", name, arguments)]), &meta).remove(0)
}

#[test]
fn functions_have_the_canonical_form() {
    let asked = with_tools(json!([
        {"type": "function", "name": "f", "description": "d", "strict": false,
         "parameters": {"type": "object", "z": 18446744073709551616_u128 as f64, "a": null}},
        {"type": "function", "function": {"name": "g", "parameters": {}}},
        {"type": "function", "name": "f"},
    ]));
    assert_eq!(names(&asked), ["f", "g"]);
    assert!(asked.wire_tools.is_empty());
    let text = asked.tools[0].to_string();
    assert!(text.starts_with(r#"{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","z":"#), "{text}");
}

#[test]
fn b07_namespaces_are_flattened_and_restored() {
    let tools = json!([
        {"type": "namespace", "name": "fs", "tools": [
            {"type": "function", "name": "read",
             "parameters": {"type": "object", "properties": {"p": {"type": "string"}}}}]},
        {"type": "function", "name": "read", "parameters": {"type": "object"}},
    ]);
    let asked = with_tools(tools.clone());
    assert_eq!(names(&asked), ["fs__read", "read"]);
    assert_eq!(
        asked.wire_tools,
        [("fs__read".to_owned(), wire(Some("fs"), "read", WireForm::Function))].into()
    );
    let item = sent(&asked, "fs__read", r#"{"p": "x"}"#);
    assert_eq!((&item["namespace"], &item["name"]), (&json!("fs"), &json!("read")));
    assert_eq!((&item["call_id"], &item["arguments"]), (&json!("c"), &json!(r#"{"p": "x"}"#)));
    assert_eq!(sent(&asked, "read", "{}")["namespace"], Value::Null);
    let again = read(&json!({"model": "m", "input": [user("q"), item], "tools": tools}));
    assert_eq!(again.messages[1].tool_calls, [call("c", "fs__read", r#"{"p": "x"}"#)]);
    // Without the tools, as when a conversation is summed up, the name is the same.
    let bare = read(&json!({"model": "m", "input": [user("q"), item]}));
    assert_eq!(bare.messages, again.messages);
}

#[test]
fn b07_flat_names_are_distinct() {
    let nested = |name: &str| json!({"type": "function", "name": name});
    let asked = with_tools(json!([
        {"type": "namespace", "name": "a", "description": "About a.", "tools": [
            {"type": "function", "name": "b", "description": "B."}, nested("c")]},
        {"type": "namespace", "name": "mcp__x__", "tools": [nested("t")]},
        nested("a__b"),
    ]));
    assert_eq!(names(&asked), ["a__b_2", "a__c", "mcp__x__t", "a__b"]);
    assert_eq!(asked.tools[0]["function"]["description"], "About a.\n\nB.");
    let item = sent(&asked, "a__b_2", "{}");
    assert_eq!((&item["namespace"], &item["name"]), (&json!("a"), &json!("b")));
}

#[test]
fn b07_a_function_and_a_custom_tool_of_one_name_are_both_there() {
    let function = json!({"type": "function", "name": "x", "description": "F."});
    let custom = json!({"type": "custom", "name": "x", "description": "C."});
    let nested = json!({"type": "namespace", "name": "n", "tools": [function, custom]});
    for (tools, want) in [
        (json!([custom, function]), ["x_2", "x"]),
        (json!([function, custom]), ["x", "x_2"]),
        (json!([nested]), ["n__x", "n__x_2"]),
    ] {
        let asked = with_tools(tools.clone());
        assert_eq!(names(&asked), want);
        assert!(asked.skipped.is_empty());
        let custom = if want[0] == "x_2" { want[0] } else { want[1] };
        let about = asked.tools.iter().find(|tool| tool["function"]["name"] == custom).unwrap();
        assert_eq!(about["function"]["description"], "C.");
        // Each goes out in its own form and comes back as itself.
        for (name, kind) in want
            .map(|name| (name, if name == custom { "custom_tool_call" } else { "function_call" }))
        {
            let item = sent(&asked, name, r#"{"input":"i"}"#);
            assert_eq!((&item["type"], &item["name"]), (&json!(kind), &json!("x")));
            let again = read(&json!({"model": "m", "input": [user("q"), item], "tools": tools}));
            assert_eq!(again.messages[1].tool_calls, [call("c", name, r#"{"input":"i"}"#)]);
        }
    }
    let tools = json!([{"type": "custom", "name": "x"}, {"type": "function", "name": "x"}]);
    for (kind, want) in [("function", "x"), ("custom", "x_2")] {
        let asked = read(&json!({"model": "m", "input": "hi", "tools": tools,
            "tool_choice": {"type": kind, "name": "x"}}));
        assert_eq!(asked.tool_choice, ToolChoice::Named(want.to_owned()));
    }
    // A function that has a special tool's name takes nothing from it.
    let search = json!({"type": "tool_search", "execution": "client"});
    let asked = with_tools(json!([{"type": "function", "name": "tool_search"}, search]));
    assert_eq!(names(&asked), ["tool_search", "tool_search_2"]);
    assert_eq!(sent(&asked, "tool_search_2", "{}")["type"], "tool_search_call");
    assert_eq!(sent(&asked, "tool_search", "{}")["type"], "function_call");
}

#[test]
fn b07_what_a_namespace_is_about_stands_at_its_first_tool_that_is_shown() {
    let search = json!({"type": "tool_search", "execution": "client"});
    for nested in [
        json!([{"type": "web_search"}, {"type": "function", "name": "f", "description": "F."}]),
        json!([{"type": "function", "function": {"name": "f", "description": "F."}}]),
        json!([{"type": "function", "name": "g", "defer_loading": true},
            {"type": "function", "name": "f", "description": "F."}, {"type": "custom", "name": "h"}]),
    ] {
        let namespace = json!({"type": "namespace", "name": "n", "description": "About.",
            "tools": nested});
        let asked = with_tools(json!([namespace, search]));
        let function = &asked.tools[0]["function"];
        assert_eq!(
            (&function["name"], &function["description"]),
            (&json!("n__f"), &json!("About.\n\nF."))
        );
        let all = serde_json::to_string(&asked.tools).unwrap();
        assert_eq!(all.matches("About.").count(), 1, "{all}");
    }
}

#[test]
fn b08_custom_tools_go_round() {
    let tools = json!([{"type": "custom", "name": "apply_patch", "description": "Patches.",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}}]);
    let asked = with_tools(tools.clone());
    let want = json!([{"type": "function", "function": {
        "name": "apply_patch",
        "description": "Patches.\n\nThe input must fit this lark grammar:\nstart: X",
        "parameters": {"type": "object",
            "properties": {"input": {"type": "string",
                "description": "The input, free text that fits the grammar"}},
            "required": ["input"]}}}]);
    assert_eq!(Value::from(asked.tools.to_vec()), want);
    let patch = "*** Begin Patch\n*** End Patch\n";
    let arguments = r#"{"input":"*** Begin Patch\n*** End Patch\n"}"#;
    let item = sent(&asked, "apply_patch", arguments);
    let want = json!({"type": "custom_tool_call", "id": format!("ctc_{X}_0"), "call_id": "c",
        "name": "apply_patch", "input": patch, "status": "completed"});
    assert_eq!(item, want);
    let input = json!([user("q"), item,
        {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"}]);
    let again = read(&json!({"model": "m", "input": input, "tools": tools}));
    assert_eq!(again.messages[1].tool_calls, [call("c", "apply_patch", arguments)]);
    assert_eq!(
        (again.messages[2].content.as_str(), again.messages[2].tool_call_id.as_deref()),
        ("ok", Some("c"))
    );
}

#[test]
fn b09_a_forced_tool_has_its_flat_name() {
    let body = |choice: Value| {
        json!({"model": "m", "input": "hi", "tool_choice": choice, "tools": [
            {"type": "namespace", "name": "terminal", "tools": [{"type": "custom", "name": "exec"}]},
            {"type": "function", "name": "f"}, {"type": "web_search"}]})
    };
    let named = |name: &str| ToolChoice::Named(name.to_owned());
    let cases = [
        (
            json!({"type": "custom", "namespace": "terminal", "name": "exec"}),
            named("terminal__exec"),
        ),
        (json!({"type": "function", "name": "f"}), named("f")),
        (json!("auto"), ToolChoice::Auto),
        (json!("required"), ToolChoice::Required),
        (json!({"type": "allowed_tools", "mode": "required", "tools": []}), ToolChoice::Required),
    ];
    for (choice, want) in cases {
        let asked = read(&body(choice));
        assert_eq!(asked.tool_choice, want);
        assert_eq!(names(&asked), ["terminal__exec", "f"]);
    }
    let none = read(&body(json!("none")));
    assert_eq!((none.tool_choice, none.tools.len()), (ToolChoice::None, 0));
    for choice in [
        json!({"type": "custom", "name": "exec"}),
        json!({"type": "function", "name": "g"}),
        json!({"type": "web_search"}),
        json!("any"),
        json!(7),
    ] {
        let fault = try_read(&body(choice), &()).unwrap_err();
        assert_eq!((fault.kind.status(), fault.param.as_deref()), (400, Some("tool_choice")));
    }
}

#[test]
fn b10_hosted_tools_are_left_out_and_counted() {
    let asked = with_tools(json!([
        {"type": "web_search"},
        {"type": "function", "name": "f", "parameters": {"type": "object"}},
        {"type": "custom", "name": "p"},
        {"type": "mcp", "server_label": "s"},
    ]));
    assert_eq!(names(&asked), ["f", "p"]);
    assert_eq!(asked.skipped, [("mcp".to_owned(), 1), ("web_search".to_owned(), 1)].into());
    for (tools, param) in [
        (json!([{"type": "function"}]), "tools[0].name"),
        (
            json!([{"type": "namespace", "name": "n", "tools": [{"type": "custom"}]}]),
            "tools[0].tools[0].name",
        ),
        (json!([{"type": "namespace"}]), "tools[0].name"),
        (json!([{"name": "f"}]), "tools[0].type"),
    ] {
        let fault =
            try_read(&json!({"model": "m", "input": "hi", "tools": tools}), &()).unwrap_err();
        assert_eq!((fault.kind.status(), fault.param.as_deref()), (400, Some(param)));
    }
}

#[test]
fn tools_of_the_input_are_tools() {
    let asked = read(&json!({"model": "m", "input": [
        {"type": "additional_tools", "role": "developer", "tools": [
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
            {"type": "custom", "name": "exec"}]},
        user("q"),
    ]}));
    assert_eq!(names(&asked), ["n__f", "exec"]);
    assert_eq!(asked.messages.len(), 1);
}

#[test]
fn a_search_shows_what_it_finds_in_its_result() {
    let deferred = json!({"type": "function", "name": "hidden", "defer_loading": true});
    let search = json!({"type": "tool_search", "execution": "client", "description": "Finds.",
        "parameters": {"type": "object"}});
    let asked = with_tools(json!([deferred, search]));
    assert_eq!(names(&asked), ["tool_search"]);
    let item = sent(&asked, "tool_search", r#"{"query": "x"}"#);
    assert_eq!(
        (&item["type"], &item["arguments"]),
        (&json!("tool_search_call"), &json!({"query": "x"}))
    );
    let found = json!([{"type": "namespace", "name": "n", "tools": [
        {"type": "function", "name": "f", "description": "F.", "parameters": {}}]}]);
    let input = json!([user("q"), item, {"type": "tool_search_output", "call_id": "c",
        "execution": "client", "status": "completed", "tools": found}]);
    let asked = read(&json!({"model": "m", "input": input, "tools": [deferred, search]}));
    assert_eq!(names(&asked), ["tool_search"], "the prompt's beginning stays as it was");
    assert_eq!(asked.messages[1].tool_calls, [call("c", "tool_search", r#"{"query":"x"}"#)]);
    let want =
        r#"[{"type":"function","function":{"name":"n__f","description":"F.","parameters":{}}}]"#;
    assert_eq!(asked.messages[2].content, want);
    assert_eq!(Value::from(asked.loaded_tools.to_vec()).to_string(), want);
    assert_eq!(sent(&asked, "n__f", "{}")["namespace"], "n");
    // A search that the provider runs is none here, so nothing may hide behind it.
    let asked = with_tools(json!([deferred, {"type": "tool_search"}]));
    assert_eq!(names(&asked), ["hidden"]);
    assert_eq!(asked.skipped, [("tool_search".to_owned(), 1)].into());
}
