//! Where agents come from, so that a bundle of one can be made.

/// An agent as its registry has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Package {
    /// The version that this harness is proven with.
    pub version: &'static str,
    /// What it depends on is taken as it was at the end of this day, `YYYY-MM-DD`.
    pub as_of: &'static str,
    /// The registry and what to start.
    pub source: Source,
}

/// A registry, and how an agent from it is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// npm, run by Node.
    Npm {
        /// Name of the package.
        package: &'static str,
        /// What to start, relative to the bundle's `node_modules`. `{platform}` in it is npm's name of
        /// the platform (`linux-x64`), `{target}` the toolchains' (`x86_64-unknown-linux-musl`).
        entry: &'static str,
        /// The Node to run it with, a version of npm's `node` package; `None`: the entry is a native
        /// program.
        node: Option<&'static str>,
    },
    /// PyPI, in a virtual environment.
    Pypi {
        /// Name of the package.
        package: &'static str,
        /// Its console script.
        script: &'static str,
        /// Further requirements with versions, such as extras it does not ask for by itself.
        with: &'static [&'static str],
    },
}
