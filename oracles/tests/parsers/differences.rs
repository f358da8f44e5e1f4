//! Where our parsers and the public ones differ on good output, and why.

/// A named difference.
pub struct Difference {
    pub family: &'static str,
    pub form: &'static str,
    /// Names of the rows it shows in.
    pub rows: &'static [&'static str],
    pub reason: &'static str,
}

impl Difference {
    /// The rows with their family and form.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> + '_ {
        self.rows.iter().map(|row| (self.family, self.form, *row))
    }
}

const fn dropped(family: &'static str, form: &'static str) -> Difference {
    let reason = "theirs drops what stands behind the last call; ours keeps all text";
    Difference { family, form, rows: &["text behind a call"], reason }
}

const fn semicolons(form: &'static str) -> Difference {
    let reason = "theirs takes a semicolon in a JSON string for one between calls, and finds none";
    Difference { family: "Llama31", form, rows: &["code"], reason }
}

const fn not_whole(form: &'static str) -> Difference {
    let reason = "theirs finds no call where text follows it; ours ends a call where its JSON ends";
    Difference { family: "Llama31", form, rows: &["text behind a call"], reason }
}

pub const LISTED: &[Difference] = &[
    dropped("Qwen3", ""),
    dropped("Qwen3Coder", ""),
    dropped("DeepSeekV3", ""),
    dropped("DeepSeekV31", ""),
    dropped("Glm45", ""),
    dropped("KimiK2", ""),
    dropped("MiniMaxM2", ""),
    dropped("Mistral", "list"),
    semicolons(""),
    semicolons("bare"),
    not_whole(""),
    not_whole("bare"),
    Difference {
        family: "Mistral",
        form: "",
        rows: &[
            "an integer",
            "a string",
            "several",
            "escapes",
            "unicode",
            "lines",
            "code",
            "html",
            "nested",
            "numbers",
            "null",
            "digits in a string",
            "truth in a string",
            "an empty string",
            "no arguments",
            "two calls",
            "the same call twice",
            "text and a call",
            "text and two calls",
            "text behind a call",
            "a thought and a call",
            "a thought, text and two calls",
            "a thought that the prompt opened, and a call",
        ],
        reason: "theirs knows the list only, not the form with one marker per call",
    },
];
