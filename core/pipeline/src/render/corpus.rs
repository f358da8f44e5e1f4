//! A corpus on which two tokenizers must agree.

use super::{ControlText, Tokenizer};
use crate::id::TokenId;

/// Encodes a built-in corpus with both tokenizers, in both modes; `Err` names the first difference.
pub fn check_against(served: &dyn Tokenizer, reference: &dyn Tokenizer) -> Result<(), String> {
    for text in corpus() {
        for control in [ControlText::Match, ControlText::Plain] {
            compare(served, reference, &text, control)?;
        }
    }
    Ok(())
}

fn compare(
    served: &dyn Tokenizer,
    reference: &dyn Tokenizer,
    text: &str,
    control: ControlText,
) -> Result<(), String> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    served.encode(text, control, &mut ours)?;
    reference.encode(text, control, &mut theirs)?;
    if ours == theirs {
        return Ok(());
    }
    let at = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
    let around = |ids: &[TokenId]| ids[at.min(ids.len())..ids.len().min(at + 4)].to_vec();
    Err(format!(
        "token {at} of {:?} ({control:?}) differs: {:?} here, {:?} in the reference",
        text.chars().take(60).collect::<String>(),
        around(&ours),
        around(&theirs),
    ))
}

/// About 10 KB in pieces: code, prose, scripts, and what tokenizers get wrong.
fn corpus() -> Vec<String> {
    let mut texts: Vec<String> =
        [CODE, SHELL, JSON, PROSE, SCRIPTS, EMOJI, COMPOSED, LOOKALIKES, NUMBERS, BLANKS, ODD]
            .into_iter()
            .map(str::to_owned)
            .collect();
    for piece in
        ["a", " ", "\n", "=", "\t", "é", "字", "😀", "0", "-", "\r\n", "_", "ab", "\u{301}"]
    {
        for length in [2, 3, 17, 170] {
            texts.push(piece.repeat(length));
        }
    }
    // Every cut of a line with all kinds of neighbours, so that each is at a boundary once.
    let line: Vec<char> = "x='é'\t 12ab\n\n {}e\u{301}字<|im_end|>\u{a0}😀's".chars().collect();
    texts.extend((0..line.len()).map(|from| line[from..].iter().collect()));
    texts.extend((0..line.len()).map(|to| line[..to].iter().collect()));
    texts
}

const CODE: &str = r#"
use std::collections::BTreeMap;

/// Counts words.
fn count<'a>(text: &'a str) -> BTreeMap<&'a str, usize> {
    let mut seen = BTreeMap::new();
    for word in text.split_whitespace() {
        *seen.entry(word).or_insert(0) += 1;
    }
    seen
}

class Parser(object):
	def __init__(self, *, depth=0, **kwargs):
		self.depth = depth  # tabs here
		self.re = re.compile(r"^\s*(?P<key>[A-Za-z_]\w*)\s*[:=]\s*(.*?)\s*$", re.M | re.I)

	async def run(self):
		return [x async for x in self.stream() if x is not None and x != "it's"]

SELECT a.id, COUNT(*) AS n FROM t AS a LEFT JOIN u ON u.a_id = a.id WHERE a.x >= 10 AND NOT a.y;
<div class="row" data-x='1'>&nbsp;<a href="https://example.org/p?q=1&r=%20#f">go</a></div>
#include <stdio.h>
int main(void) { for (int i=0;i<10;++i) printf("%d\n", i); return 0; }
const f = async ({a, b = 2, ...rest}) => `${a ?? b}::${JSON.stringify(rest)}`;
"#;

const SHELL: &str = "\
$ git log --oneline -n 3 && ls -la ./src | grep -v '^d' > /tmp/out.txt 2>&1
a37d1df (HEAD -> main) Fix: don't drop the last byte\n\
drwxr-xr-x  2 root root  4096 Jan  1 00:00 .\r\n\
-rw-r--r--  1 root root 12345 Feb 29 12:34 README.md\r\n\
Traceback (most recent call last):\n  File \"x.py\", line 3, in <module>\n    main()\n\
\x1b[31mERROR\x1b[0m: exit code: 137 (OOM)\n100%|##########| 10/10 [00:01<00:00,  7.32it/s]\n";

const JSON: &str = r#"{"name": "bash", "arguments": {"cmd": "echo \"hi\\n\" | sed 's/a/b/'", "n": -1.5e-7,
"list": [1, 2, [], {}, null, true, false], "unicode": "\u00e9\ud83d\ude00", "nested": {"k": {"k": {"k": 0}}}}}
{"a":1,"b":[{"c":"}}"},{"c":"]]"}]}"#;

const PROSE: &str = "\
It was the kind of morning on which nobody's watch agreed: mine said ten past eight, hers a quarter \
to nine, and the station's said nothing at all. \"We'll've missed it,\" she said; I'D SAID SO TOO, \
hadn't I? They're, we've, you'd, he'll, she's, I'm -- and the O'Briens' dog's collar.\n\n\
Second paragraph…  with two spaces, an ellipsis, an em—dash, “curly quotes” and a non\u{a0}breaking \
space. E.g. U.S.A., i.e. 3.14, No. 5, e-mail, co-operate, naïve, façade, Zürich, smörgåsbord.\n\
   * indented bullet\n\t* tabbed bullet\n1) one\n2) two\n\n\n\nAfter four newlines.   \n  \n";

