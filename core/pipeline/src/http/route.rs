//! Which call a request is, whose key it carries, which scene it names.

use super::RequestHead;
use crate::fault::Fault;
use crate::id::SessionKey;
use crate::protocol::Dialect;
use crate::scene::Scene;

/// A call of the agents' port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// `POST chat/completions`.
    Chat,
    /// `GET models`.
    Models,
    /// `GET models/ID`.
    Model(String),
    /// `HEAD|GET /`, `/api/hello`: a sign of life.
    Hello,
    /// `GET /healthz`.
    Health,
}

/// Where a request goes.
#[derive(Clone, PartialEq, Debug)]
pub struct Route {
    pub call: Call,
    pub key: Option<SessionKey>,
    pub scene: Option<Scene>,
}

/// Routes a request; a fault comes with the dialect to answer it in.
pub fn route(_head: &RequestHead) -> Result<Route, (Dialect, Fault)> {
    todo!()
}
