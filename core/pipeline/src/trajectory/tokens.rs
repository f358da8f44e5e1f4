//! The token layer: a compressed radix tree of ids.
//!
//! An edge holds ids the engine sampled in one generation, or context. Context that begins alike is
//! stored once; sampled ids are never merged with anything, so two equal answers stay two answers.
//!
//! Ids are kept as they are sent, as text ([`id_text`]), and in no other form. Edges that follow each
//! other lie in one *run* of text, so a path is a few pieces that a request shares: one run for each
//! [`RUN_BYTES`], and one more wherever the path leaves a run at which another path went on first.

use bytes::{Buf, Bytes, BytesMut};

use crate::id::TokenId;
use crate::id_text;
use crate::limits::RUN_BYTES;
use crate::planted::{self, Bug};

/// An edge; stays valid when edges are split, and names the same end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct EdgeIndex(u32);

#[derive(Debug)]
struct Edge {
    parent: Option<EdgeIndex>,
    /// The run that it lies in; a root lies in none.
    run: Option<u32>,
    /// Where its text begins and ends in the run.
    text: (u32, u32),
    sampled: bool,
    /// Context edges below; sampled ones need no search.
    context_children: Vec<EdgeIndex>,
    /// Ids from the root to the end of this edge.
    end: u32,
}

/// The text of edges that follow each other.
#[derive(Debug)]
struct Run {
    /// The edge at whose end it begins.
    above: EdgeIndex,
    text: Bytes,
}

impl Run {
    /// Puts text behind what there is, in place unless a request still holds it.
    fn append(&mut self, text: &[u8]) {
        let length = self.text.len() + text.len();
        let held = std::mem::take(&mut self.text);
        let mut grown = match held.try_into_mut() {
            Ok(held) if held.capacity() >= length => held,
            Ok(held) => copy(&held, length),
            Err(held) => copy(&held, length),
        };
        grown.extend_from_slice(text);
        self.text = grown.freeze();
    }
}

/// A copy with room for what comes next, but not for more than a run takes.
fn copy(text: &[u8], length: usize) -> BytesMut {
    let mut copy = BytesMut::with_capacity((2 * length).min(RUN_BYTES).max(length));
    copy.extend_from_slice(text);
    copy
}

/// A forest: each root is an edge without ids.
#[derive(Debug, Default)]
pub(super) struct TokenTree {
    edges: Vec<Edge>,
    runs: Vec<Run>,
}

impl TokenTree {
    pub(super) fn add_root(&mut self) -> EdgeIndex {
        self.push(Edge {
            parent: None,
            run: None,
            text: (0, 0),
            sampled: false,
            context_children: Vec::new(),
            end: 0,
        })
    }

    /// Adds context below `base`, its ids as text, sharing what is there; the edge at whose end it
    /// ends.
    pub(super) fn add_context(&mut self, base: EdgeIndex, mut text: Bytes) -> EdgeIndex {
        let mut at = base;
        while !text.is_empty() {
            let Some((child, common)) = self.matching_child(at, &text) else {
                return self.add_child(at, text, false);
            };
            let whole = common == self.text(child).len();
            at = if whole { child } else { self.split(child, common) };
            text.advance(common);
        }
        at
    }

    pub(super) fn add_sampled(&mut self, base: EdgeIndex, ids: &[TokenId]) -> EdgeIndex {
        if planted::on(Bug::SampledMerged) {
            return self.add_context(base, id_text::of(ids));
        }
        self.add_child(base, id_text::of(ids), true)
    }

