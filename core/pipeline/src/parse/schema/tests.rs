use serde_json::json;

use super::*;

/// The value of a parameter with this schema.
fn typed(schema: &Value, text: &str) -> String {
    let tools = [json!({"type": "function", "function": {"name": "f", "parameters": {
        "type": "object",
        "properties": {"p": schema},
        "$defs": {
            "place": {"type": "object", "properties": {"city": {"type": "string"}}},
            "ring": {"anyOf": [{"$ref": "#/$defs/ring"}, {"type": "integer"}]},
        },
    }}})];
    match Parameters::of(&tools, "f").typed("p", text) {
        Typed::Fit(value) => value,
        Typed::Unfit(value) => format!("unfit {value}"),
        Typed::Absent => "absent".to_owned(),
    }
}

#[test]
fn f03_f05_one_type() {
    let check = |kind: &str, text: &str, value: &str| {
        assert_eq!(typed(&json!({"type": kind}), text), value, "{kind} {text:?}");
    };
    check("string", "02134", r#""02134""#);
    check("string", "true", r#""true""#);
    check("string", "{\"a\":1}", r#""{\"a\":1}""#);
    check("string", " x\n", r#"" x\n""#);
    check("string", "", r#""""#);
    check("integer", "5", "5");
    check("integer", "-5", "-5");
    check("integer", "5.0", "5");
    check("integer", " 5 ", "5");
    check("integer", "123456789012345678901234567890", "123456789012345678901234567890");
    check("integer", "5.5", r#"unfit "5.5""#);
    check("integer", "05", r#"unfit "05""#);
    check("integer", "next Tuesday", r#"unfit "next Tuesday""#);
    check("integer", "", "absent");
    check("number", "5.0", "5.0");
    check("number", "1e3", "1e3");
    check("number", "7", "7");
    check("number", "NaN", r#"unfit "NaN""#);
    check("number", "1e999", r#"unfit "1e999""#);
    check("boolean", "true", "true");
    check("boolean", "True", "true");
    check("boolean", "FALSE", "false");
    check("boolean", "1", r#"unfit "1""#);
    check("boolean", "\n", "absent");
    check("array", "[1, 2]", "[1, 2]");
    check("array", "[1, 2", r#"unfit "[1, 2""#);
    check("array", "{}", r#"unfit "{}""#);
    check("object", "\n{\"b\": 1, \"a\": 2}\n", "{\"b\": 1, \"a\": 2}");
    check("object", "{'a': 1}", r#"unfit "{'a': 1}""#);
    check("null", "null", "null");
    check("null", "None", "null");
    check("of my own", "7", "7");
}

#[test]
fn f04_schemas_without_one_type() {
    let check = |schema: Value, text: &str, value: &str| {
        assert_eq!(typed(&schema, text), value, "{schema} {text:?}");
    };
    let object_or_null = json!({"anyOf": [{"type": "object"}, {"type": "null"}]});
    check(object_or_null.clone(), "{\"city\":\"Paris\"}", "{\"city\":\"Paris\"}");
    check(object_or_null.clone(), "None", "null");
    check(object_or_null, "Paris", "unfit \"Paris\"");
    // Our choice: with strings allowed, the JSON of another kind is that kind.
    let either = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
    check(either.clone(), "7", "7");
    check(either.clone(), "07", "\"07\"");
    check(either.clone(), "7.0", "\"7.0\"");
    check(either, "", "\"\"");
    check(json!({"type": ["string", "null"]}), "null", "null");
    check(json!({"type": ["string", "null"]}), "None", "\"None\"");
    check(json!({"type": "integer", "nullable": true}), "null", "null");
    check(json!({"oneOf": [{"type": "boolean"}, {"type": "array"}]}), "True", "true");
    check(json!({"$ref": "#/$defs/place"}), "{\"city\":\"Rome\"}", "{\"city\":\"Rome\"}");
    check(json!({"$ref": "#/$defs/nowhere"}), "7", "7");
    check(json!({"$ref": "elsewhere.json"}), "x", "\"x\"");
    check(json!({"$ref": "#/$defs/ring"}), "7", "7");
    check(json!({"allOf": [{"type": ["number", "string"]}, {"type": "integer"}]}), "7.0", "7");
    check(json!({"allOf": [{"type": "string"}, {"type": "integer"}]}), "x", "\"x\"");
    check(json!({"enum": ["1", "2"]}), "1", "\"1\"");
    check(json!({"enum": [1, 2]}), "1", "1");
    check(json!({"const": true}), "True", "true");
    check(json!({"properties": {"a": {}}}), "{\"a\":1}", "{\"a\":1}");
    check(json!({"items": {}}), "[]", "[]");
    for (text, value) in [
        ("7", "7"),
        ("null", "null"),
        ("[1]", "[1]"),
        ("{\"a\":1}", "{\"a\":1}"),
        ("[1", "\"[1\""),
        ("hello", "\"hello\""),
        ("", "\"\""),
    ] {
        check(json!({}), text, value);
        check(json!(true), text, value);
        check(json!({"description": "anything"}), text, value);
    }
}

#[test]
fn what_is_not_listed_is_raw_text() {
    let tool = |parameters: Value| [json!({"name": "f", "input_schema": parameters})];
    let typed = |tools: &[Value], name: &str| Parameters::of(tools, name).typed("p", "7");
    let raw = || Typed::Fit("\"7\"".to_owned());
    assert_eq!(typed(&tool(json!({"properties": {"p": {}}})), "g"), raw());
    assert_eq!(typed(&tool(json!({"properties": {"q": {}}})), "f"), raw());
    assert_eq!(typed(&[json!({"name": "f"})], "f"), raw());
    let more = tool(json!({"additionalProperties": {"type": "integer"}}));
    assert_eq!(typed(&more, "f"), Typed::Fit("7".to_owned()));
    let parts = tool(json!({"allOf": [{"$ref": "#/$defs/a"}],
        "$defs": {"a": {"properties": {"p": {"type": "integer"}}}}}));
    assert_eq!(typed(&parts, "f"), Typed::Fit("7".to_owned()));
}

#[test]
fn circles_and_fans_of_references_end() {
    let fan: Vec<Value> = (0..16).map(|_| json!({"$ref": "#/properties/p"})).collect();
    let tools = [json!({"name": "f", "parameters": {
        "properties": {"p": {"anyOf": fan}},
        "allOf": [{"$ref": "#"}, {"$ref": "#"}],
    }})];
    let parameters = Parameters::of(&tools, "f");
    assert_eq!(parameters.typed("p", "7"), Typed::Fit("7".to_owned()));
    assert!(!parameters.lists("q"));
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let fits = |depth| typed(&json!({"type": "array"}), &nested(depth)).starts_with('[');
    assert!(fits(JSON_DEPTH - 2));
    assert!(!fits(JSON_DEPTH - 1));
    assert!(!fits(100_000));
}
