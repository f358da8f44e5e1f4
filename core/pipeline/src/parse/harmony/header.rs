//! The header of a message: role, channel, recipient and content type.

use crate::parse::call;
use crate::turn::Tool;

/// What a message is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// Reasoning.
    Thought,
    /// Content.
    Shown,
    /// A call of the function with this name.
    Call(String),
    /// Nothing that the grammar knows.
    Raw,
}

/// Which part of a header text belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Part {
    /// Before the first marker.
    #[default]
    Role,
    /// Behind `<|channel|>`.
    Channel,
    /// Behind `<|constrain|>`.
    Constrain,
}

/// A header while it is written.
#[derive(Default)]
pub struct Header {
    /// What the model wrote of it, markers included.
    pub raw: Vec<u8>,
    /// Whether it does not fit the grammar, though its meaning may be plain.
    pub odd: bool,
    part: Part,
    role: Vec<u8>,
    channel: Vec<u8>,
    constrain: Vec<u8>,
    has_channel: bool,
}

const CHANNELS: [&str; 3] = ["analysis", "commentary", "final"];
/// Content types that are known; models write them without their marker too.
const TYPES: [&str; 2] = ["json", "code"];
/// Markers that models write in letters.
const SPELLED: [&str; 3] = ["<|channel|>", "<|constrain|>", "<|message|>"];

impl Header {
    /// Takes text.
    pub fn text(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
        match self.part {
            Part::Role => self.role.extend_from_slice(bytes),
            Part::Channel => self.channel.extend_from_slice(bytes),
            Part::Constrain => self.constrain.extend_from_slice(bytes),
        }
    }

    /// Begins another part with this marker.
    pub fn part(&mut self, part: Part, spelled: &[u8]) {
        self.raw.extend_from_slice(spelled);
        if part == Part::Channel {
            self.odd |= self.has_channel;
            self.has_channel = true;
            self.channel.push(b' ');
        }
        self.part = part;
    }

    /// What the message is. Sets [`Header::odd`].
    pub fn meaning(&mut self, tools: &[Tool]) -> Meaning {
        let mut read = Reading::default();
        for (part, bytes) in [
            (Part::Role, &self.role),
            (Part::Channel, &self.channel),
            (Part::Constrain, &self.constrain),
        ] {
            let Ok(text) = std::str::from_utf8(bytes) else { return Meaning::Raw };
            let mut plain = text.to_owned();
            for marker in SPELLED {
                if plain.contains(marker) {
                    self.odd = true;
                    plain = plain.replace(marker, " ");
                }
            }
            if !plain.split_ascii_whitespace().all(|word| read.word(part, word)) {
                return Meaning::Raw;
            }
        }
        // A message without a channel says too little, though its meaning is plain.
        self.odd |= read.odd || read.channel.is_none();
        match (read.recipient, read.channel) {
            (Some(recipient), _) => match recipient.strip_prefix("functions.") {
                Some("") => Meaning::Raw,
                Some(name) => Meaning::Call(name.to_owned()),
                None if call::offered(tools, &recipient) => {
                    self.odd = true;
                    Meaning::Call(recipient)
                }
                None => Meaning::Raw,
            },
            (None, Some("analysis")) => Meaning::Thought,
            (None, _) => Meaning::Shown,
        }
    }
}

/// The words of a header as they are read.
#[derive(Default)]
struct Reading {
    recipient: Option<String>,
    channel: Option<&'static str>,
    odd: bool,
}

impl Reading {
    /// Takes a word; `false` if nothing can be made of it.
    fn word(&mut self, part: Part, word: &str) -> bool {
        if let Some(recipient) = word.strip_prefix("to=") {
            let other = self.recipient.as_deref().is_some_and(|known| known != recipient);
            self.recipient.get_or_insert_with(|| recipient.to_owned());
            return !other && !recipient.is_empty();
        }
        if let Some(channel) = CHANNELS.into_iter().find(|channel| *channel == word) {
            // The first one counts.
            self.odd |= self.channel.is_some() || part != Part::Channel;
            self.channel.get_or_insert(channel);
            return true;
        }
        match part {
            Part::Role => word == "assistant",
            Part::Channel => {
                self.odd |= !TYPES.contains(&word);
                self.channel.is_some()
            }
            // A content type changes nothing, but what is none is not dropped without a word.
            Part::Constrain => {
                self.odd |= !TYPES.iter().any(|known| known.eq_ignore_ascii_case(word));
                true
            }
        }
    }
}