const SCRIPTS: &str = "\
人工智能正在改变世界。我们走吧!你好,世界。2024年12月31日,气温-5℃。\n\
日本語のテキスト:カタカナ、ひらがな、漢字。「引用」です。ﾊﾝｶｸもある。\n\
한국어 문장입니다. 삼겹살 😀 먹고 싶어요. 띄어쓰기 중요!\n\
Привет, мир! Съешь ещё этих мягких французских булок. Ёлка.\n\
مرحبا بالعالم، كيف حالك؟ ١٢٣٤٥ שלום עולם\n\
नमस्ते दुनिया। क्षत्रिय १२३ ไทยไม่มีช่องว่าง ภาษาไทย\n\
Ελληνικά: Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία. Việt Nam: Tiếng Việt rất đẹp.\n\
Türkçe: İstanbul'da ığdır. ქართული ენა. Հայերեն: Բարեւ։ አማርኛ ᏣᎳᎩ\n";

const EMOJI: &str = "😀😃 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇯🇵 ❤️ ☃︎ 1️⃣ 🤷🏿‍♀️ ✈️🛫 \u{200d} \u{fe0f} 🫠🪿 done😀.\n😀a😀1😀\n";

/// Text that NFC changes, text that it must not change, and blanks that are not ASCII.
const COMPOSED: &str = "\
cafe\u{301} café A\u{30a} Å \u{212b} \u{212a} \u{2126} e\u{323}\u{302} e\u{302}\u{323} ệ \u{1112}\u{1161}\u{11ab} 한 \
q\u{307}\u{323} q\u{323}\u{307} \u{1e9b}\u{323} ﬁ ② \u{37e} \u{1fef} \u{2000}\u{2003}\u{3000} \u{fb1d} \u{958} \
s\u{323}\u{307} \u{1100}\u{1161} \u{1100}\u{1161}\u{11a8} \u{f900} \u{2f800} \u{0344} n\u{303}o\n";

/// What spells, or nearly spells, an added token.
const LOOKALIKES: &str = "\
<|im_end|><|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n<tool_call>\n\
{\"name\": \"f\"}\n</tool_call><tool_response></tool_response> <|im_end| > <|im_ end|> < think> <|im_end|\
<|<|im_end|>|> <<think>> </think></think <|endoftext|> <|IM_END|> <|im_endx|> im_end <|vision_pad|> \
<|fim_prefix|> <|file_sep|>a<|repo_name|>b <s></s> [INST] <tool_call <|im_start|><|im_start|>\n";

const NUMBERS: &str = "0 1 12 123 1234 12345 123456789012345678901234567890 1,234,567.89 0x1F3a 1e-10 3.14159 \
     ½ ² ₃ Ⅷ ٣٤ 五 1st 2nd v1.2.3-rc.4 2024-02-29T23:59:60Z 192.168.0.1:8080 +49(0)30/1234-56 a1b2c3\n";

const BLANKS: &str = "a  b   c    d\n\n\ne \n f\t\tg \t h\r\n\r\n  i\u{a0}\u{a0}j\u{2028}k\u{2029}l\u{85}m\
                      \u{b}n\u{c}o\u{200b}p\u{feff}q \n  \n\t\n   ";

const ODD: &str = "\0\u{1}\u{7f}\u{80}\u{9f}\u{ad} \u{fffd}\u{fffe}\u{10ffff} \u{e000}\u{f8ff} !!!??? ---===*** \
     ////\\\\\\\\ ((((([[[[{{{{ }}}}]]]]))))) ;;;;''''\"\"\"\" `````` @#$%^&*~ a.b.c::d->e=>f|>g<=>h 'S 'LL 'vE \
     ſ'ſ K's İ's ẞ ß ŉ\n";

#[cfg(test)]
mod tests {
    use super::super::sample_model::tokenizer_json;
    use super::super::{FastTokenizer, OracleTokenizer};
    use super::*;

    #[test]
    fn the_corpus_is_large_enough_and_deterministic() {
        let size: usize = corpus().iter().map(String::len).sum();
        assert!((9_000..40_000).contains(&size), "{size} bytes");
        assert_eq!(corpus(), corpus());
    }

    #[test]
    fn the_serving_tokenizer_agrees_with_the_reference() {
        let raw = tokenizer_json();
        let (served, reference) =
            (FastTokenizer::load(&raw).unwrap(), OracleTokenizer::load(&raw).unwrap());
        check_against(&served, &reference).unwrap();
        assert_eq!(served.size(), reference.size());
    }

    #[test]
    fn a_difference_is_named() {
        let text = String::from_utf8(tokenizer_json()).unwrap();
        let raw = tokenizer_json();
        let other = text.replace("\"NFC\"", "\"NFD\"");
        assert_ne!(other, text);
        let (served, reference) =
            (FastTokenizer::load(&raw).unwrap(), FastTokenizer::load(other.as_bytes()).unwrap());
        let difference = check_against(&served, &reference).unwrap_err();
        assert!(difference.contains("in the reference"), "{difference}");
    }
}
