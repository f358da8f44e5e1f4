//! Heads of whole renders that many sessions share: tools and standing instructions.
//!
//! A first turn is rendered whole, from tools that were made ready before ([`super::ready`]); then
//! its text is compared with texts whose ids are known. What they have in common up to a *cut* need
//! not be encoded again. So a head can be wrong for no request: what is compared is the text itself.
//!
//! A cut lies before a token that is matched there in both texts. Tokenizers cut the text at such
//! tokens before anything else; what stands before one and what stands behind it are encoded each by
//! itself. A token is matched where it stands, unless one that begins before it reaches into it: that
//! is looked for in each text. Those that end before a cut are the same where the texts are.

use std::rc::Rc;

use super::control::{ControlTexts, Marks};
use super::ready::{ReadyTools, written_alike};
use bytes::Bytes;

use crate::id::TokenId;
use crate::id_text::{self, Spelled};
use crate::limits::{HEAD_TEXT_BYTES, KNOWN_HEADS, KNOWN_HEADS_BYTES};
use crate::turn::Tools;

/// The heads that one shard knows, of one model. The least used are forgotten.
#[derive(Default)]
pub struct Heads {
    /// In the order of their texts.
    shelf: Vec<Head>,
    shelf_bytes: usize,
    tools: Vec<Offered>,
    tools_bytes: usize,
    clock: u64,
}

/// The beginning of a render, and what it is encoded to.
struct Head {
    /// Whether outside text in it is guarded: such text is encoded in another way.
    placed: bool,
    /// To the end of the token behind the last cut.
    text: Box<[u8]>,
    cuts: Vec<Cut>,
    ids: Vec<TokenId>,
    /// Their text, which all prompts that begin so share.
    spelled: Bytes,
    used: u64,
}

/// A place before a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cut {
    at: usize,
    /// Where the token ends.
    end: usize,
    /// How many ids stand before it.
    ids: usize,
    /// Bytes of their text.
    spelled: usize,
}

struct Offered {
    tools: Tools,
    ready: Rc<ReadyTools>,
    used: u64,
}

/// How texts may be cut.
#[derive(Clone)]
pub(super) struct Cutter {
    /// Ids of the tokens that are matched in the text as it stands, before it is normalized.
    firm: Vec<TokenId>,
}

impl Cutter {
    /// `firm`: see above; none where matching any token depends on its neighbours.
    pub fn new(mut firm: Vec<TokenId>) -> Self {
        firm.sort_unstable();
        Self { firm }
    }

    /// The cuts of a text up to `until`, the last ones where there are many; ids are not counted.
    fn cuts(&self, control: &ControlTexts, text: &str, until: usize) -> Vec<Cut> {
        const MOST: usize = 64;
        let mut cuts = Vec::new();
        let mut from = 0;
        while let Some((step, token, id)) = text.get(from..).and_then(|rest| control.find(rest)) {
            let at = from + step;
            if at > until {
                break;
            }
            from = at + token.len();
            let firm = self.firm.binary_search(&id).is_ok();
            if at > 0 && firm && !control.crosses(text.as_bytes(), at) {
                cuts.push(Cut { at, end: from, ids: 0, spelled: 0 });
            }
        }
        cuts.split_off(cuts.len().saturating_sub(MOST))
    }
}

impl Heads {
    /// These tools, ready to be rendered.
    pub(super) fn ready(
        &mut self,
        tools: &Tools,
        make: impl FnOnce() -> Option<ReadyTools>,
    ) -> Option<Rc<ReadyTools>> {
        self.clock += 1;
        let clock = self.clock;
        let known = match self.tools.iter().position(|known| known.tools.is_copy_of(tools)) {
            Some(at) => Some(at),
            None => self.tools.iter().position(|known| alike(&known.tools, tools)),
        };
        if let Some(at) = known {
            let known = &mut self.tools[at];
            known.used = clock;
            known.tools.keep_json();
            return Some(known.ready.clone());
        }
        let ready = Rc::new(make()?);
        self.tools_bytes += ready.bytes;
        self.tools.push(Offered { tools: tools.clone(), ready: ready.clone(), used: clock });
        while self.tools.len() > KNOWN_HEADS || self.tools_bytes > KNOWN_HEADS_BYTES {
            let Some(at) = least(self.tools.iter().map(|known| known.used)) else { break };
            self.tools_bytes -= self.tools.swap_remove(at).ready.bytes;
        }
        Some(ready)
    }

