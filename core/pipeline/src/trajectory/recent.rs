//! The last requests of a session: the next one is compared with them, so that only what is new is
//! read, stripped and digested.
//!
//! Messages are compared by handle, and by what they say where handles differ: that costs a look at
//! the text, no digest. What is held here can be worked out anew.

use super::piece::Pieces;
use super::root::Stem;
use super::{Habits, Path, Trajectory};
use crate::limits::RECENT_PATHS;
use crate::record::HistoryMode;
use crate::rules::{Reach, RuleSet, Spot};
use crate::turn::{Message, Role};

/// Messages that a request may lose of an earlier one whose path it takes over: a path that would lose
/// more is copied, for the earlier request may be gone on from as well.
const LOST: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The newest last.
    paths: Vec<Path>,
    /// What `strip` rules made of the messages that they look at, by request; the newest last.
    looked: Vec<Vec<Looked>>,
    pub(super) pieces: Pieces,
    /// What all of this was read by.
    read_by: Option<(HistoryMode, RuleSet)>,
    /// Messages that were folded, ever.
    folded: usize,
}

/// A message that `strip` rules looked at.
#[derive(Debug)]
struct Looked {
    sent: Message,
    spot: Spot,
    left: Option<Option<Message>>,
}

impl Trajectory {
    /// Takes out of a request what `strip` rules hide, and digests it. What began like an earlier
    /// request that was kept is not read again.
    pub fn path(&self, stem: Stem<'_>, messages: &mut Vec<Message>, habits: Habits<'_>) -> Path {
        let recent = &mut self.layer.borrow_mut().recent;
        recent.follow(habits);
        let stripped = recent.strip(messages, habits.rules);
        let mut path = recent.path(messages, habits);
        path.hang(stem);
        path.stripped = stripped;
        path
    }

    /// Keeps a path for the requests to come.
    pub fn keep(&self, path: Path) {
        self.layer.borrow_mut().recent.keep(path);
    }
}

impl Recent {
    /// Drops what was read by other habits.
    pub(super) fn follow(&mut self, habits: Habits<'_>) {
        let same = |(mode, rules): &(HistoryMode, RuleSet)| {
            *mode == habits.mode && rules.is_copy_of(habits.rules)
        };
        if !self.read_by.as_ref().is_some_and(same) {
            *self = Self::default();
            self.read_by = Some((habits.mode, habits.rules.clone()));
        }
    }

    fn keep(&mut self, path: Path) {
        if path.messages.is_empty() {
            return;
        }
        if self.paths.len() >= RECENT_PATHS {
            self.paths.remove(0);
        }
        self.paths.push(path);
    }

    fn path(&mut self, messages: &[Message], habits: Habits<'_>) -> Path {
        let (mut best, mut shared) = (0, 0);
        for (at, path) in self.paths.iter().enumerate().rev() {
            let common = common(path, messages, habits.rules.reads_last());
            if common > shared {
                (best, shared) = (at, common);
            }
            if common == path.messages.len() {
                break;
            }
        }
        let mut path = self.begun(best, shared, messages, habits);
        self.folded += messages.len() - path.messages.len();
        path.grow(messages, habits, &mut self.pieces);
        path
    }

    /// What a request shares with an earlier one: so many messages.
    fn begun(
        &mut self,
        at: usize,
        shared: usize,
        messages: &[Message],
        habits: Habits<'_>,
    ) -> Path {
        let Some(path) = self.paths.get_mut(at) else { return Path::empty(habits) };
        for (held, sent) in path.messages[..shared].iter_mut().zip(messages) {
            if !held.is_copy_of(sent) {
                held.clone_from(sent);
            }
        }
        if shared == messages.len() && shared == path.messages.len() {
            return self.paths.remove(at);
        }
        match path.safe(shared, messages) {
            0 => Path::empty(habits),
            keep if path.messages.len() - keep > LOST => path.begin(keep),
            keep => {
                let mut path = self.paths.remove(at);
                path.cut(keep);
                path
            }
        }
    }

