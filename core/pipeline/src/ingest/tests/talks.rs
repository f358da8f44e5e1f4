//! Conversations made up at random.

use crate::protocol::Dialect;

/// Numbers that only look random.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }
}

pub(super) const X: &str = "0123456789abcdef0123456789abcdef";

const CHAT: [&str; 16] = [
    r#"{"role":"system","content":"be good"}"#,
    r#"{"role":"user","content":"a \"quoted\" \\ text\n"}"#,
    r#"{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url"},{"type":"odd"}]}"#,
    r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\": [1]}"}}]}"#,
    r#"{"role":"tool","tool_call_id":"c","content":"ok ] } , [ {"}"#,
    r#"{"role":"assistant","reasoning":"r","content":"ü😀"}"#,
    "{ \"role\" : \"user\" ,\n \"content\" : \"lines\" }",
    r#"{"role":"user","content":"\ud83d cut"}"#,
    r#"{"role":"user","content":"\ud83d\ude00"}"#,
    r#"{"role":"user","\u0063ontent":"escaped key"}"#,
    r#"{"role":"developer","content":"d"}"#,
    r#"{"role":"function","name":"f","content":"older"}"#,
    r#"{"role":"robot","content":"x"}"#,
    r#"{"role":"user","content":5}"#,
    r#"{"role":"user","role":"user"}"#,
    "7",
];

const MESSAGES: [&str; 17] = [
    r#"{"role":"user","content":"a \"quoted\" text\n"}"#,
    r#"{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}"#,
    r#"{"role":"user","content":[{"type":"text","text":"x"}]}"#,
    r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"said"},{"type":"tool_use","id":"c","name":"f","input":{"b":1, "a":[]}},{"type":"text","text":"more"}]}"#,
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"ok"},{"type":"text","text":"and"},{"type":"odd"}]}"#,
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"tool_reference","tool_name":"later"}]}]}"#,
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"image"}]}]}"#,
    r#"{"role":"system","content":"in the middle"}"#,
    r#"{"role":"assistant","content":[]}"#,
    r#"{"role":"assistant","content":""}"#,
    "{\"role\":\"user\",\n\"content\":\"lines \\ud83d\"}",
    r#"{"role":"user","content":[{"type":"document","source":{"type":"text","data":"d"}}]}"#,
    r#"{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"c"}]}"#,
    r#"{"role":"user","content":[{"type":"tool_result"}]}"#,
    r#"{"role":"user","content":[{"type":"text","text":5}]}"#,
    r#"{"role":5}"#,
    "[]",
];

const RESPONSES: [&str; 24] = [
    r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}"#,
    r#"{"role":"developer","content":"rules"}"#,
    r#"{"type":"reasoning","id":"rs_0123456789abcdef0123456789abcdef","summary":[],"encrypted_content":"rg1_0123456789abcdef0123456789abcdef"}"#,
    r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"thought"}]}"#,
    r#"{"type":"message","id":"msg_0123456789abcdef0123456789abcdef","role":"assistant","content":[{"type":"output_text","text":"said"}]}"#,
    r#"{"type":"function_call","id":"fc_0123456789abcdef0123456789abcdef_0","call_id":"c0","name":"f","arguments":"{\"a\": 1}"}"#,
    r#"{"type":"function_call","id":"fc_0123456789abcdef0123456789abcdef_1","call_id":"c1","name":"f","arguments":"{}"}"#,
    r#"{"type":"function_call_output","call_id":"c0","output":"ok"}"#,
    r#"{"type":"function_call_output","call_id":"c1","output":[{"type":"input_image"},{"type":"odd"}]}"#,
    r#"{"type":"custom_tool_call","call_id":"c2","name":"patch","input":"*** x"}"#,
    r#"{"type":"function_call","call_id":"c3","name":"g","namespace":"n","arguments":"{}"}"#,
    r#"{"type":"tool_search_call","call_id":"c4","arguments":{"query":"q"}}"#,
    r#"{"type":"tool_search_output","call_id":"c4","tools":[{"type":"function","name":"found","parameters":{}}]}"#,
    r#"{"type":"additional_tools","tools":[{"type":"namespace","name":"n","description":"about","tools":[{"type":"function","name":"g"}]}]}"#,
    r#"{"type":"item_reference","id":"msg_0123456789abcdef0123456789abcdef"}"#,
    r#"{"id":"fc_0123456789abcdef0123456789abcdef_0"}"#,
    r#"{"type":"web_search_call","id":"w"}"#,
    r#"{"type":"local_shell_call","call_id":"c5","action":{"type":"exec","command":["ls"],"env":{}}}"#,
    r#"{"type":"message","role":"assistant","content":"lone \udc00"}"#,
    r#"{"type":"agent_message","author":"a","content":"hello"}"#,
    r#"{"type":"compaction_trigger"}"#,
    r#"{"type":"function_call","arguments":"{}"}"#,
    r#"{"type":"what"}"#,
    r#"{"type":5}"#,
];

const TOOLS: [&str; 7] = [
    r#"[{"type":"function","function":{"name":"f","parameters":{"maximum":36893488147419103232}}}]"#,
    r#"[{"type":"function","name":"f","parameters":{}},{"type":"custom","name":"patch"},{"type":"tool_search","execution":"client"},{"type":"local_shell"},{"type":"web_search"}]"#,
    r#"[{"name":"f","input_schema":{"type":"object"}},{"name":"later","input_schema":{},"defer_loading":true}]"#,
    r#"[{"name":"later","description":"another","input_schema":{},"defer_loading":true}]"#,
    "[]",
    "null",
    r#"[{"type":"function","function":{"name":""}}]"#,
];

