//! The table of what each row must give, in the file beside this one.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::dialect::Dialect;

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

/// A row that a dialect cannot say.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The row.
    pub id: String,
    /// The dialect.
    pub dialect: Dialect,
    /// Why.
    pub why: String,
}

/// The table: one table a row, and the rows that are left out in some dialect.
pub fn read() -> (toml::Table, Vec<LeftOut>) {
    let mut table: toml::Table = include_str!("expected.toml").parse().expect("it is TOML");
    let left_out = table.remove("left_out").expect("it says what is left out");
    let left_out: BTreeMap<String, BTreeMap<String, String>> =
        left_out.try_into().expect("tables of dialects");
    let of = |dialect: Dialect| {
        let rows = left_out.get(dialect.name()).into_iter().flatten();
        rows.map(move |(id, why)| LeftOut { id: id.clone(), dialect, why: why.clone() })
    };
    let rows = Dialect::ALL.into_iter().flat_map(of).collect();
    (table, rows)
}

/// What this row must give in this dialect.
pub fn of(table: &toml::Table, id: &str, dialect: Dialect) -> Expected {
    let row = table.get(id).unwrap_or_else(|| panic!("{id} is not in the table"));
    let mut row = row.as_table().expect("a table").clone();
    // What a dialect has otherwise stands in a table of its name.
    for other in Dialect::ALL {
        let own = row.remove(other.name());
        if let Some(toml::Value::Table(own)) = own.filter(|_| other == dialect) {
            row.extend(own);
        }
    }
    row.try_into().unwrap_or_else(|error| panic!("{id}: {error}"))
}