    /// The ids of the longest known beginning of a text, and where it ends.
    pub(super) fn find(
        &mut self,
        control: &ControlTexts,
        text: &str,
        placed: bool,
    ) -> Option<(usize, Spelled)> {
        self.clock += 1;
        let bytes = text.as_bytes();
        let behind = self.place(bytes, placed);
        // In this order, no other text has more in common with it than its neighbours.
        let best = [behind.checked_sub(1), Some(behind)]
            .into_iter()
            .flatten()
            .filter_map(|at| {
                let head = self.shelf.get(at).filter(|head| head.placed == placed)?;
                let same = common(&head.text, bytes);
                let fits = |cut: &&Cut| cut.end <= same && !control.crosses(bytes, cut.at);
                Some((*head.cuts.iter().rev().find(fits)?, at))
            })
            .max_by_key(|(cut, _)| cut.at);
        let (cut, at) = best?;
        let head = &mut self.shelf[at];
        head.used = self.clock;
        Some((cut.at, head.until(cut)))
    }

    fn place(&self, text: &[u8], placed: bool) -> usize {
        self.shelf.partition_point(|head| (head.placed, &*head.text) < (placed, text))
    }

    /// Keeps a text up to its last cut at or before `until`, where that is behind `known`. What is
    /// between two cuts is encoded by `encode`. The ids up to that cut, and where it is.
    pub(super) fn learn<E>(
        &mut self,
        (control, cutter): (&ControlTexts, &Cutter),
        (text, marks): (&str, Marks),
        (known, until): (usize, usize),
        mut encode: impl FnMut(&str, &mut Vec<TokenId>) -> Result<(), E>,
    ) -> Result<Option<(usize, Spelled)>, E> {
        let until = until.min(HEAD_TEXT_BYTES);
        let mut cuts = cutter.cuts(control, text, until);
        let Some(last) = cuts.last().copied().filter(|last| last.at > known) else {
            return Ok(None);
        };
        let (mut ids, mut spelled, mut from) = (Vec::new(), Vec::new(), 0);
        for cut in &mut cuts {
            let known = ids.len();
            // Cuts lie where tokens begin. Were one not to, all is encoded, and nothing left out.
            let Some(piece) = text.get(from..cut.at) else { return Ok(None) };
            encode(piece, &mut ids)?;
            id_text::write(&ids[known..], &mut spelled);
            (cut.ids, cut.spelled, from) = (ids.len(), spelled.len(), cut.at);
        }
        let kept = text.as_bytes()[..last.end].into();
        self.clock += 1;
        let (placed, used) = (marks.placed(), self.clock);
        // Without the room that was made for more.
        let spelled = Bytes::copy_from_slice(&spelled);
        let all = Spelled::new(ids.clone(), spelled.clone(), ids.len());
        self.keep(Head { placed, text: kept, cuts, ids, spelled, used });
        Ok(Some((last.at, all)))
    }

    fn keep(&mut self, head: Head) {
        let at = self.place(&head.text, head.placed);
        self.shelf_bytes += head.bytes();
        match self
            .shelf
            .get_mut(at)
            .filter(|old| old.text == head.text && old.placed == head.placed)
        {
            Some(old) => {
                self.shelf_bytes -= old.bytes();
                *old = head;
            }
            None => self.shelf.insert(at, head),
        }
        while self.shelf.len() > KNOWN_HEADS || self.shelf_bytes > KNOWN_HEADS_BYTES {
            let Some(at) = least(self.shelf.iter().map(|head| head.used)) else { break };
            self.shelf_bytes -= self.shelf.remove(at).bytes();
        }
    }
}

