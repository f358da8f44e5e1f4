//! What the engine was asked and what it answered, by its own account.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use super::oracle::Node;
use super::script::Script;
use super::vocabulary::Vocabulary;

/// One generation call.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    /// What was asked.
    pub prompt: Vec<u32>,
    /// What was sampled.
    pub ids: Vec<u32>,
    /// Log-probabilities of these.
    pub logprobs: Vec<f32>,
    /// Why it ended.
    pub finish: String,
    /// Label of the weights.
    pub version: String,
    /// Whether the numbers reached the caller.
    pub answered: bool,
}

/// One generation: a call, and those that went on where it was aborted.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Prompt of the first call.
    pub prompt: Vec<u32>,
    /// Ids of all.
    pub ids: Vec<u32>,
    /// Log-probabilities of all.
    pub logprobs: Vec<f32>,
    /// Labels of the weights, one a call.
    pub versions: Vec<String>,
    /// Why the last call ended.
    pub finish: String,
    /// The step that was given.
    pub step: String,
}

/// Calls by session.
#[derive(Debug)]
pub struct Ledger {
    sessions: HashMap<String, Vec<Call>>,
}

impl Ledger {
    /// Reads the engine's record. Sessions are told by their own words, which stand between
    /// `(session ` and `)` in each prompt.
    pub fn read(path: &Path, vocabulary: &Vocabulary) -> Self {
        let text = std::fs::read_to_string(path).expect("the ledger can be read");
        let mut sessions: HashMap<String, Vec<Call>> = HashMap::new();
        for line in text.lines() {
            let call: Call = serde_json::from_str(line).expect("a line of the ledger");
            // The words stand in the system message, so the start of the prompt has them.
            let start = vocabulary.text(&call.prompt[..call.prompt.len().min(2_000)]);
            let words = start.split_once("(session ").and_then(|(_, rest)| rest.split_once(')'));
            let session = words.map(|(words, _)| words.to_owned()).unwrap_or_default();
            sessions.entry(session).or_default().push(call);
        }
        Self { sessions }
    }

    /// The generations of a session, in the order of their beginnings.
    pub fn generations(
        &self,
        session: &str,
        script: &Script,
        words: &Vocabulary,
    ) -> Vec<Generation> {
        let mut all: Vec<Generation> = Vec::new();
        let calls = self.sessions.get(session).map_or(&[][..], Vec::as_slice);
        for call in calls.iter().filter(|call| call.answered) {
            let goes_on = |g: &&mut Generation| {
                g.finish == "abort"
                    && call.prompt.len() == g.prompt.len() + g.ids.len()
                    && call.prompt.starts_with(&g.prompt)
                    && call.prompt.ends_with(&g.ids)
            };
            if let Some(begun) = all.iter_mut().find(goes_on) {
                begun.ids.extend(&call.ids);
                begun.logprobs.extend(&call.logprobs);
                begun.versions.push(call.version.clone());
                begun.finish.clone_from(&call.finish);
                continue;
            }
            let text = words.text(&call.prompt);
            let (step, _) = script.chosen(&text).expect("a mark asked for a step");
            all.push(Generation {
                prompt: call.prompt.clone(),
                ids: call.ids.clone(),
                logprobs: call.logprobs.clone(),
                versions: vec![call.version.clone()],
                finish: call.finish.clone(),
                step: step.to_owned(),
            });
        }
        all
    }
}

/// Which generation each one continues, by ids alone: the longest whose prompt and answer it begins
/// with; of equal ones, that which fewest others continue.
pub fn forest(all: &[Generation], scene: impl Fn(&str) -> &'static str) -> Vec<Node> {
    let mut forest: Vec<Node> = Vec::new();
    for (at, next) in all.iter().enumerate() {
        let begins = |earlier: &Generation| {
            let (prompt, end) = (earlier.prompt.len(), earlier.prompt.len() + earlier.ids.len());
            next.prompt.len() >= end
                && next.prompt[..prompt] == earlier.prompt
                && next.prompt[prompt..end] == earlier.ids
        };
        let found: Vec<usize> = (0..at).filter(|earlier| begins(&all[*earlier])).collect();
        let length = |at: &usize| all[*at].prompt.len() + all[*at].ids.len();
        let longest = found.iter().map(length).max();
        let children = |at: usize| forest.iter().filter(|node| node.parent == Some(at)).count();
        let parent = found
            .into_iter()
            .filter(|earlier| Some(length(earlier)) == longest)
            .min_by_key(|earlier| children(*earlier));
        forest.push(Node { scene: scene(&next.step), parent });
    }
    forest
}
