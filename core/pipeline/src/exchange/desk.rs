//! What the exchanges of one shard share with each other: things worked out once for all sessions.
//!
//! Whatever is kept here is a copy of something that can be worked out anew: dropping it loses time,
//! nothing else.

use std::cell::RefCell;

use crate::limits::TOOL_LISTS;
use crate::trajectory::ToolDigests;
use crate::turn::Tools;

/// The desk of one shard. Never leaves its thread.
#[derive(Default)]
pub struct Desk {
    /// Digests of lists of tools, those last asked for last.
    tools: RefCell<Vec<(Tools, ToolDigests)>>,
}

impl Desk {
    /// Digests of these tools. All sessions of a job offer the same ones.
    pub(super) fn tool_digests(&self, tools: &Tools) -> ToolDigests {
        let lists = &mut *self.tools.borrow_mut();
        if let Some(at) = lists.iter().rposition(|(held, _)| held.is_copy_of(tools)) {
            lists[at..].rotate_left(1);
        } else {
            if lists.len() >= TOOL_LISTS {
                lists.remove(0);
            }
            lists.push((tools.clone(), ToolDigests::of(tools)));
        }
        lists.last().map_or_else(|| ToolDigests::of(tools), |(_, digests)| digests.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_of_tools_is_digested_once_while_it_is_in_use() {
        let desk = Desk::default();
        let list = |n: usize| Tools::from(vec![json!({"name": n.to_string()})]);
        let first = list(0);
        let digests = desk.tool_digests(&first);
        for n in 1..3 * TOOL_LISTS {
            assert_eq!(desk.tool_digests(&list(n)), ToolDigests::of(&list(n)));
            assert_eq!(desk.tool_digests(&first), digests);
            assert!(desk.tools.borrow().len() <= TOOL_LISTS);
        }
        let held =
            |tools: &Tools| desk.tools.borrow().iter().any(|(held, _)| held.is_copy_of(tools));
        assert!(held(&first), "asked for all the time");
        (0..TOOL_LISTS).for_each(|n| drop(desk.tool_digests(&list(n))));
        assert!(!held(&first));
        assert_eq!(desk.tool_digests(&first), digests);
    }
}