const MEMBERS: [(&str, &str); 22] = [
    ("stream", "true"),
    ("stream", "false"),
    ("temperature", "0.5"),
    ("temperature", "-1"),
    ("temperature", "\"hot\""),
    ("max_tokens", "5"),
    ("tool_choice", "\"auto\""),
    ("tool_choice", "{\"type\":\"auto\"}"),
    ("tool_choice", "\"none\""),
    ("tool_choice", "{\"type\":\"none\"}"),
    ("tool_choice", "{\"type\":\"function\",\"name\":\"f\"}"),
    ("metadata", "{\"user_id\": \"u\",\n \"n\": [1,2]}"),
    ("client_metadata", "{\"a\":\"1\",\"b\":\"{}\"}"),
    ("reasoning", "{\"effort\":\"low\"}"),
    ("text", "{\"format\":{\"type\":\"json_schema\",\"schema\":{}}}"),
    ("n", "2"),
    ("system", "\"standing\""),
    (
        "system",
        r#"[{"type":"text","text":"standing","cache_control":{}},{"type":"tool_reference","tool_name":"later"}]"#,
    ),
    ("instructions", "\"standing\""),
    ("instructions", "\"\""),
    ("chat_template_kwargs", "{\"thinking\":true}"),
    ("model", "\"other\""),
];

/// A conversation that goes on.
pub(super) struct Talk {
    pub(super) dialect: Dialect,
    pub(super) head: Vec<(&'static str, &'static str)>,
    pub(super) entries: Vec<String>,
    pub(super) tail: Vec<(&'static str, &'static str)>,
    /// What stands between parts.
    pub(super) blank: &'static str,
}

impl Talk {
    pub(super) fn new(dialect: Dialect, dice: &mut Dice) -> Self {
        let mut talk =
            Self { dialect, head: Vec::new(), entries: Vec::new(), tail: Vec::new(), blank: "" };
        let side = if dice.roll(2) == 0 { &mut talk.head } else { &mut talk.tail };
        side.push(("model", "\"m\""));
        talk.entries.push(talk.some()[0].to_owned());
        talk
    }

    fn some(&self) -> &'static [&'static str] {
        match self.dialect {
            Dialect::Chat => &CHAT,
            Dialect::Messages => &MESSAGES,
            Dialect::Responses => &RESPONSES,
        }
    }

    fn entry(&self, dice: &mut Dice) -> String {
        let some = self.some();
        // Bad ones are at the end, and rare.
        let good = some.len() - 4;
        let entry = if dice.roll(12) == 0 { dice.pick(some) } else { dice.pick(&some[..good]) };
        match dice.roll(6) {
            0 => entry.replace("\"q\"", &format!("\"{}\"", "long ".repeat(dice.roll(6_000)))),
            1 => entry.replace("ok", &format!("ok {}", dice.roll(1 << 20))),
            2 => entry.replace("quoted", &"much ".repeat(dice.roll(6_000))),
            _ => entry.to_owned(),
        }
    }

    /// What an agent may do before it asks again.
    pub(super) fn go_on(&mut self, dice: &mut Dice) {
        match dice.roll(12) {
            0 => self.frame(dice),
            1 => {
                let at = dice.roll(self.entries.len());
                self.entries[at] = self.entry(dice);
            }
            2 => {
                let at = dice.roll(self.entries.len() + 1);
                self.entries.insert(at, self.entry(dice));
            }
            3 if self.entries.len() > 1 => {
                self.entries.remove(dice.roll(self.entries.len()));
            }
            4 => {
                let (one, other) = (dice.roll(self.entries.len()), dice.roll(self.entries.len()));
                self.entries.swap(one, other);
            }
            5 => self.blank = dice.pick(&["", "", " ", "\n  "]),
            6 => {}
            7 => self.entries.truncate(1),
            _ => {
                for _ in 0..dice.roll(4) {
                    let entry = self.entry(dice);
                    self.entries.push(entry);
                }
            }
        }
    }

    fn frame(&mut self, dice: &mut Dice) {
        let (name, value) = match dice.roll(3) {
            0 => ("tools", dice.pick(&TOOLS)),
            _ => dice.pick(&MEMBERS),
        };
        let twice = dice.roll(20) == 0;
        if !twice {
            self.head.retain(|(other, _)| *other != name);
            self.tail.retain(|(other, _)| *other != name);
        }
        let side = if dice.roll(2) == 0 { &mut self.head } else { &mut self.tail };
        if twice || dice.roll(4) > 0 {
            side.insert(dice.roll(side.len() + 1), (name, value));
        }
    }

    pub(super) fn body(&self) -> String {
        let list = if self.dialect == Dialect::Responses { "input" } else { "messages" };
        let Self { blank, .. } = self;
        let entries = self.entries.join(&format!("{blank},{blank}"));
        let member = |(name, value): &(&str, &str)| format!("\"{name}\":{blank}{value}{blank}");
        let mut members: Vec<String> = self.head.iter().map(member).collect();
        members.push(format!("\"{list}\"{blank}:[{blank}{entries}{blank}]"));
        members.extend(self.tail.iter().map(member));
        format!("{blank}{{{}}}{blank}", members.join(&format!(",{blank}")))
    }

    /// The same with no more than so many entries.
    pub(super) fn first(&self, entries: usize) -> Talk {
        Talk {
            dialect: self.dialect,
            head: self.head.clone(),
            entries: self.entries[..entries].to_vec(),
            tail: self.tail.clone(),
            blank: self.blank,
        }
    }

    pub(super) fn member(&self, name: &str) -> Option<&'static str> {
        let mut members = self.head.iter().chain(&self.tail);
        members.find(|(other, _)| *other == name).map(|(_, value)| *value)
    }
}
