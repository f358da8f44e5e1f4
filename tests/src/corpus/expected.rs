//! The table of what each row must give, in the file beside this one.

use serde::Deserialize;

/// What a row must give.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Samples of the main line where meaning counts.
    pub sticky: usize,
    /// Samples of the main line where the agent's text counts.
    pub faithful: usize,
    /// Samples without a trained turn of the main line.
    #[serde(default)]
    pub others: usize,
    /// Kinds of links that must be there.
    #[serde(default)]
    pub links: Vec<String>,
    /// How it follows, where it is not plain.
    #[serde(default)]
    pub why: String,
}

/// The table: one table a row, and the reasons for rows that are left out.
pub fn read() -> (toml::Table, Vec<(String, String)>) {
    let mut table: toml::Table = include_str!("expected.toml").parse().expect("it is TOML");
    let left_out = table.remove("left_out").expect("it says what is left out");
    let left_out: toml::Table = left_out.try_into().expect("a table");
    let text = |value: toml::Value| value.as_str().unwrap_or_default().to_owned();
    (table, left_out.into_iter().map(|(id, why)| (id, text(why))).collect())
}

/// What this row must give.
pub fn of(table: &toml::Table, id: &str) -> Expected {
    let row = table.get(id).unwrap_or_else(|| panic!("{id} is not in the table"));
    row.clone().try_into().unwrap_or_else(|error| panic!("{id}: {error}"))
}
