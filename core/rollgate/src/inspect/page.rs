//! The page: a shell of HTML, CSS and JavaScript of ours with the samples as JSON inside.

use rollgate_pipeline::render::Model;
use rollgate_pipeline::sample::Sample;
use serde::Serialize;

const SHELL: &str = include_str!("../../assets/inspect/page.html");
const CSS: &str = include_str!("../../assets/inspect/page.css");
const JS: &str = include_str!("../../assets/inspect/page.js");

/// What the page shows.
#[derive(Debug, Default, Serialize)]
pub struct Page {
    /// The samples, in the order of their files.
    pub samples: Vec<Shown>,
    /// How many there are besides.
    pub left_out: usize,
}

/// A sample and what its tokens say.
#[derive(Debug, Serialize)]
pub struct Shown {
    #[serde(flatten)]
    sample: Sample,
    /// One text per token; `None` without a tokenizer.
    text: Option<Vec<String>>,
}

impl Page {
    /// Adds a sample; `model` tells the texts of its tokens if it is the one that made them.
    pub fn add(&mut self, sample: Sample, model: Option<&Model>) {
        let model = model.filter(|model| model.tokenizer_digest == sample.provenance.tokenizer);
        let text = model.map(|model| {
            let mut bytes = Vec::new();
            let text = |id: &u32| {
                bytes.clear();
                model.detokenize(&[*id], &mut bytes);
                shown(&bytes)
            };
            sample.tokens.iter().map(text).collect()
        });
        self.samples.push(Shown { sample, text });
    }

    /// The page as one file.
    pub fn to_html(&self, title: &str) -> serde_json::Result<String> {
        // What ends a script element, or begins a comment in one, must not stand in it.
        let data = serde_json::to_string(self)?.replace('<', "\\u003c");
        let title = title.replace('&', "&amp;").replace('<', "&lt;");
        Ok([("/*TITLE*/", title.as_str()), ("/*CSS*/", CSS), ("/*JS*/", JS)]
            .iter()
            .fold(SHELL.to_owned(), |page, (place, text)| page.replace(place, text))
            .replace("/*DATA*/", &data))
    }
}

/// A token's bytes as text; a part of a character is shown by its bytes.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_cannot_be_broken_out_of() {
        let page = Page { samples: Vec::new(), left_out: 3 };
        let html = page.to_html("a </script><b>").unwrap();
        assert!(html.contains("a &lt;/script>&lt;b>") && html.contains("\"left_out\":3"));
        assert_eq!(html.matches("</script>").count(), 2, "the shell's own");
        assert!(!html.contains("/*"), "every place is filled");
    }

    #[test]
    fn parts_of_characters_are_shown_by_their_bytes() {
        assert_eq!(shown("é".as_bytes()), "é");
        assert_eq!(shown(&[0xc3]), "\\xc3");
    }
}
