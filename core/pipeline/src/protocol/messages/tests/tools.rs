//! Tools, choices and controls.

use serde_json::json;

use super::*;
use crate::turn::{ReplyForm, Sampling, ToolChoice};

#[test]
fn m05_tools_become_functions_in_order() {
    let body = concat!(
        r#"{"model":"m","messages":[{"role":"user","content":"x"}],"tools":["#,
        r#"{"name":"f","description":"d","strict":true,"type":"custom","#,
        r#""input_schema":{"type":"object","properties":{"z":{},"a":{},"m":{"maximum":36893488147419103232}}}},"#,
        r#"{"input_schema":{"type":"object"},"name":"a"},{"name":"bare"},"#,
        r#"{"type":"next_2027","name":"own","input_schema":{}}]}"#
    );
    let asked = Dialect::Messages.read(body.as_bytes(), &()).unwrap();
    let want = json!([
        {"type": "function", "function": {"name": "f", "description": "d", "parameters":
            {"type": "object", "properties": {"z": {}, "a": {}, "m":
                {"maximum": {crate::exact::INTEGER: "36893488147419103232"}}}}}},
        {"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "bare", "parameters":
            {"type": "object", "properties": {}}}},
        {"type": "function", "function": {"name": "own", "parameters": {}}},
    ]);
    assert_eq!(json!(asked.tools).to_string(), want.to_string());
}

#[test]
fn tools_of_anthropics_servers_are_counted() {
    let asked = read(&with(json!({"tools": [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        {"name": "f", "input_schema": {}},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "mcp_toolset", "mcp_server_name": "s"},
    ]})));
    assert_eq!(asked.tools.len(), 1);
    let want = json!({"bash_20250124": 1, "mcp_toolset": 1, "web_search_20250305": 1});
    assert_eq!(json!(asked.skipped), want);
}

#[test]
fn a10_a11_choices_are_read() {
    let cases = [
        (json!(null), ToolChoice::Auto, None),
        (json!({"type": "auto"}), ToolChoice::Auto, None),
        (json!({"type": "auto", "disable_parallel_tool_use": true}), ToolChoice::Auto, Some(false)),
        (json!({"type": "auto", "disable_parallel_tool_use": false}), ToolChoice::Auto, Some(true)),
        (json!({"type": "any"}), ToolChoice::Required, None),
        (
            json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true}),
            ToolChoice::Named("f".to_owned()),
            Some(false),
        ),
        (json!({"type": "none", "disable_parallel_tool_use": true}), ToolChoice::Auto, None),
    ];
    for (choice, want, parallel) in cases {
        let none = choice["type"] == "none";
        let asked = read(&with(json!({"tools": [{"name": "f"}], "tool_choice": choice})));
        let got = (asked.tool_choice, asked.parallel_tool_calls, asked.tools.is_empty());
        let want = if none { ToolChoice::None } else { want };
        assert_eq!(got, (want, parallel, none), "{choice}");
    }
    let cases = [
        (json!({"type": "secret"}), "tool_choice.type"),
        (json!({}), "tool_choice.type"),
        (json!({"type": "tool"}), "tool_choice.name"),
        (json!({"type": "tool", "name": "secret"}), "tool_choice.name"),
        (json!("secret"), "tool_choice"),
        (json!({"type": 5}), "tool_choice"),
    ];
    for (choice, param) in cases {
        check_bad(&with(json!({"tools": [{"name": "f"}], "tool_choice": choice})), param);
    }
}

#[test]
fn a12_without_tools_there_is_no_choice() {
    let title = json!([{"role": "user", "content": "title?"}]);
    for choice in
        [json!({"type": "auto", "disable_parallel_tool_use": true}), json!({"type": "any"})]
    {
        let asked = read(&json!({"model": "m", "tools": [], "tool_choice": choice,
            "messages": title, "max_tokens": 32}));
        let plain = read(&json!({"model": "m", "messages": title, "max_tokens": 32}));
        assert_eq!(asked, plain);
    }
}

