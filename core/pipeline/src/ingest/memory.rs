//! What a session knows of its requests in one dialect.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use serde_json::value::RawValue;

use super::hash::{Hash, Key};
use super::intake::Arrived;
use super::layout::{Entries, Known, Layout, MARK, Member, Value, checkpoints, places};
use super::outline::{self, Outline, Start};
use super::shelf::{Kind, Shelf};
use super::watch::Candidate;
use super::{Request, Work, stand_in};
use crate::fault::{Fault, FaultKind};
use crate::limits::{LAYOUT_ENTRIES, LAYOUTS, SEEN_BYTES, SHORT_BYTES};
use crate::protocol::{Dialect, Parts, Past, Read, Whole, mended};
use crate::turn::Asked;

const TOOLS: &str = "tools";

/// Layouts of the latest requests, and what was read from their entries.
pub(crate) struct Memory<P: Parts> {
    /// The latest one first.
    layouts: Vec<Rc<Layout<P>>>,
    /// What entries were read as, and with which tools.
    entries: HashMap<Key, (Rc<P::Entry>, Option<Key>)>,
    pool: P::Pool,
}

impl<P: Parts> Default for Memory<P> {
    fn default() -> Self {
        Self { layouts: Vec::new(), entries: HashMap::new(), pool: P::Pool::default() }
    }
}

/// A request in parts.
struct Cut<'t, P: Parts> {
    outline: Outline<'t>,
    text: &'t str,
    /// Bytes of the rest before the text.
    skip: usize,
    head: Rc<[Member<P>]>,
    tail: Rc<[Member<P>]>,
    /// Whether the tail is as it was.
    same_tail: bool,
}

/// One body that is being read.
struct Reading<'a, P: Parts> {
    dialect: Dialect,
    hash: Hash,
    rest: &'a [u8],
    known: Option<Known<P>>,
    shelf: &'a mut Shelf,
    past: &'a dyn Past,
    work: Work,
}

