//! A session played by hand: what an exchange does with a trajectory, without an engine.

use serde_json::{Map, Value};

use crate::id::{TokenId, TurnIndex};
use crate::record::tests::turn_record;
use crate::record::{HistoryMode, TurnRecord};
use crate::rules::RuleSet;
use crate::trajectory::{Habits, Path, Reader, Resume, Root, Trajectory, answer_digest};
use crate::turn::{Message, MessageFields, Reply, Role, Tool, ToolCall};

/// A model whose tokens are bytes. Its template leaves out reasoning, or keeps it.
pub(super) struct Bytes {
    pub(super) keeps_reasoning: bool,
}

/// Sampled ids are bytes from here on, behind one that is the turn's own.
const SAMPLED: TokenId = 1_000;

impl Bytes {
    fn render(&self, message: &Message) -> String {
        let reasoning = message.reasoning.as_deref().filter(|_| self.keeps_reasoning);
        let calls = message.tool_calls.iter().map(|c| format!("<{} {}>", c.name, c.arguments));
        format!(
            "{}|{}{}\n",
            reasoning.unwrap_or_default(),
            message.content.trim(),
            calls.collect::<String>()
        )
    }
}

impl Reader for Bytes {
    fn reads_as(&self, sent: &Message, sampled: &[TokenId]) -> bool {
        let bytes: Vec<u8> = sampled[1..].iter().map(|id| (id - SAMPLED) as u8).collect();
        self.render(sent).as_bytes() == bytes
    }

    fn tokens(&self, text: &str) -> u32 {
        text.len() as u32
    }
}

/// A session, its records, and what its engine would have been sent.
pub(super) struct Play {
    pub(super) tree: Trajectory,
    pub(super) mode: HistoryMode,
    pub(super) rules: RuleSet,
    pub(super) model: Bytes,
    pub(super) tools: Vec<Tool>,
    pub(super) records: Vec<TurnRecord>,
    /// By turn: all ids of its prompt, and those with its answer.
    pub(super) naive: Vec<[Vec<TokenId>; 2]>,
    undelivered: Vec<TurnIndex>,
}

impl Play {
    /// With the rules of this agent.
    pub(super) fn of(mode: HistoryMode, agent: &str) -> Self {
        Self {
            tree: Trajectory::default(),
            mode,
            rules: RuleSet::for_session(Some(agent), &[], &[]).unwrap(),
            model: Bytes { keeps_reasoning: false },
            tools: Vec::new(),
            records: Vec::new(),
            naive: Vec::new(),
            undelivered: Vec::new(),
        }
    }

    pub(super) fn sticky() -> Self {
        Self::of(HistoryMode::Sticky, "none")
    }

    pub(super) fn faithful() -> Self {
        Self::of(HistoryMode::Faithful, "none")
    }

    pub(super) fn path(&self, messages: &[Message]) -> Path {
        let kwargs = Map::new();
        let root = Root { model: "m", tools: &self.tools, template_kwargs: &kwargs };
        Path::new(root, messages, Habits { mode: self.mode, rules: &self.rules })
    }

    pub(super) fn resume(&self, messages: &[Message]) -> Resume {
        self.tree.resume(&self.path(messages), messages, &self.model)
    }

    /// Plays one exchange, as an exchange does it.
    pub(super) fn turn(&mut self, messages: &[Message], reply: impl Into<Reply>) -> TurnIndex {
        let mut messages = messages.to_vec();
        self.rules.strip(&mut messages);
        let path = self.path(&messages);
        let record = self.prepare(&path, &messages, reply.into());
        let turn = record.turn;
        let before = record.parent.map_or_else(Vec::new, |p| self.naive[p.0 as usize][1].clone());
        let prompt = [before, record.stretch.clone()].concat();
        self.naive.push([prompt.clone(), [prompt, record.ids.clone()].concat()]);
        self.tree.insert(&record).unwrap();
        self.records.push(record);
        turn
    }

