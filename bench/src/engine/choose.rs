//! Which reply of a script a prompt gets.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::render::Model;

use super::script::{Script, ScriptedReply, When};

/// The prompts that replies counted so far.
#[derive(Default)]
pub(super) struct Chosen {
    /// By place of the reply: which prompt was the how-manieth, from 1.
    numbers: RefCell<HashMap<usize, HashMap<blake3::Hash, u32>>>,
}

impl Chosen {
    /// The reply for a prompt and its place in the script. `opening` are the ids that open an
    /// assistant turn.
    pub(super) fn choose<'a>(
        &self,
        script: &'a Script,
        model: &Model,
        opening: &[TokenId],
        prompt: &[TokenId],
    ) -> Result<(usize, &'a ScriptedReply), String> {
        let prompt = Prompt::new(model, opening, prompt);
        let (replies, turn) = (&script.replies, prompt.turns);
        let mut matched = None;
        for (place, reply) in replies.iter().enumerate() {
            let Some(when) = &reply.when else { continue };
            // Every reply counts its own prompts, also those that an earlier reply takes.
            if (matched.is_none() || when.counts()) && self.holds(place, when, &prompt) {
                matched = matched.or(Some((place, reply)));
            }
        }
        let by_turn =
            || replies.iter().enumerate().filter(|(_, reply)| reply.when.is_none()).nth(turn);
        let otherwise = || Some((replies.len(), script.otherwise.as_ref()?));
        matched.or_else(by_turn).or_else(otherwise).ok_or_else(|| {
            format!("the script has no reply for turn {turn}; add one, or `otherwise`")
        })
    }

    fn holds(&self, place: usize, when: &When, prompt: &Prompt<'_>) -> bool {
        let has = when.turn.is_none_or(|wanted| wanted as usize == prompt.turns)
            && when.last_contains.all_in(|| prompt.last())
            && when.system_contains.all_in(|| prompt.system())
            && when.prompt_contains.all_in(|| prompt.text())
            && when.without.none_in(|| prompt.text());
        if !has || !when.counts() {
            return has;
        }
        let mut numbers = self.numbers.borrow_mut();
        let numbers = numbers.entry(place).or_default();
        let next = numbers.len() as u32 + 1;
        when.means(*numbers.entry(prompt.digest()).or_insert(next))
    }
}

/// A prompt and its parts; texts are made when they are first asked for.
struct Prompt<'a> {
    model: &'a Model,
    ids: &'a [TokenId],
    /// Where the turn begins that is asked for.
    asked: usize,
    /// Assistant turns before that one.
    turns: usize,
    marker: Option<TokenId>,
    text: OnceCell<String>,
    last: OnceCell<String>,
    system: OnceCell<String>,
    digest: OnceCell<blake3::Hash>,
}

impl<'a> Prompt<'a> {
    fn new(model: &'a Model, opening: &[TokenId], ids: &'a [TokenId]) -> Self {
        // An empty opening is at the end of everything.
        let marker = opening.first().copied();
        let opens = |at: &usize| ids[*at..].starts_with(opening);
        let starts = ids.iter().enumerate().filter(|(_, id)| Some(**id) == marker);
        let starts: Vec<usize> = starts.map(|(at, _)| at).filter(opens).collect();
        Self {
            model,
            ids,
            asked: starts.last().copied().unwrap_or(ids.len()),
            turns: starts.len().saturating_sub(1),
            marker,
            text: OnceCell::new(),
            last: OnceCell::new(),
            system: OnceCell::new(),
            digest: OnceCell::new(),
        }
    }

    fn text(&self) -> &str {
        self.text.get_or_init(|| self.say(self.ids))
    }

    fn last(&self) -> &str {
        self.last.get_or_init(|| {
            let before = &self.ids[..self.asked];
            let start = before.iter().rposition(|id| Some(*id) == self.marker).unwrap_or(0);
            self.say(&before[start..])
        })
    }

    /// Empty when the first message is no system message.
    fn system(&self) -> &str {
        self.system.get_or_init(|| {
            let mut starts =
                self.ids.iter().enumerate().filter(|(_, id)| Some(**id) == self.marker);
            let first = starts.next().map_or(0, |(at, _)| at);
            let second = starts.next().map_or(self.ids.len(), |(at, _)| at);
            let text = self.say(&self.ids[first..second]);
            let is_system = text.split('\n').next().is_some_and(|line| line.ends_with("system"));
            if is_system { text } else { String::new() }
        })
    }

    /// Tells prompts apart. What the asked-for turn begins with does not count: a call that goes on
    /// where an aborted one stopped has the same prompt.
    fn digest(&self) -> blake3::Hash {
        *self.digest.get_or_init(|| {
            let bytes: Vec<u8> =
                self.ids[..self.asked].iter().flat_map(|id| id.to_le_bytes()).collect();
            blake3::hash(&bytes)
        })
    }

    /// Markers included; bytes that are not UTF-8 are replaced.
    fn say(&self, ids: &[TokenId]) -> String {
        let mut bytes = Vec::new();
        self.model.detokenize(ids, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
