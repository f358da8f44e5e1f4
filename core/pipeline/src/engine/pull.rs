//! A reader of JSON for replies whose shape is known: straight from bytes to columns.
//!
//! It knows JSON as engines write it and takes nothing that is none. Whatever else it meets (escaped
//! keys, repeated ones, a field of another type, a value that is cut) it answers with `None`; then
//! the reader that knows all of JSON says what the reply is, or what is wrong with it.

use std::borrow::Cow;

use crate::id::TokenId;

/// Deepest nesting that is skipped.
const DEPTH: u32 = 64;
/// Numbers with more digits than this do not fit a `u64` for sure.
const DIGITS: usize = 19;
/// What all integers below are `f64`s themselves.
const EXACT: u64 = 1 << 53;

/// A place in JSON text.
pub struct Pull<'a> {
    text: &'a [u8],
    at: usize,
}

/// The value of a member; one that is repeated is not understood.
pub struct Slot<T>(pub Option<T>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Slot<T> {
    /// Puts in the member's value.
    pub fn put(&mut self, value: T) -> Option<()> {
        self.0.replace(value).is_none().then_some(())
    }
}

impl<'a> Pull<'a> {
    /// Reads the one value of a text.
    pub fn whole<T>(text: &'a [u8], read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let mut pull = Self { text, at: 0 };
        let value = read(&mut pull)?;
        pull.blank();
        (pull.at == text.len()).then_some(value)
    }

    /// Reads an object; `member` reads the value of each key.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.eat(b'}') {
            return Some(());
        }
        loop {
            let key = self.plain_text()?;
            self.expect(b':')?;
            member(self, key)?;
            if !self.eat(b',') {
                return self.expect(b'}');
            }
        }
    }

    /// Reads an array; `item` reads each value.
    pub fn array(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.eat(b']') {
            return Some(());
        }
        loop {
            item(self)?;
            if !self.eat(b',') {
                return self.expect(b']');
            }
        }
    }

    /// Reads null, or a value.
    pub fn nullable<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.peek()? {
            b'n' => self.literal(b"null").map(|()| None),
            _ => read(self).map(Some),
        }
    }

    /// Reads an integer.
    #[inline]
    pub fn integer(&mut self) -> Option<u32> {
        self.blank();
        let (start, number) = (self.at, self.digits(0));
        let count = self.at - start;
        let leading_zero = count > 1 && self.text[start] == b'0';
        let goes_on = matches!(self.text.get(self.at), Some(b'.' | b'e' | b'E'));
        // More digits than that may have wrapped.
        let fits = (1..=DIGITS).contains(&count) && !leading_zero && !goes_on;
        fits.then(|| u32::try_from(number).ok()).flatten()
    }

    /// Reads a list of ids.
    pub fn ids(&mut self) -> Option<Vec<TokenId>> {
        let mut ids = Vec::with_capacity(512);
        self.array(|pull| {
            ids.push(pull.integer()?);
            Some(())
        })?;
        Some(ids)
    }

    /// Reads a number: the nearest `f64`, and of that the nearest `f32`.
    #[inline]
    pub fn float(&mut self) -> Option<f32> {
        let start = self.blank();
        let negative = self.text.get(start) == Some(&b'-');
        self.at += usize::from(negative);
        let first = self.at;
        let mut mantissa = self.digits(0);
        let mut digits = self.at - first;
        if digits == 0 || digits > 1 && self.text[first] == b'0' {
            return None;
        }
        let mut scale = 0;
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            let point = self.at;
            mantissa = self.digits(mantissa);
            let behind = self.at - point;
            if behind == 0 {
                return None;
            }
            (digits, scale) = (digits + behind, behind);
        }
        if digits > DIGITS || matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            return self.slow_float(start);
        }
        let size = mantissa as f64 / POWERS[scale];
        // Beyond 53 bits the division is not exact: what lies next to the middle of two `f32`s is
        // looked at again.
        let to_middle = (size.to_bits() & 0x1FFF_FFFF).abs_diff(0x1000_0000);
        if mantissa >= EXACT && to_middle < 16 {
            return self.slow_float(start);
        }
        Some(if negative { -size } else { size } as f32)
    }

    /// Reads the number that begins at `start` by the book.
    #[cold]
    fn slow_float(&mut self, start: usize) -> Option<f32> {
        self.at = start;
        self.skip_number()?;
        let text = std::str::from_utf8(&self.text[start..self.at]).ok()?;
        let number: f64 = text.parse().ok()?;
        number.is_finite().then_some(number as f32)
    }

    /// Reads a text.
    pub fn text(&mut self) -> Option<Cow<'a, str>> {
        let start = self.blank();
        let inner = self.quoted()?;
        match inner.contains(&b'\\') {
            false => std::str::from_utf8(inner).ok().map(Cow::Borrowed),
            true => serde_json::from_slice(&self.text[start..self.at]).ok().map(Cow::Owned),
        }
    }

    /// Whether a text comes next.
    pub fn begins_text(&mut self) -> bool {
        self.peek() == Some(b'"')
    }

    /// Passes over a value.
    pub fn skip(&mut self) -> Option<()> {
        self.skip_within(DEPTH)
    }

    fn skip_within(&mut self, depth: u32) -> Option<()> {
        let below = depth.checked_sub(1)?;
        match self.peek()? {
            b'"' => self.quoted().map(drop),
            b'{' => self.object(|pull, _| pull.skip_within(below)),
            b'[' => self.array(|pull| pull.skip_within(below)),
            b'n' => self.literal(b"null"),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            _ => self.skip_number(),
        }
    }

    /// Passes over these very bytes, if they come next.
    #[inline]
    pub fn eat_all(&mut self, text: &[u8]) -> bool {
        let next = self.text[self.at..].starts_with(text);
        self.at += if next { text.len() } else { 0 };
        next
    }

    /// Tries to read something; where that is not understood, it is as if it had not been tried.
    pub fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let start = self.at;
        let value = read(self);
        if value.is_none() {
            self.at = start;
        }
        value
    }

    /// Passes over `[{…}]` where what the braces hold is what was read between two places: engines
    /// list the sampled token first among the likeliest, in the very words of its entry.
    pub fn eat_repeated(&mut self, from: usize, to: usize) -> bool {
        let said = self.text.get(from..to).and_then(|text| text.strip_prefix(b"{"));
        let Some(said) = said.filter(|said| !said.is_empty()) else { return false };
        let next =
            self.text[self.at..].strip_prefix(b"[{").and_then(|next| next.strip_prefix(said));
        let repeated = next.is_some_and(|next| next.starts_with(b"}]"));
        self.at += if repeated { said.len() + 4 } else { 0 };
        repeated
    }

    /// Where it is.
    pub fn place(&self) -> usize {
        self.at
    }

    /// Where the next value begins.
    pub fn begin(&mut self) -> usize {
        self.blank()
    }

    fn skip_number(&mut self) -> Option<()> {
        self.eat(b'-');
        let first = self.at;
        let whole = self.skip_digits()?;
        if whole > 1 && self.text[first] == b'0' {
            return None;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.skip_digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.skip_digits()?;
        }
        Some(())
    }

    /// At least one.
    fn skip_digits(&mut self) -> Option<usize> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        (digits > 0).then_some(digits)
    }

    /// Reads on with a number whose first digits were read already. Wraps beyond [`DIGITS`].
    fn digits(&mut self, mut number: u64) -> u64 {
        while let Some(eight) = self.text[self.at..].first_chunk::<8>() {
            let values = u64::from_le_bytes(*eight) ^ 0x3030_3030_3030_3030;
            let other =
                (values | values.wrapping_add(0x0606_0606_0606_0606)) & 0xF0F0_F0F0_F0F0_F0F0;
            let count = other.trailing_zeros() as usize / 8;
            if count == 0 {
                return number;
            }
            let read = eight_digits(values << (64 - 8 * count));
            number = number.wrapping_mul(POWERS_OF_TEN[count]).wrapping_add(read);
            self.at += count;
            if count < 8 {
                return number;
            }
        }
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        number
    }

    /// Passes over a string; what stands between its quotes.
    fn quoted(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            self.at += plain(&self.text[self.at..]);
            match self.text.get(self.at)? {
                b'"' => break,
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
        self.at += 1;
        Some(&self.text[start..self.at - 1])
    }

    fn escape(&mut self) -> Option<()> {
        let length = match self.text.get(self.at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' => {
                let hex = self.text.get(self.at + 2..self.at + 6)?;
                hex.iter().all(u8::is_ascii_hexdigit).then_some(6)?
            }
            _ => return None,
        };
        self.at += length;
        Some(())
    }

    /// A key: a short string without escapes.
    fn plain_text(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let rest = &self.text[self.at..];
        let length = plain(rest);
        self.at += length + 1;
        let key = &rest[..length];
        (rest.get(length) == Some(&b'"') && key.is_ascii()).then_some(key)
    }

    fn literal(&mut self, text: &[u8]) -> Option<()> {
        self.eat_all(text).then_some(())
    }

    /// Passes over white space; where it then is.
    #[inline]
    fn blank(&mut self) -> usize {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.get(self.at) {
            self.at += 1;
        }
        self.at
    }

    #[inline]
    fn peek(&mut self) -> Option<u8> {
        self.blank();
        self.text.get(self.at).copied()
    }

    #[inline]
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        self.eat(byte).then_some(())
    }
}

/// How many bytes at the start of a string are neither quote, escape nor control characters.
fn plain(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
    let (words, rest) = text.as_chunks::<8>();
    for (at, eight) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*eight);
        let (quotes, escapes) = (word ^ (ONES * 0x22), word ^ (ONES * 0x5C));
        let stops = below(word, 0x20) | below(quotes, 1) | below(escapes, 1);
        if stops != 0 {
            // What is marked wrongly lies behind what is marked rightly.
            return 8 * at + stops.trailing_zeros() as usize / 8;
        }
    }
    let stop = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    8 * words.len() + rest.iter().position(stop).unwrap_or(rest.len())
}

/// The number that eight digits are, the first in the lowest byte.
fn eight_digits(values: u64) -> u64 {
    let twos = values.wrapping_mul(10).wrapping_add(values >> 8);
    let low = (twos & 0x0000_00FF_0000_00FF).wrapping_mul(0x000F_4240_0000_0064);
    let high = ((twos >> 16) & 0x0000_00FF_0000_00FF).wrapping_mul(0x0000_2710_0000_0001);
    low.wrapping_add(high) >> 32
}

const POWERS_OF_TEN: [u64; 9] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Powers of ten that are `f64`s themselves.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

#[cfg(test)]
mod tests;
