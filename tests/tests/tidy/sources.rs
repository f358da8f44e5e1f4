//! Sizes, names, and words that must not be in sources.

use syn::visit::{self, Visit};

use crate::{none, project_files, rust_files, text_of};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
const FORBIDDEN_MODULES: [&str; 7] =
    ["utils", "common", "helpers", "misc", "types", "impls", "mod"];

#[test]
fn no_file_is_too_long() {
    let long = rust_files().into_iter().filter_map(|(path, text)| {
        let lines = text.lines().count();
        (lines > FILE_LINES).then(|| format!("{}: {lines} lines", path.display()))
    });
    none("files over 600 lines", &long.collect::<Vec<_>>());
}

#[test]
fn no_function_is_too_long() {
    let mut found = Vec::new();
    for (path, text) in rust_files() {
        let file = syn::parse_file(&text);
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut functions = Functions::default();
        functions.visit_file(&file);
        let long = functions.0.into_iter().filter(|(_, _, lines)| *lines > FUNCTION_LINES);
        found.extend(long.map(|(name, line, lines)| {
            format!("{}:{line}: `{name}` has {lines} lines", path.display())
        }));
    }
    none("functions over 70 lines", &found);
}

/// Name, first line and number of lines of each function's body.
#[derive(Default)]
struct Functions(Vec<(String, usize, usize)>);

impl Functions {
    fn add(&mut self, name: &syn::Ident, body: &syn::Block) {
        let braces = body.brace_token.span;
        let (start, end) = (braces.open().start().line, braces.close().end().line);
        self.0.push((name.to_string(), start, end.saturating_sub(start).saturating_sub(1)));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig.ident, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig.ident, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.sig.ident, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[test]
fn the_measure_of_functions_measures() {
    let body = "    x();\n".repeat(71);
    let text = format!("impl A {{\nfn long() {{\n{body}}}\nfn short() {{}}\n}}\n");
    let mut functions = Functions::default();
    functions.visit_file(&syn::parse_file(&text).unwrap());
    assert_eq!(functions.0, [("long".into(), 2, 71), ("short".into(), 75, 0)]);
}

#[test]
fn no_module_has_a_name_that_says_nothing() {
    let found = rust_files().into_iter().filter_map(|(path, _)| {
        let parts = path.with_extension("");
        let mut parts = parts.iter().map(|part| part.to_string_lossy().into_owned());
        let bad = parts.find(|part| FORBIDDEN_MODULES.contains(&part.as_str()));
        bad.map(|bad| format!("{}: `{bad}`", path.display()))
    });
    none("forbidden names", &found.collect::<Vec<_>>());
}

#[test]
fn every_source_begins_with_its_contract() {
    let tests = |path: &std::path::Path| path.ends_with("tests.rs");
    let found =
        rust_files().into_iter().filter(|(path, text)| !text.starts_with("//!") && !tests(path));
    let found: Vec<_> = found.map(|(path, _)| path.display().to_string()).collect();
    none("files without a module document on their first line", &found);
}

#[test]
fn nothing_is_left_to_do() {
    let words = ["todo", "unimplemented"].map(|name| format!("{name}!("));
    let found = rust_files().into_iter().filter_map(|(path, text)| {
        let line = text.lines().position(|line| words.iter().any(|word| line.contains(word)))?;
        Some(format!("{}:{}", path.display(), line + 1))
    });
    none("unfinished code", &found.collect::<Vec<_>>());
}

/// Paths of the machines it was made on, and hosts of package registries: neither may be needed.
#[test]
fn nothing_names_a_machine_or_a_registry() {
    // In two parts, so that this file does not hold them.
    let paths = [("/wo", "rk/"), ("/ro", "ot/"), ("/Us", "ers/"), ("../sha", "red")];
    let hosts = [
        ("pypi", ".org"),
        ("python", "hosted.org"),
        ("npm", "js.org"),
        ("npm", "js.com"),
        ("static.crates", ".io"),
        ("index.crates", ".io"),
        ("arti", "factory"),
        ("index", "-url"),
    ];
    let words: Vec<_> = paths.iter().chain(&hosts).map(|(a, b)| format!("{a}{b}")).collect();
    let mut found = Vec::new();
    let files = project_files().into_iter().filter(|path| path.as_os_str() != "Cargo.lock");
    for path in files {
        for (number, line) in text_of(&path).unwrap_or_default().lines().enumerate() {
            found.extend(
                words
                    .iter()
                    .filter(|word| names(line, word))
                    .map(|word| format!("{}:{}: {word}", path.display(), number + 1)),
            );
        }
    }
    none("machine paths and registry hosts", &found);
}

/// Whether the line has the word, and where it is an absolute path, not in the middle of another.
fn names(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !word.starts_with('/') || !before.is_some_and(|c| c.is_alphanumeric() || "}._-".contains(c))
    })
}
