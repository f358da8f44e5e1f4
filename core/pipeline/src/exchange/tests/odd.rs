//! Odd input and odd output, whole exchanges: what is said of it, and that its cut does not matter.

use super::*;

/// A request of one user's message in each dialect.
fn requests(stream: bool) -> [(&'static str, Value); 3] {
    let messages = json!([{"role": "user", "content": "q"}]);
    [
        ("/v1/chat/completions", json!({"model": "m", "messages": messages, "stream": stream})),
        (
            "/v1/messages",
            json!({"model": "m", "max_tokens": 99, "messages": messages, "stream": stream}),
        ),
        ("/v1/responses", json!({"model": "m", "input": "q", "stream": stream})),
    ]
}

fn at(path: &str) -> Play {
    Play { path: path.to_owned(), ..Play::new(SessionOptions::default()) }
}

/// The answer where the engine's reply comes in these pieces.
fn answer(
    path: &str,
    request: &Value,
    sampled: &str,
    pieces: impl Fn(usize) -> Vec<usize>,
) -> String {
    let mut play = at(path);
    let (mut exchange, mut want) = play.begin(&request.to_string());
    let reply = play.engine_reply(sampled);
    let mut bytes = BytesMut::new();
    let (mut from, clock_ms) = (0, play.clock_ms);
    for to in pieces(reply.len()) {
        bytes.extend_from_slice(&reply[from..to]);
        from = to;
        // Ids are made of random bits, which come from the clock here.
        play.clock_ms = clock_ms;
        want = play.step(|cx| exchange.engine_bytes(cx, &mut bytes, false));
    }
    play.clock_ms = clock_ms;
    let (told, want) = play.drive(&mut exchange, want);
    assert!(matches!(want, Want::Done { .. }), "{want:?}");
    told
}

const SAMPLED: &str = "\u{5317} \u{1f600} caf\u{e9}\n<tool_call>\n{\"name\": \"f\", \"arguments\": \
                       {\"a\": \"\u{5317}\\n\u{1f600}\"}}\n</tool_call><|im_end|>";

#[test]
fn l16_l18_the_cut_of_an_engines_reply_changes_no_byte_of_the_answer() {
    for stream in [false, true] {
        for (path, request) in requests(stream) {
            let whole = answer(path, &request, SAMPLED, |length| vec![length]);
            assert!(whole.contains('\u{5317}') && whole.contains('\u{1f600}'), "{whole}");
            assert!(!whole.contains('\u{fffd}'), "{whole}");
            let length = at(path).engine_reply(SAMPLED).len();
            for cut in (1..length).step_by(37) {
                assert_eq!(answer(path, &request, SAMPLED, |end| vec![cut, end]), whole, "{cut}");
            }
            let bytes = |end| (1..=end).collect();
            assert_eq!(answer(path, &request, SAMPLED, bytes), whole, "byte by byte");
        }
    }
}

/// Events as a reader has them that takes the standard at its word: name and data.
fn events(stream: &str) -> Vec<(Option<&str>, &str)> {
    let (mut events, mut name, mut data) = (Vec::new(), None, None);
    assert!(!stream.contains('\r'), "lines end in LF alone");
    assert!(stream.ends_with("\n\n"), "the last event has its blank line");
    for line in stream.lines() {
        match line.split_once(": ") {
            None if line.is_empty() => {
                if let Some(data) = data.take() {
                    events.push((name.take(), data));
                }
            }
            Some(("event", value)) => name = Some(value),
            Some(("data", value)) => assert!(data.replace(value).is_none(), "one line of data"),
            Some(("", _)) => assert!(data.is_none() && name.is_none(), "no comment in an event"),
            other => panic!("{other:?} in {line:?}"),
        }
    }
    assert!(data.is_none());
    events
}

#[test]
fn l17_our_events_are_understood_by_the_strictest_readers() {
    for (path, request) in requests(true) {
        let told = answer(path, &request, SAMPLED, |length| vec![length]);
        let (head, mut rest) = told.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("cache-control: no-cache"), "{head}");
        assert!(!head.contains("content-length"), "{head}");
        let mut stream = String::new();
        while let Some((size, after)) = rest.split_once("\r\n") {
            let size = usize::from_str_radix(size, 16).unwrap();
            stream.push_str(&after[..size]);
            rest = &after[size + 2..];
        }
        let events = events(&stream);
        assert!(events.len() > 3, "{stream}");
        for (name, data) in events {
            if data == "[DONE]" {
                continue;
            }
            let value: Value = serde_json::from_str(data).unwrap();
            assert!(name.is_none_or(|name| value["type"] == name), "{name:?} {data}");
        }
    }
}

