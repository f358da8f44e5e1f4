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

pub const LISTED: &[Difference] = &[];