impl<P: Parts> Memory<P> {
    /// The layouts that a body may follow.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let candidate = |layout: &Rc<Layout<P>>| Candidate {
            checkpoints: layout.checkpoints.clone(),
            layout: layout.clone(),
        };
        self.layouts.iter().map(candidate).collect()
    }

    /// Reads a body.
    pub(super) fn read(
        &mut self,
        dialect: Dialect,
        arrived: Arrived,
        shelf: &mut Shelf,
        past: &dyn Past,
    ) -> Request {
        let Arrived { rest, base, hash } = arrived;
        let known = base.and_then(|base| {
            let layout = base.layout.downcast().ok()?;
            Some(Known { layout, at: base.checkpoint, running: base.running })
        });
        let work = Work::default();
        let mut reading = Reading { dialect, hash, rest: &rest, known, shelf, past, work };
        let parts = self.in_parts(&mut reading);
        self.bound();
        match parts {
            Some((asked, digest)) => Request { asked, digest, work: reading.work },
            None => {
                let bytes = rest.len();
                let work = Work { scanned_bytes: bytes, parsed_bytes: bytes };
                Request { asked: reading.malformed(), digest: hash.of(&rest), work }
            }
        }
    }

    /// What the parts make; `None` where they do not fit together.
    fn in_parts(&mut self, reading: &mut Reading<'_, P>) -> Option<(Result<Asked, Fault>, u128)> {
        let skip = match &reading.known {
            None if reading.rest.starts_with(MARK) => MARK.len(),
            _ => 0,
        };
        let sent = std::str::from_utf8(&reading.rest[skip..]).ok()?;
        let (mut outline, same_tail) = reading.outline(sent)?;
        let mut text = sent;
        let whole;
        if outline.surrogates {
            whole = mended(sent).ok()?;
            text = &whole;
            outline = reading.outline(text)?.0;
        }
        let (tools, standing) = reading.long(&outline, same_tail)?;
        let head = match &reading.known {
            Some(known) => known.layout.head.clone(),
            None => reading.members(&outline.head, &tools, &standing),
        };
        let tail = match &reading.known {
            Some(known) if same_tail => known.layout.tail.clone(),
            _ => reading.members(&outline.tail, &tools, &standing),
        };
        let (entries, bad) = self.entries(reading, &outline, tools.as_ref())?;
        let cut = Cut { outline, text, skip, head, tail, same_tail };
        let frame = reading.frame(&cut)?;
        let digest = digest(reading, &cut, &entries);
        let before = match &reading.known {
            Some(known) => Some((known.layout.clone(), known.checkpoint().entries)),
            None => self.best(&entries),
        };
        let listed = cut.outline.list.is_some();
        let fresh = tools.as_ref().map(|(key, _)| *key);
        let whole = Whole {
            frame,
            tools: tools.map(|(_, read)| read),
            standing: standing.map(|(_, read)| read),
            entries: listed.then_some(&entries.read[..]),
            bad,
        };
        let depends = matches!(&whole.standing, Some(Ok(said)) if P::standing_depends(said));
        let trace = before.as_ref().map(|(layout, shared)| (&layout.trace, *shared));
        let asked = P::asked(whole, reading.past, trace, &mut self.pool);
        let asked = asked.map(|(asked, trace)| {
            if listed && !depends {
                self.keep(reading, cut, Kept { entries, trace, before, tools: fresh });
            }
            asked
        });
        Some((asked, digest))
    }

    /// The entries up to the first that cannot be served, and why it cannot.
    fn entries(
        &mut self,
        reading: &mut Reading<'_, P>,
        outline: &Outline<'_>,
        tools: Option<&(Key, Read<P::Tools>)>,
    ) -> Option<(Entries<P>, Option<Fault>)> {
        let key = tools.map(|(key, _)| *key);
        let tools = tools.and_then(|(_, read)| read.as_deref().ok());
        let mut entries = match &reading.known {
            Some(known) => known.layout.entries.first(known.checkpoint().entries),
            None => Entries::none(),
        };
        let others = reading.known.as_ref().is_some_and(|known| known.layout.tools != key);
        for (index, bytes) in &entries.dependent {
            let at = entries.keys[*index];
            // Equal entries of one body share a reading.
            let read = self.entries.get(&at).filter(|(_, had)| others && *had == key);
            if let Some((entry, _)) = read {
                entries.read[*index] = entry.clone();
                continue;
            }
            if others {
                reading.work.parsed_bytes += bytes.len();
                match P::entry(bytes, *index, tools)? {
                    Ok(entry) => entries.read[*index] = entry,
                    Err(_) => return None,
                }
            }
            // The table has the last reading of an entry, which may have been with other tools: a
            // body that follows no layout must find this one.
            self.entries.insert(at, (entries.read[*index].clone(), key));
        }
        let mut bad = None;
        for written in &outline.entries {
            let index = entries.keys.len();
            let (at, read) = self.entry(reading, written, index, key, tools)?;
            match read {
                _ if bad.is_some() => {}
                Ok(entry) => {
                    if P::entry_depends(&entry) {
                        entries.dependent.push((index, (*written).into()));
                    }
                    entries.read.push(entry);
                }
                Err(fault) => bad = Some(fault),
            }
            entries.keys.push(at);
        }
        Some((entries, bad))
    }

    /// The entry at this index.
    fn entry(
        &mut self,
        reading: &mut Reading<'_, P>,
        written: &str,
        index: usize,
        with: Option<Key>,
        tools: Option<&P::Tools>,
    ) -> Option<(Key, Read<P::Entry>)> {
        let key = reading.hash.key(written.as_bytes());
        let known = self.entries.get(&key);
        if let Some((entry, _)) = known.filter(|(e, had)| *had == with || !P::entry_depends(e)) {
            return Some((key, Ok(entry.clone())));
        }
        // Instructions are at the beginning.
        let standing = index == 0;
        if standing && let Some(entry) = reading.shelf.get(reading.dialect, Kind::Entry, key) {
            self.entries.insert(key, (Rc::clone(&entry), with));
            return Some((key, Ok(entry)));
        }
        reading.work.parsed_bytes += written.len();
        let read = P::entry(written, index, tools)?;
        if let Ok(entry) = &read {
            self.entries.insert(key, (entry.clone(), with));
            if standing && P::entry_is_standing(entry) {
                reading.shelf.put(reading.dialect, Kind::Entry, key, entry.clone());
            }
        }
        Some((key, read))
    }

    /// The layout that begins with most of these entries, and how many.
    fn best(&self, entries: &Entries<P>) -> Option<(Rc<Layout<P>>, usize)> {
        // Of equal ones the latest.
        let layouts = self.layouts.iter().rev();
        let shared = layouts.map(|layout| (layout, layout.entries.shared(entries)));
        shared.max_by_key(|(_, shared)| *shared).map(|(layout, shared)| (layout.clone(), shared))
    }

    fn keep(&mut self, reading: &mut Reading<'_, P>, cut: Cut<'_, P>, kept: Kept<P>) {
        let Kept { entries, trace, before, tools } = kept;
        let known = reading.known.take();
        let from = known.as_ref().map(Known::checkpoint);
        let places = places(&cut.outline, cut.text, cut.skip, from.map_or(0, |from| from.entries));
        let end = match &known {
            Some(known) if cut.same_tail => known.layout.end,
            _ => reading.hash.key(&reading.rest[cut.skip + cut.outline.close..]),
        };
        let layout = Rc::new(Layout {
            checkpoints: checkpoints(known.as_ref(), reading.hash, reading.rest, &places),
            head: cut.head,
            entries,
            tail: cut.tail,
            end,
            tools,
            trace,
            bytes: from.map_or(0, |from| from.at) + reading.rest.len(),
        });
        // It takes the place of the one that it goes on from.
        if let Some((before, shared)) = &before
            && 2 * shared > before.entries.keys.len()
        {
            self.layouts.retain(|layout| !Rc::ptr_eq(layout, before));
        }
        drop((before, known));
        if short_bytes(&layout) > SHORT_BYTES || layout.entries.keys.len() > LAYOUT_ENTRIES {
            return;
        }
        self.layouts.insert(0, layout);
    }

    /// Lets go of what was used longest ago.
    fn bound(&mut self) {
        let mut bytes = 0;
        self.layouts.truncate(LAYOUTS);
        self.layouts.retain(|layout| {
            bytes += layout.bytes;
            bytes <= SEEN_BYTES
        });
        let live: usize = self.layouts.iter().map(|layout| layout.entries.keys.len()).sum();
        if self.entries.len() > 2 * live + 64 {
            self.entries.clear();
            for layout in self.layouts.iter().rev() {
                let entries = layout.entries.keys.iter().zip(&layout.entries.read);
                self.entries
                    .extend(entries.map(|(key, entry)| (*key, (entry.clone(), layout.tools))));
            }
        }
    }
}