    /// Text of the ids from the root to the end of the edge, in pieces that share what is held.
    pub(super) fn pieces(&self, end: EdgeIndex) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        let mut edge = self.edge(end);
        while let Some(run) = edge.run {
            let run = &self.runs[run as usize];
            let piece = run.text.slice(..edge.text.1 as usize);
            if !piece.is_empty() {
                pieces.push(piece);
            }
            edge = self.edge(run.above);
        }
        pieces.reverse();
        pieces
    }

    /// Ids between the ends of two edges, of which `from` lies above `end`; all up to `end`, where
    /// there is none.
    pub(super) fn between(&self, from: Option<EdgeIndex>, end: EdgeIndex) -> Vec<TokenId> {
        let mut above = Vec::new();
        let mut at = Some(end).filter(|end| Some(*end) != from);
        while let Some(edge) = at {
            above.push(edge);
            at = self.edge(edge).parent.filter(|parent| Some(*parent) != from);
        }
        above.iter().rev().flat_map(|edge| self.ids(*edge)).collect()
    }

    pub(super) fn end(&self, edge: EdgeIndex) -> u32 {
        self.edge(edge).end
    }

    /// The edge's own ids, read from their text.
    pub(super) fn ids(&self, edge: EdgeIndex) -> Vec<TokenId> {
        id_text::read(self.text(edge))
    }

    /// The last of the edge's own ids.
    pub(super) fn last_id(&self, edge: EdgeIndex) -> Option<TokenId> {
        id_text::last(self.text(edge))
    }

    /// Ids stored, each prefix counted once.
    pub(super) fn stored(&self) -> usize {
        let above = |edge: &Edge| edge.parent.map_or(0, |parent| self.end(parent));
        self.edges.iter().map(|edge| (edge.end - above(edge)) as usize).sum()
    }

    fn edge(&self, index: EdgeIndex) -> &Edge {
        &self.edges[index.0 as usize]
    }

    fn text(&self, index: EdgeIndex) -> &[u8] {
        let edge = self.edge(index);
        let (start, end) = (edge.text.0 as usize, edge.text.1 as usize);
        edge.run.map_or(&[], |run| &self.runs[run as usize].text[start..end])
    }

    fn matching_child(&self, at: EdgeIndex, text: &[u8]) -> Option<(EdgeIndex, usize)> {
        self.edge(at).context_children.iter().find_map(|&child| {
            let common = id_text::common(self.text(child), text);
            (common > 0).then_some((child, common))
        })
    }

    /// Cuts an edge after `keep` bytes, which are whole ids. The old index keeps the end, so whoever
    /// holds it is unharmed; the new edge holds the front. The text stays where it is.
    fn split(&mut self, edge: EdgeIndex, keep: usize) -> EdgeIndex {
        let text = self.text(edge);
        let keep = match planted::on(Bug::SplitOffByOne) {
            true => keep + text[keep..].iter().take_while(|byte| **byte != b',').count() + 1,
            false => keep,
        };
        let kept = id_text::count(&text[..keep]) as u32;
        let above = self.edge(edge).parent.map_or(0, |parent| self.end(parent));
        let old = &mut self.edges[edge.0 as usize];
        debug_assert!(!old.sampled, "sampled edges are whole");
        let start = old.text.0;
        let cut = start + keep as u32;
        old.text.0 = cut;
        let (parent, run) = (old.parent, old.run);
        let front = self.push(Edge {
            parent,
            run,
            text: (start, cut),
            sampled: false,
            context_children: vec![edge],
            end: above + kept,
        });
        self.edges[edge.0 as usize].parent = Some(front);
        if let Some(parent) = parent {
            for child in &mut self.edges[parent.0 as usize].context_children {
                if *child == edge {
                    *child = front;
                }
            }
        }
        front
    }

    fn add_child(&mut self, parent: EdgeIndex, text: Bytes, sampled: bool) -> EdgeIndex {
        let (ids, bytes) = (id_text::count(&text) as u32, text.len() as u32);
        let end = self.edge(parent).end + ids;
        let (run, start) = self.place(parent, text);
        let child = self.push(Edge {
            parent: Some(parent),
            run: Some(run),
            text: (start, start + bytes),
            sampled,
            context_children: Vec::new(),
            end,
        });
        if !sampled {
            self.edges[parent.0 as usize].context_children.push(child);
        }
        child
    }

    /// Puts text below an edge: behind it where its run ends with it and is not full, else in a run
    /// of its own. The run and where the text begins in it.
    fn place(&mut self, above: EdgeIndex, text: Bytes) -> (u32, u32) {
        let Edge { run, text: (_, end), .. } = *self.edge(above);
        if let Some(index) = run {
            let run = &mut self.runs[index as usize];
            if run.text.len() == end as usize && run.text.len() < RUN_BYTES {
                run.append(&text);
                return (index, end);
            }
        }
        self.runs.push(Run { above, text });
        (self.runs.len() as u32 - 1, 0)
    }

    fn push(&mut self, edge: Edge) -> EdgeIndex {
        self.edges.push(edge);
        EdgeIndex(self.edges.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(tree: &TokenTree, end: EdgeIndex) -> Vec<TokenId> {
        id_text::read(&tree.pieces(end).concat())
    }

    #[test]
    fn common_context_is_stored_once() {
        let mut tree = TokenTree::default();
        let root = tree.add_root();
        let one = tree.add_context(root, id_text::of(&[1, 2, 3, 4]));
        let two = tree.add_context(root, id_text::of(&[1, 2, 9]));
        let inner = tree.add_context(root, id_text::of(&[1, 2]));
        assert_eq!(path(&tree, one), [1, 2, 3, 4]);
        assert_eq!(path(&tree, two), [1, 2, 9]);
        assert_eq!(path(&tree, inner), [1, 2]);
        assert_eq!((tree.end(one), tree.end(two), tree.end(inner)), (4, 3, 2));
        assert_eq!(tree.stored(), 5);
    }

    #[test]
    fn equal_answers_stay_apart() {
        let mut tree = TokenTree::default();
        let root = tree.add_root();
        let prompt = tree.add_context(root, id_text::of(&[1]));
        let (a, b) = (tree.add_sampled(prompt, &[7]), tree.add_sampled(prompt, &[7]));
        assert_ne!(a, b);
        let context = tree.add_context(prompt, id_text::of(&[7]));
        assert!(context != a && context != b, "context never runs along sampled ids");
    }

    #[test]
    fn a_long_path_is_few_pieces() {
        let mut tree = TokenTree::default();
        let (mut end, mut ids, mut sent) = (tree.add_root(), Vec::new(), Vec::new());
        for turn in 0..1_500_u32 {
            let (context, sampled) = (vec![turn; 20], vec![turn + 100_000; 20]);
            let prompt = tree.add_context(end, id_text::of(&context));
            end = tree.add_sampled(prompt, &sampled);
            ids.extend(context.into_iter().chain(sampled));
            // A request that is under way keeps what it was sent.
            if turn % 100 == 0 {
                sent.push((tree.pieces(end), ids.clone()));
            }
        }
        assert_eq!(tree.edges.len(), 3_001);
        let text = id_text::of(&ids).len();
        assert!(tree.pieces(end).len() <= text / RUN_BYTES + 1, "{}", tree.pieces(end).len());
        sent.push((tree.pieces(end), ids));
        for (pieces, ids) in sent {
            assert_eq!(id_text::read(&pieces.concat()), ids);
        }
    }

    #[test]
    fn a_session_of_sixty_thousand_tokens_is_half_a_megabyte() {
        let mut tree = TokenTree::default();
        let mut end = tree.add_root();
        for turn in 0..60 {
            let ids: Vec<TokenId> = (0..1_000).map(|at| 100_000 + turn * 800 + at).collect();
            let prompt = tree.add_context(end, id_text::of(&ids[..700]));
            end = tree.add_sampled(prompt, &ids[700..]);
        }
        assert_eq!(tree.end(end), 60_000);
        let runs = tree.runs.into_iter().map(|run| run.text.try_into_mut().unwrap().capacity());
        let held = runs.sum::<usize>() + tree.edges.len() * size_of::<Edge>();
        assert!(held < 500_000, "{held} bytes");
    }

    proptest! {
        /// Against the plain model: a list of lists.
        #[test]
        fn every_end_keeps_its_ids(
            steps in prop::collection::vec(
                (any::<prop::sample::Index>(), prop::collection::vec(0_u32..3, 0..6), any::<bool>(), any::<bool>()),
                1..60,
            )
        ) {
            let mut tree = TokenTree::default();
            let mut naive = vec![(tree.add_root(), Vec::<TokenId>::new())];
            let mut held = Vec::new();
            for (base, ids, sampled, hold) in steps {
                let (edge, mut expected) = naive[base.index(naive.len())].clone();
                let depth = expected.len();
                let end = match sampled {
                    true => tree.add_sampled(edge, &ids),
                    false => tree.add_context(edge, id_text::of(&ids)),
                };
                expected.extend(&ids);
                naive.push((end, expected));
                prop_assert_eq!(tree.last_id(end), tree.ids(end).last().copied());
                prop_assert_eq!(tree.between(Some(edge), end), &naive[naive.len() - 1].1[depth..]);
                // As long as a request holds a piece, others go on elsewhere.
                if hold {
                    held.push((tree.pieces(end), naive.len() - 1));
                }
                for (end, expected) in &naive {
                    prop_assert_eq!(&path(&tree, *end), expected);
                    prop_assert_eq!(&tree.between(None, *end), expected);
                    prop_assert_eq!(tree.end(*end) as usize, expected.len());
                }
            }
            for (pieces, at) in held {
                prop_assert_eq!(&id_text::read(&pieces.concat()), &naive[at].1);
            }
            let unshared: usize = naive.iter().map(|(_, ids)| ids.len()).sum();
            prop_assert!(tree.stored() <= unshared);
        }
    }
}