    /// Strips a request; how many of its messages were touched.
    fn strip(&mut self, messages: &mut Vec<Message>, rules: &RuleSet) -> u32 {
        let reach = match rules.strips() {
            Reach::Nothing => return 0,
            Reach::Leading => messages.iter().take_while(|m| instructs(m.role)).count(),
            Reach::All => messages.len(),
        };
        let known = |list: &Vec<Looked>| {
            let pairs = list.iter().zip(&messages[..reach]);
            pairs.take_while(|(looked, sent)| looked.sent.is_copy_of(sent)).count()
        };
        let best = (0..self.looked.len()).max_by_key(|at| known(&self.looked[*at]));
        let mut list = match best.filter(|at| known(&self.looked[*at]) > 0) {
            Some(at) => self.looked.remove(at),
            None => Vec::new(),
        };
        list.truncate(reach);
        let (mut leading, count) = (true, messages.len());
        for (at, sent) in messages[..reach].iter().enumerate() {
            leading = leading && instructs(sent.role);
            let spot = Spot { leading, last: at + 1 == count };
            let same = |l: &Looked| l.spot == spot && (l.sent.is_copy_of(sent) || l.sent == *sent);
            if list.get(at).is_some_and(same) {
                continue;
            }
            let left = rules.stripped(sent, spot);
            let looked = Looked { sent: sent.clone(), spot, left };
            match list.get_mut(at) {
                Some(slot) => *slot = looked,
                None => list.push(looked),
            }
        }
        let touched = list.iter().filter(|looked| looked.left.is_some()).count();
        // Where only what is taken out changed, the former list is of no more use.
        if let Some(at) = self.looked.iter().position(|former| leaves_same(former, &list)) {
            for (new, former) in list.iter_mut().zip(self.looked.remove(at)) {
                new.left = former.left;
            }
        }
        if touched > 0 {
            let mut looked = list.iter();
            messages.retain_mut(|message| {
                let Some(left) = looked.next().and_then(|l| l.left.as_ref()) else { return true };
                left.iter().for_each(|left| message.clone_from(left));
                left.is_some()
            });
        }
        if self.looked.len() >= RECENT_PATHS {
            self.looked.remove(0);
        }
        self.looked.push(list);
        touched as u32
    }
}

/// Whether two lists of messages are the same but for what was taken out of them.
fn leaves_same(former: &[Looked], new: &[Looked]) -> bool {
    let same = |(former, new): (&Looked, &Looked)| {
        former.left == new.left
            && (former.left.is_some()
                || former.sent.is_copy_of(&new.sent)
                || former.sent == new.sent)
    };
    former.len() == new.len() && former.iter().zip(new).all(same)
}

/// How many messages a request has in common with an earlier one, read alike in both.
fn common(path: &Path, messages: &[Message], reads_last: bool) -> usize {
    let same = |(held, sent): &(&Message, &Message)| held.is_copy_of(sent) || held == sent;
    let common = path.messages.iter().zip(messages).take_while(same).count();
    let whole = common == messages.len() && common == path.messages.len();
    match reads_last && !whole {
        // The message that one of them ends in is another one in the middle.
        true => common.min(path.messages.len().min(messages.len()).saturating_sub(1)),
        false => common,
    }
}

fn instructs(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}

#[cfg(test)]
impl Recent {
    /// Requests that are kept; messages that were folded and that were digested, ever.
    pub(super) fn work(&self) -> (usize, usize, usize) {
        (self.paths.len(), self.folded, self.pieces.hashed())
    }

    /// A path is the same, made from the start or from those of the requests before.
    pub(super) fn check(&mut self, path: &Path, messages: &[Message]) {
        self.follow(path.habits());
        let mut anew = Path::empty(path.habits());
        anew.grow(messages, path.habits(), &mut Pieces::default());
        let mut grown = self.path(messages, path.habits());
        for made in [&mut anew, &mut grown] {
            made.hang(path.stem().unwrap());
            assert_eq!(made.shown(), path.shown());
        }
        self.keep(grown);
    }
}