    /// The record of an exchange that gets this reply.
    pub(super) fn prepare(&self, path: &Path, messages: &[Message], reply: Reply) -> TurnRecord {
        let resume = self.tree.resume(path, messages, &self.model);
        let turn = TurnIndex(self.tree.turns());
        let from = match resume.parent {
            Some(_) => path.first_message(resume.matched, messages.len()),
            None => 0,
        };
        let stretch: Vec<TokenId> = match resume.same_prompt {
            Some(same) => {
                let skip = resume.parent.map_or(0, |parent| self.tree.length_through(parent));
                self.tree.prompt_ids(same).concat()[skip as usize..].to_vec()
            }
            None => {
                let text: String = messages[from..].iter().map(|m| self.model.render(m)).collect();
                text.bytes().map(TokenId::from).chain([999]).collect()
            }
        };
        let mut said = Message::text(Role::Assistant, reply.content.as_str());
        said.reasoning.clone_from(&reply.reasoning);
        said.tool_calls.clone_from(&reply.tool_calls);
        let text = self.model.render(&said);
        let ids: Vec<TokenId> = std::iter::once(50_000 + turn.0)
            .chain(text.bytes().map(|byte| SAMPLED + TokenId::from(byte)))
            .collect();
        TurnRecord {
            parent: resume.parent,
            root: path.root,
            joined: resume.joined,
            rules: resume.rules,
            context_diff_tokens: resume.context_diff_tokens,
            elements: path.elements[resume.matched..].iter().map(|e| e.digest).collect(),
            answer: answer_digest(self.mode, &messages[path.continued()], &reply),
            messages: messages[from..].to_vec(),
            reply,
            stretch,
            logprobs: vec![-1.0; ids.len()],
            ids,
            ..turn_record(turn)
        }
    }

    /// The agent did not get all of the answer.
    pub(super) fn cut(&mut self, turn: TurnIndex) {
        self.tree.set_delivered(turn, false);
        self.undelivered.push(turn);
    }

    /// The session, loaded from its records.
    pub(super) fn reload(&mut self) {
        self.tree = Trajectory::default();
        for record in &self.records {
            self.tree.insert(record).unwrap();
        }
        for turn in &self.undelivered {
            self.tree.set_delivered(*turn, false);
        }
    }

    /// The tree holds what the engine would have been sent, for every turn.
    pub(super) fn check(&self) {
        for (turn, [prompt, all]) in (0..).map(TurnIndex).zip(&self.naive) {
            assert_eq!(&self.tree.prompt_ids(turn).concat(), prompt);
            assert_eq!(&self.tree.ids_through(turn).concat(), all);
            assert_eq!(self.tree.length_through(turn) as usize, all.len());
        }
    }
}

pub(super) fn system(text: &str) -> Message {
    Message::text(Role::System, text)
}

pub(super) fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

pub(super) fn said(text: &str) -> Message {
    Message::text(Role::Assistant, text)
}

pub(super) fn result(id: &str, text: &str) -> Message {
    MessageFields { tool_call_id: Some(id.into()), ..MessageFields::text(Role::Tool, text) }.into()
}

pub(super) fn call(id: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), name: "bash".into(), arguments: arguments.into() }
}

pub(super) fn calls(text: &str, calls: &[ToolCall]) -> Message {
    MessageFields { tool_calls: calls.to_vec(), ..said(text).into_fields() }.into()
}

pub(super) fn thought(reasoning: &str, message: Message) -> Message {
    MessageFields { reasoning: Some(reasoning.into()), ..message.into_fields() }.into()
}

impl From<Message> for Reply {
    fn from(message: Message) -> Self {
        Reply {
            reasoning: message.reasoning.clone(),
            content: message.content.clone(),
            tool_calls: message.tool_calls.clone(),
            ill_formed: false,
            remarks: Vec::new(),
        }
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        said(text).into()
    }
}

/// A tool on offer.
pub(super) fn tool(name: &str) -> Value {
    serde_json::json!({"type": "function", "function": {"name": name}})
}