#[test]
fn tools_that_cannot_be_are_refused() {
    let cases = [
        (json!([{}]), "tools[0].name"),
        (json!([{"name": "f"}, {"name": ""}]), "tools[1].name"),
        (json!([{"name": "f", "input_schema": "secret"}]), "tools[0].input_schema"),
        (json!(["secret"]), "tools[0]"),
        (json!({}), "tools"),
    ];
    for (tools, param) in cases {
        check_bad(&with(json!({"tools": tools})), param);
    }
}

#[test]
fn deferred_tools_are_told_where_a_result_refers_to_them() {
    let deferred = r#"{"name":"late","description":"d","defer_loading":true,"input_schema":{"z":1.0,"a":[ ]}}"#;
    let body = |late: &str, results: &str| {
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"tool_result",
            "tool_use_id":"t","content":{results}}}]}}],"tools":[{{"name":"f"}}{late}]}}"#
        );
        Dialect::Messages.read(body.as_bytes(), &()).unwrap()
    };
    let plain = body("", "[]");
    let late = format!(",{deferred}");
    let hidden = body(&late, "[]");
    assert_eq!(hidden, plain, "a deferred tool is not shown");
    let reference = r#"{"type":"tool_reference","tool_name":"late"}"#;
    let loaded = body(&late, &format!("[{reference}]"));
    assert_eq!(loaded.tools, plain.tools, "and never stands in the list");
    let function = json!({"name": "late", "description": "d", "parameters": {"z": 1.0, "a": []}});
    assert_eq!(*loaded.loaded_tools, [json!({"type": "function", "function": function})]);
    let told = "Tool loaded: {\"name\":\"late\",\"description\":\"d\",\"parameters\":{\"z\":1.0,\"a\":[ ]}}\n";
    assert_eq!(loaded.messages[0].content, told);
    let twice = format!(r#"[{{"type":"text","text":"x"}},{reference},{reference}]"#);
    assert_eq!(body(&late, &twice).messages[0].content, format!("x\n{told}{told}"));
    let known = r#"[{"type":"tool_reference","tool_name":"f"}]"#;
    assert_eq!(body(&late, known).messages[0].content, "Tool: f\n");
}

#[test]
fn a23_every_control_is_read() {
    let asked = read(&with(json!({
        "max_tokens": 7.0, "temperature": 0.3, "top_p": 0.9, "top_k": 5,
        "stop_sequences": ["STOP", "", "x"], "stream": true, "service_tier": "auto",
    })));
    let want = Sampling {
        max_tokens: Some(7),
        temperature: Some(0.3),
        top_p: Some(0.9),
        top_k: Some(5),
        stop: vec!["STOP".to_owned(), "x".to_owned()],
        ..Sampling::default()
    };
    assert_eq!(asked.sampling, want);
    assert!(matches!(asked.form, ReplyForm::Events { .. }));
    let switched = read(&with(json!({"chat_template_kwargs": {"enable_thinking": false}})));
    assert_eq!(switched.template_kwargs["enable_thinking"], false);
    assert_eq!(read(&with(json!({"max_tokens": 1e12}))).sampling.max_tokens, Some(u32::MAX));
    let cases = [
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": 1.5}), "max_tokens"),
        (json!({"temperature": -0.1}), "temperature"),
        (json!({"temperature": "secret"}), "temperature"),
        (json!({"top_p": 0}), "top_p"),
        (json!({"top_p": 1.1}), "top_p"),
        (json!({"top_k": -2}), "top_k"),
        (json!({"stop_sequences": "secret"}), "stop_sequences"),
        (json!({"stop_sequences": [5]}), "stop_sequences[0]"),
    ];
    for (more, param) in cases {
        check_bad(&with(more), param);
    }
}

#[test]
fn the_asked_for_form_is_kept_and_the_rest_is_not_looked_at() {
    let format = json!({"type": "json_schema", "schema": {"type": "object"}});
    let asked = read(&with(json!({"output_config": {"effort": "high", "format": format}})));
    assert_eq!(asked.format, Some(format.clone()));
    assert_eq!(read(&with(json!({"output_format": format}))).format, Some(format));
    let plain = read(&with(json!({})));
    let more = json!({
        "thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "low"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": "{}"}, "container": "c", "mcp_servers": [], "betas": ["x"],
    });
    assert_eq!(read(&with(more)), plain);
    assert_eq!(read(&with(json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}))), plain);
}