/// What is kept of a request.
struct Kept<P: Parts> {
    entries: Entries<P>,
    trace: P::Trace,
    before: Option<(Rc<Layout<P>>, usize)>,
    tools: Option<Key>,
}

fn short_bytes<P: Parts>(layout: &Layout<P>) -> usize {
    let members = layout.head.iter().chain(&*layout.tail);
    let bytes = members.map(|member| match &member.value {
        Value::Short(written) => written.len(),
        Value::Tools(_) | Value::Standing(_) => 0,
    });
    bytes.sum()
}

/// What is long: tools and standing instructions, with what their bytes are known by.
type Long<T> = Option<(Key, Read<T>)>;

/// Those of a request.
type LongOf<P> = (Long<<P as Parts>::Tools>, Long<<P as Parts>::Standing>);

impl<P: Parts> Reading<'_, P> {
    /// The outline of the rest, and whether it ends as the body that it follows.
    fn outline<'t>(&mut self, text: &'t str) -> Option<(Outline<'t>, bool)> {
        let Some(known) = &self.known else {
            self.work.scanned_bytes += text.len();
            return outline::outline(text, Start::Body, P::LIST).map(|outline| (outline, false));
        };
        let start = if known.checkpoint().entries == 0 { Start::List } else { Start::Entry };
        let end = known.layout.end;
        if let Some(middle) = self.rest.len().checked_sub(end.bytes as usize)
            && self.hash.key(&self.rest[middle..]) == end
            && let Some(outline) = text.get(..middle).and_then(|text| outline::middle(text, start))
        {
            self.work.scanned_bytes += middle;
            return Some((outline, true));
        }
        self.work.scanned_bytes += text.len();
        outline::outline(text, start, P::LIST).map(|outline| (outline, false))
    }

    /// Tools and standing instructions.
    fn long(&mut self, outline: &Outline<'_>, same_tail: bool) -> Option<LongOf<P>> {
        let (mut tools, mut standing) = (None, None);
        let mut names = (0, 0, usize::from(outline.list.is_some()));
        if let Some(known) = &self.known {
            let tail = if same_tail { &known.layout.tail[..] } else { &[] };
            for member in known.layout.head.iter().chain(tail) {
                count::<P>(&mut names, &member.name);
                match &member.value {
                    Value::Short(_) => {}
                    Value::Tools(read) => tools = Some((member.key, read.clone())),
                    Value::Standing(read) => standing = Some((member.key, read.clone())),
                }
            }
        }
        let written = outline.head.iter().chain(&outline.tail);
        for member in written.clone() {
            count::<P>(&mut names, &member.name);
            if is_tools(&member.name, member.value) {
                tools = Some(self.tools(member.value)?);
            }
        }
        if names.0 > 1 || names.1 > 1 || names.2 > 1 {
            return None;
        }
        let with = tools.as_ref().and_then(|(_, read)| read.as_deref().ok());
        for member in written {
            if is_standing::<P>(&member.name, member.value) {
                standing = Some(self.standing(member.value, with)?);
            }
        }
        Some((tools, standing))
    }

    fn tools(&mut self, written: &str) -> Option<(Key, Read<P::Tools>)> {
        let key = self.hash.key(written.as_bytes());
        if let Some(tools) = self.shelf.get(self.dialect, Kind::Tools, key) {
            return Some((key, Ok(tools)));
        }
        self.work.parsed_bytes += written.len();
        let read = P::tools(written)?;
        if let Ok(tools) = &read {
            self.shelf.put(self.dialect, Kind::Tools, key, tools.clone());
        }
        Some((key, read))
    }

    fn standing(
        &mut self,
        written: &str,
        tools: Option<&P::Tools>,
    ) -> Option<(Key, Read<P::Standing>)> {
        let key = self.hash.key(written.as_bytes());
        if let Some(standing) = self.shelf.get(self.dialect, Kind::Standing, key) {
            return Some((key, Ok(standing)));
        }
        self.work.parsed_bytes += written.len();
        let read = P::standing(written, tools)?;
        if let Ok(standing) = &read
            && !P::standing_depends(standing)
        {
            self.shelf.put(self.dialect, Kind::Standing, key, standing.clone());
        }
        Some((key, read))
    }

    fn members(
        &self,
        written: &[outline::Member<'_>],
        tools: &Long<P::Tools>,
        standing: &Long<P::Standing>,
    ) -> Rc<[Member<P>]> {
        let member = |member: &outline::Member<'_>| {
            let (key, value) = match (tools, standing) {
                (Some((key, read)), _) if is_tools(&member.name, member.value) => {
                    (*key, Value::Tools(read.clone()))
                }
                (_, Some((key, read))) if is_standing::<P>(&member.name, member.value) => {
                    (*key, Value::Standing(read.clone()))
                }
                _ => {
                    let short = format!("{}:{}", member.key, member.value);
                    (self.short_key(member), Value::Short(short.into()))
                }
            };
            Member { name: (&*member.name).into(), key, value }
        };
        written.iter().map(member).collect()
    }

    /// What a short value is known by: of one whose members have no order, them in one.
    fn short_key(&self, member: &outline::Member<'_>) -> Key {
        let unordered = P::UNORDERED
            .filter(|name| *name == member.name)
            .and_then(|_| serde_json::from_str::<BTreeMap<String, &RawValue>>(member.value).ok());
        match unordered {
            None => self.hash.key(member.value.as_bytes()),
            Some(members) => {
                let mut bytes = Vec::new();
                for (name, value) in members {
                    for text in [&*name, value.get()] {
                        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
                        bytes.extend_from_slice(text.as_bytes());
                    }
                }
                self.hash.key(&bytes)
            }
        }
    }

    fn frame(&mut self, cut: &Cut<'_, P>) -> Option<P::Frame> {
        let mut text = String::from("{");
        for member in cut.head.iter().chain(&*cut.tail) {
            if let Value::Short(written) = &member.value {
                if text.len() > 1 {
                    text.push(',');
                }
                text.push_str(written);
            }
        }
        text.push('}');
        self.work.parsed_bytes += text.len();
        P::frame(&text)
    }

    /// What reading a body ends in that does not fall into parts.
    fn malformed(&self) -> Result<Asked, Fault> {
        let Some(known) = &self.known else { return self.dialect.read(self.rest, self.past) };
        let body = stand_in::body(&known.layout.head, known.checkpoint(), self.rest);
        let unseen = || Fault::new(FaultKind::Internal, "a request was not read; send it again");
        Err(P::form_fault(&body).unwrap_or_else(unseen))
    }
}

