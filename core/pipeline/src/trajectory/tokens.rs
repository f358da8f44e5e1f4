//! The token layer: a compressed radix tree of ids.
//!
//! An edge holds ids the engine sampled in one generation, or context. Context that begins alike is
//! stored once; sampled ids are never merged with anything, so two equal answers stay two answers.

use crate::id::TokenId;
use crate::planted::{self, Bug};

/// An edge; stays valid when edges are split, and names the same end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct EdgeIndex(u32);

#[derive(Debug)]
struct Edge {
    parent: Option<EdgeIndex>,
    ids: Vec<TokenId>,
    sampled: bool,
    /// Context edges below; sampled ones need no search.
    context_children: Vec<EdgeIndex>,
    /// Ids from the root to the end of this edge.
    end: u32,
}

/// A forest: each root is an edge without ids.
#[derive(Debug, Default)]
pub(super) struct TokenTree {
    edges: Vec<Edge>,
}

impl TokenTree {
    pub(super) fn add_root(&mut self) -> EdgeIndex {
        self.push(Edge {
            parent: None,
            ids: Vec::new(),
            sampled: false,
            context_children: Vec::new(),
            end: 0,
        })
    }

    /// Adds context below `base`, sharing what is there; the edge at whose end it ends.
    pub(super) fn add_context(&mut self, base: EdgeIndex, ids: &[TokenId]) -> EdgeIndex {
        let (mut at, mut rest) = (base, ids);
        while !rest.is_empty() {
            let Some((child, common)) = self.matching_child(at, rest) else {
                return self.add_child(at, rest.to_vec(), false);
            };
            at =
                if common < self.edge(child).ids.len() { self.split(child, common) } else { child };
            rest = &rest[common..];
        }
        at
    }

    pub(super) fn add_sampled(&mut self, base: EdgeIndex, ids: Vec<TokenId>) -> EdgeIndex {
        if planted::on(Bug::SampledMerged) {
            return self.add_context(base, &ids);
        }
        self.add_child(base, ids, true)
    }

    /// Ids from the root to the end of the edge, in pieces.
    pub(super) fn pieces(&self, end: EdgeIndex) -> Vec<&[TokenId]> {
        let mut pieces = Vec::new();
        let mut at = Some(end);
        while let Some(index) = at {
            let edge = self.edge(index);
            if !edge.ids.is_empty() {
                pieces.push(edge.ids.as_slice());
            }
            at = edge.parent;
        }
        pieces.reverse();
        pieces
    }

    pub(super) fn end(&self, edge: EdgeIndex) -> u32 {
        self.edge(edge).end
    }

    pub(super) fn ids(&self, edge: EdgeIndex) -> &[TokenId] {
        &self.edge(edge).ids
    }

    /// Ids stored, each prefix counted once.
    pub(super) fn stored(&self) -> usize {
        self.edges.iter().map(|edge| edge.ids.len()).sum()
    }

    fn edge(&self, index: EdgeIndex) -> &Edge {
        &self.edges[index.0 as usize]
    }

    fn matching_child(&self, at: EdgeIndex, ids: &[TokenId]) -> Option<(EdgeIndex, usize)> {
        self.edge(at).context_children.iter().find_map(|&child| {
            let held = &self.edge(child).ids;
            let common = held.iter().zip(ids).take_while(|(a, b)| a == b).count();
            (common > 0).then_some((child, common))
        })
    }

    /// Cuts an edge after `keep` ids. The old index keeps the end, so whoever holds it is unharmed;
    /// the new edge holds the front.
    fn split(&mut self, edge: EdgeIndex, keep: usize) -> EdgeIndex {
        let old = &mut self.edges[edge.0 as usize];
        debug_assert!(!old.sampled, "sampled edges are whole");
        let keep = keep + usize::from(planted::on(Bug::SplitOffByOne));
        let tail = old.ids.split_off(keep);
        let front_ids = std::mem::replace(&mut old.ids, tail);
        let (parent, end) = (old.parent, old.end - old.ids.len() as u32);
        let front = self.push(Edge {
            parent,
            ids: front_ids,
            sampled: false,
            context_children: vec![edge],
            end,
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

    fn add_child(&mut self, parent: EdgeIndex, ids: Vec<TokenId>, sampled: bool) -> EdgeIndex {
        let end = self.edge(parent).end + ids.len() as u32;
        let child = self.push(Edge {
            parent: Some(parent),
            ids,
            sampled,
            context_children: Vec::new(),
            end,
        });
        if !sampled {
            self.edges[parent.0 as usize].context_children.push(child);
        }
        child
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
        tree.pieces(end).concat()
    }

    #[test]
    fn common_context_is_stored_once() {
        let mut tree = TokenTree::default();
        let root = tree.add_root();
        let one = tree.add_context(root, &[1, 2, 3, 4]);
        let two = tree.add_context(root, &[1, 2, 9]);
        let inner = tree.add_context(root, &[1, 2]);
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
        let prompt = tree.add_context(root, &[1]);
        let (a, b) = (tree.add_sampled(prompt, vec![7]), tree.add_sampled(prompt, vec![7]));
        assert_ne!(a, b);
        let context = tree.add_context(prompt, &[7]);
        assert!(context != a && context != b, "context never runs along sampled ids");
    }

    proptest! {
        /// Against the plain model: a list of lists.
        #[test]
        fn every_end_keeps_its_ids(
            steps in prop::collection::vec(
                (any::<prop::sample::Index>(), prop::collection::vec(0_u32..3, 0..6), any::<bool>()),
                1..60,
            )
        ) {
            let mut tree = TokenTree::default();
            let mut naive = vec![(tree.add_root(), Vec::new())];
            for (base, ids, sampled) in steps {
                let (edge, mut expected) = naive[base.index(naive.len())].clone();
                let end = match sampled {
                    true => tree.add_sampled(edge, ids.clone()),
                    false => tree.add_context(edge, &ids),
                };
                expected.extend(ids);
                naive.push((end, expected));
                for (end, expected) in &naive {
                    prop_assert_eq!(&path(&tree, *end), expected);
                    prop_assert_eq!(tree.end(*end) as usize, expected.len());
                }
            }
            let unshared: usize = naive.iter().map(|(_, ids)| ids.len()).sum();
            prop_assert!(tree.stored() <= unshared);
        }
    }
}