fn offered(depth: usize) -> Value {
    let mut schema = json!({"type": "string"});
    for _ in 0..depth {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    json!({"model": "m", "messages": [{"role": "user", "content": "q"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]})
}

#[test]
fn m02_schemas_that_agents_use_work_and_deeper_ones_are_refused() {
    // Each level is two: an object and its properties.
    for depth in [1, 20, 32] {
        let seen = at("/v1/chat/completions").ask(&offered(depth), "a<|im_end|>");
        assert_eq!(seen.status, 200, "{depth}: {}", seen.body);
    }
    let text = offered(0).to_string();
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200));
    let text = text.replace(r#"{"type":"string"}"#, &deep);
    let mut play = at("/v1/chat/completions");
    let (mut exchange, want) = play.begin(&text);
    let seen = play.finish(&mut exchange, want, None);
    assert_eq!(seen.status, 400, "{}", seen.body);
    assert!(seen.body.contains("nested 128"), "{}", seen.body);
}

#[test]
fn m02_deep_json_in_arguments_stays_a_text() {
    let deep = format!("{{\"a\": {}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let request = json!({"model": "m", "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": deep}}]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
    ]});
    let seen = Play::at(
        Gatehouse { limits: Limits::default(), ..Play::gatehouse() },
        SessionOptions::default(),
    )
    .ask(&request, "a<|im_end|>");
    assert!([200, 400].contains(&seen.status), "{}", seen.body);
    assert!(!seen.body.contains("internal"), "{}", seen.body);
}

#[test]
fn m03_a_call_with_numbers_that_are_none_is_no_call() {
    let sampled = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": NaN, \"m\": -Infinity}}\n\
                   </tool_call><|im_end|>";
    for (path, request) in requests(false) {
        let told = answer(path, &request, sampled, |length| vec![length]);
        let body = told.split_once("\r\n\r\n").unwrap().1;
        let body: Value = serde_json::from_str(body).expect("strict JSON");
        let text = body.to_string();
        assert!(text.contains("NaN"), "the text is kept: {text}");
        assert!(!text.contains("\"tool_calls\":[{"), "{text}");
        assert!(!text.contains("\"tool_use\"") && !text.contains("\"function_call\""), "{text}");
    }
    let refused = at("/v1/chat/completions").begin("{\"model\":\"m\",\"temperature\":NaN}").1;
    assert!(matches!(&refused, Want::Agent(bytes) if bytes.starts_with(b"HTTP/1.1 400")));
}

#[test]
fn m01_m04_m06_odd_bodies_are_one_rule_in_each_dialect() {
    for (path, request) in requests(false) {
        let good = request.to_string();
        let sampled = "a<|im_end|>";
        let told = |body: &str| {
            let mut play = at(path);
            let (mut exchange, want) = play.begin(body);
            match want {
                Want::Engine(_) => {
                    let reply = play.engine_reply(sampled);
                    let want = play.reply(&mut exchange, &reply);
                    let seen = play.finish(&mut exchange, want, None);
                    assert_eq!(seen.status, 200);
                    format!("{:?}", play.turns()[0].messages)
                }
                other => {
                    let seen = play.finish(&mut exchange, other, None);
                    assert_eq!(seen.status, 400, "{path} {body}: {}", seen.body);
                    serde_json::from_str::<Value>(&seen.body).expect("strict JSON");
                    "refused".to_owned()
                }
            }
        };
        let plain = told(&good);
        assert_eq!(told(&format!("\u{feff}{good}")), plain, "{path}: a mark is skipped");
        assert_eq!(told(&format!("\n {good}{}", " ".repeat(50_000))), plain, "{path}: blanks");
        for bad in [format!("{good}{{}}"), String::new(), " ".into(), "null".into(), "[]".into()] {
            assert_eq!(told(&bad), "refused", "{path} {bad:?}");
        }
        let cut = good.replace("\"q\"", r#""cut \ud83d""#);
        let once = told(&cut);
        assert!(once.contains("cut \u{fffd}"), "{once}");
        assert_eq!(told(&cut), once, "the same on every replay");
        assert!(told(&good.replace("\"q\"", r#""\ud83d\ude00""#)).contains('\u{1f600}'));
    }
}