/// Counts members that may be there once.
fn count<P: Parts>(names: &mut (usize, usize, usize), name: &str) {
    names.0 += usize::from(name == TOOLS);
    names.1 += usize::from(P::STANDING.is_some_and(|standing| standing == name));
    names.2 += usize::from(name == P::LIST);
}

fn is_tools(name: &str, value: &str) -> bool {
    name == TOOLS && value.starts_with('[')
}

fn is_standing<P: Parts>(name: &str, value: &str) -> bool {
    P::STANDING.is_some_and(|standing| standing == name) && value.starts_with(['"', '['])
}

/// Equal for equal bodies, white space between parts left aside.
fn digest<P: Parts>(reading: &Reading<'_, P>, cut: &Cut<'_, P>, entries: &Entries<P>) -> u128 {
    let list = cut.outline.list.map(|_| {
        let keys = entries.keys.iter();
        let bytes: Vec<u8> = keys.flat_map(|key| key.hash.to_le_bytes()).collect();
        (P::LIST, reading.hash.of(&bytes))
    });
    let mut members: Vec<(&str, u128)> = Vec::with_capacity(cut.head.len() + cut.tail.len() + 1);
    members.extend(cut.head.iter().map(|member| (&*member.name, member.key.hash)));
    members.extend(list);
    members.extend(cut.tail.iter().map(|member| (&*member.name, member.key.hash)));
    if P::UNORDERED.is_some() {
        members.sort_unstable();
    }
    let mut bytes = Vec::new();
    for (name, hash) in members {
        bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&hash.to_le_bytes());
    }
    reading.hash.of(&bytes)
}