#[cfg(test)]
impl Heads {
    /// How many texts are kept, and how many lists of tools.
    pub(super) fn counts(&self) -> (usize, usize) {
        assert_eq!(self.shelf_bytes, self.shelf.iter().map(Head::bytes).sum::<usize>());
        assert!(self.shelf.is_sorted_by_key(|head| (head.placed, &head.text)));
        (self.shelf.len(), self.tools.len())
    }
}

impl Head {
    fn bytes(&self) -> usize {
        let ids = self.ids.len() * size_of::<TokenId>() + self.spelled.len();
        self.text.len() + ids + size_of::<Self>()
    }

    /// The ids before a cut.
    fn until(&self, cut: Cut) -> Spelled {
        let text = self.spelled.slice(..cut.spelled);
        Spelled::new(self.ids[..cut.ids].to_vec(), text, cut.ids)
    }
}

/// Where the least of these is.
fn least(used: impl Iterator<Item = u64>) -> Option<usize> {
    used.enumerate().min_by_key(|(_, used)| *used).map(|(at, _)| at)
}

/// How many bytes two texts begin alike with.
fn common(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 64;
    let steps = one.chunks_exact(STEP).zip(other.chunks_exact(STEP));
    let same = STEP * steps.take_while(|(a, b)| a == b).count();
    same + one[same..].iter().zip(&other[same..]).take_while(|(a, b)| a == b).count()
}

/// Whether two lists of tools render alike.
fn alike(one: &Tools, other: &Tools) -> bool {
    one.len() == other.len() && one.iter().zip(other.iter()).all(|(a, b)| written_alike(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::vocabulary::AddedToken;

    #[test]
    fn a_text_is_cut_before_firm_tokens_that_nothing_crosses() {
        let texts = ["<a>", "[e~[", "]~!b[", "<soft>"];
        let token = |(id, text): (usize, &&str)| AddedToken {
            text: (*text).to_owned(),
            id: id as TokenId,
            contextual: false,
        };
        let added: Vec<AddedToken> = texts.iter().enumerate().map(token).collect();
        let (control, cutter) = (ControlTexts::new(&added), Cutter::new(vec![2, 1, 0]));
        let cuts = |text: &str, until: usize| -> Vec<usize> {
            cutter.cuts(&control, text, until).iter().map(|cut| cut.at).collect()
        };
        assert_eq!(cuts("<a>x<a>y[e~[<soft><a>", 99), [4, 8, 18]);
        assert_eq!(cuts("<a>x<a>y[e~[<soft><a>", 8), [4, 8]);
        assert_eq!(cuts("<a>]~!b[e~[x<a>", 99), [3, 12], "`[e~[` is crossed by `]~!b[`");
        assert!(cuts("é<a", 99).is_empty());
        assert_eq!(cuts(&"<a>".repeat(100), 999).len(), 64);
    }

    #[test]
    fn common_beginnings_are_measured_in_bytes() {
        let long = "x".repeat(200);
        for same in [0, 1, 63, 64, 65, 127, 128, 199, 200] {
            let other = format!("{}y{}", &long[..same], &long[same..]);
            assert_eq!(common(long.as_bytes(), other.as_bytes()), same);
        }
        assert_eq!(common(b"", b"x"), 0);
    }

    #[test]
    fn lists_are_alike_only_where_they_are_written_alike() {
        let list = |text: &str| Tools::from(vec![serde_json::from_str(text).unwrap()]);
        let one = list(r#"{"a": 1, "b": [1.0, -0.0, "x", null]}"#);
        assert!(alike(&one, &list(r#"{"a":1,"b":[1.0,-0.0,"x",null]}"#)));
        for other in [
            r#"{"b": [1.0, -0.0, "x", null], "a": 1}"#,
            r#"{"a": 1.0, "b": [1.0, -0.0, "x", null]}"#,
            r#"{"a": 1, "b": [1.0, 0.0, "x", null]}"#,
            r#"{"a": 1, "b": [1.0, -0.0, "x"]}"#,
        ] {
            assert!(!alike(&one, &list(other)), "{other}");
        }
    }
}
