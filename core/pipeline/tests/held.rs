//! What a session of 60,000 tokens holds in memory, counted by the allocator.

#![expect(clippy::unwrap_used, reason = "helpers of a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use rollgate_pipeline::id::{TokenId, TurnIndex};
use rollgate_pipeline::record::{HistoryMode, TurnRecord};
use rollgate_pipeline::rules::RuleSet;
use rollgate_pipeline::trajectory::{Habits, Reader, Stem, ToolDigests, Trajectory, answer_digest};
use rollgate_pipeline::turn::{Message, MessageFields, Reply, Role, ToolCall};
use serde_json::{Map, json};

static HELD: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, counted.
struct Counted;

#[expect(
    unsafe_code,
    reason = "an allocator can be had no other way; each call is handed on as it is"
)]
// SAFETY: all calls go to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as asked of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as asked of this call.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

struct Bytes;

impl Reader for Bytes {
    fn reads_as(&self, _: &Message, _: &[TokenId]) -> bool {
        false
    }

    fn tokens(&self, text: &str) -> u32 {
        (text.len() / 4) as u32
    }
}

const TURNS: u32 = 60;
/// Tokens of the context and of the answer that each turn adds; a token has four bytes of text.
const CONTEXT: u32 = 700;
const SAMPLED: u32 = 300;

fn text(tokens: u32, seed: u32) -> String {
    format!("{seed:04}").repeat(tokens as usize)
}

/// Takes a session to its end; its history as the agent sends it.
fn play(tree: &mut Trajectory, rules: &RuleSet) -> Vec<Message> {
    let (tools, kwargs) = (ToolDigests::of(&[]), Map::new());
    let stem = Stem { model: "m", tools: &tools, template_kwargs: &kwargs };
    let mode = HistoryMode::Sticky;
    let mut history = vec![Message::text(Role::User, text(CONTEXT, 0))];
    for turn in 0..TURNS {
        let mut messages = history.clone();
        let path = tree.path(stem, &mut messages, Habits { mode, rules });
        let resume = tree.resume(&path, &messages, &Bytes);
        assert_eq!(resume.parent, turn.checked_sub(1).map(TurnIndex));
        let from = resume.parent.map_or(0, |_| path.first_message(resume.matched, messages.len()));
        let id = format!("call_{turn}");
        let reply = Reply {
            reasoning: Some(text(SAMPLED / 2, turn)),
            content: text(SAMPLED / 2, turn + 1),
            tool_calls: vec![ToolCall { id: id.clone(), name: "f".into(), arguments: "{}".into() }],
            ill_formed: false,
            remarks: Vec::new(),
        };
        let mut record: TurnRecord = serde_json::from_value(json!({
            "turn": turn, "parent": resume.parent, "root": path.root, "elements": [],
            "answer": null, "sampling": {}, "verdict": {"scene": "main", "rule": "r"},
            "dialect": "chat", "request_id": "r", "messages": [], "reply": {}, "finish": "stop",
            "versions": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0},
            "times": {"at_ms": 0, "prepare_ms": 0, "engine_ms": 0},
        }))
        .unwrap();
        let new = &path.elements[resume.matched..];
        record.elements = new.iter().map(|element| element.digest).collect();
        record.answer = answer_digest(mode, &messages[path.continued()], &reply);
        record.messages = messages[from..].to_vec();
        record.reply = reply.clone();
        record.stretch = (turn * 1_000..turn * 1_000 + CONTEXT).collect();
        record.ids = (turn..turn + SAMPLED).collect();
        tree.keep(path);
        tree.insert(&record).unwrap();
        let said = MessageFields {
            reasoning: reply.reasoning,
            tool_calls: reply.tool_calls,
            ..MessageFields::text(Role::Assistant, reply.content)
        };
        let result = MessageFields::text(Role::Tool, text(CONTEXT, turn));
        history.extend([said.into(), MessageFields { tool_call_id: Some(id), ..result }.into()]);
    }
    history
}

#[test]
fn a_session_of_sixty_thousand_tokens_takes_less_than_a_megabyte() {
    let rules = RuleSet::for_session(None, &[], &[]).unwrap();
    // What is made once for all sessions is not the session's.
    drop(play(&mut Trajectory::default(), &rules));
    let before = HELD.load(Ordering::Relaxed);
    let mut tree = Trajectory::default();
    let history = play(&mut tree, &rules);
    let held = HELD.load(Ordering::Relaxed) - before;
    let tokens = (TURNS * (CONTEXT + SAMPLED)) as isize;
    let text = 4 * tokens;
    println!(
        "{held} bytes: {text} of text, {} of ids, {} of all else",
        4 * tokens,
        held - text - 4 * tokens
    );
    assert_eq!(history.len() as u32, 2 * TURNS + 1);
    assert!(held < 1 << 20, "{held}");
    drop(history);
    drop(tree);
    let left = HELD.load(Ordering::Relaxed) - before;
    assert!(left < 1 << 12, "{left} bytes are left");
}
