//! Sandboxes of E2B, or of any server that speaks its protocol, by a client of our own.
//!
//! The control plane (REST) makes and ends sandboxes, the daemon in each (Connect-RPC with JSON)
//! runs commands. A sandbox carries in its metadata whose it is and which create it came from; the
//! service ends it when its time is not renewed, so nothing outlives a Rollgate for long. What
//! cannot be done with E2B is refused with the reason.

mod address;
mod config;
mod control;
mod create;
mod daemon;
mod gate;
mod limits;
mod lives;
mod mounts;
mod owner;
mod pause;
mod run;
mod sandbox;
mod script;
mod stream;
mod transport;

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::{Backend, BackendError, Reach, Sandbox, Spec};
use address::{Address, Origin};
pub use config::{ApiVersion, E2bConfig, HttpVersion, Program, Route};
use control::{Control, Listed};
use gate::Gate;
use lives::Lives;
use owner::{Holder, Owner};
use transport::{Dialer, Transport};

/// The backend of one E2B service.
#[derive(Debug)]
pub struct E2b(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: E2bConfig,
    owner: Owner,
    transport: Arc<Transport>,
    control: Arc<Control>,
    gate: Gate,
    lives: Arc<Lives>,
}

impl Inner {
    /// Whether other sandboxes, or the control plane, are on this server too.
    fn shared_origin(&self, origin: &Origin) -> bool {
        let other = Address::sandbox(&self.config, "another", None, None);
        let control = Address::control(&self.config);
        [other, control].into_iter().flatten().any(|address| address.origin == *origin)
    }
}

impl E2b {
    /// A backend; nothing is sent before the first `create` or `sweep`. Errors name the setting
    /// that is wrong.
    pub fn new(config: E2bConfig) -> Result<Self, BackendError> {
        config.check()?;
        // A template of addresses that cannot be filled is found now, not at the first sandbox.
        Address::sandbox(&config, "id", None, None)?;
        let dialer = Dialer::new(config.http, config.tls_verify)?;
        let transport = Arc::new(Transport::new(dialer));
        Ok(Self(Arc::new(Inner {
            owner: Owner::this()?,
            control: Arc::new(Control::new(&config, transport.clone())?),
            transport,
            gate: Gate::new(config.creates_in_flight),
            lives: Arc::new(Lives::new(config.ttl)),
            config,
        })))
    }
}

#[async_trait::async_trait]
impl Backend for E2b {
    fn name(&self) -> &'static str {
        "e2b"
    }

    fn isolation(&self) -> String {
        let E2bConfig { domain, api_url, .. } = &self.0.config;
        let place = api_url.as_ref().unwrap_or(domain);
        format!(
            "a virtual machine per sandbox, as far as the service at {place} keeps to it; size and \
             network are those of the template"
        )
    }

    async fn reach(&self) -> Result<Reach, BackendError> {
        Ok(Reach::Public)
    }

    async fn create(&self, spec: &Spec) -> Result<Box<dyn Sandbox>, BackendError> {
        let (send, receive) = tokio::sync::oneshot::channel();
        let (inner, spec) = (self.0.clone(), spec.clone());
        // In a task of its own: a caller that goes away must not take the handle of a sandbox
        // along that the service has made, or is making.
        tokio::spawn(async move {
            let created = create::create(inner, spec).await;
            if let Err(Ok(orphan)) = send.send(created)
                && let Err(error) = orphan.destroy().await
            {
                tracing::warn!(%error, "a sandbox that nobody waited for is left to the sweep");
            }
        });
        match receive.await {
            Ok(created) => Ok(Box::new(created?)),
            Err(_) => Err(BackendError::Unusable("e2b: the runtime is ending".to_owned())),
        }
    }

    async fn sweep(&self) -> Result<usize, BackendError> {
        let Inner { control, owner, .. } = &*self.0;
        let found = control.list(owner::SCOPE, &owner.scope).await?;
        let left_over = found.into_iter().filter(|listed| self.0.is_left_over(listed));
        let mut left_over = left_over.take(limits::SWEPT_AT_ONCE);
        let (mut removals, mut removed) = (JoinSet::new(), 0);
        loop {
            while removals.len() < limits::UPKEEP_IN_FLIGHT {
                let Some(listed) = left_over.next() else { break };
                let control = control.clone();
                removals.spawn(async move { control.kill(&listed.id).await });
            }
            match removals.join_next().await {
                Some(Ok(Ok(()))) => removed += 1,
                Some(Ok(Err(error))) => tracing::warn!(%error, "a left-over sandbox stays"),
                Some(Err(error)) => tracing::warn!(%error, "a removal was stopped"),
                None => return Ok(removed),
            }
        }
    }
}

impl Inner {
    /// Whether nobody holds a sandbox: its owner is dead, or it is ours and we do not know it,
    /// which is what a create leaves behind whose answer was lost, or a failed removal.
    fn is_left_over(&self, listed: &Listed) -> bool {
        let Some(metadata) = &listed.metadata else { return false };
        match self.owner.holder(metadata) {
            Holder::Dead => true,
            Holder::Us => {
                let create = metadata.get(owner::CREATE);
                let creating = create.is_some_and(|create| self.lives.is_creating(create));
                !creating && !self.lives.holds(&listed.id)
            }
            Holder::Living | Holder::Elsewhere => false,
        }
    }
}

fn io(what: String) -> impl FnOnce(std::io::Error) -> BackendError {
    move |source| BackendError::Io { what: format!("cannot {what}"), source }
}
