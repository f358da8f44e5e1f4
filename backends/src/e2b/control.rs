//! The control plane: calls with one answer, retried by E2B's rules, on new paths or old ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::address::{Address, with_query};
use super::config::{ApiVersion, E2bConfig};
use super::limits;
use super::pause::{Pauses, asked};
use super::transport::{Answer, Call, Lost, Transport};
use crate::BackendError;

/// What a create, or a look at a sandbox, answers.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) struct Made {
    #[serde(rename = "sandboxID")]
    pub id: String,
    #[serde(rename = "envdVersion", default)]
    pub daemon: Option<String>,
    #[serde(rename = "envdAccessToken", default)]
    pub token: Option<String>,
    #[serde(default)]
    pub domain: Option<String>,
    #[serde(rename = "cpuCount", default)]
    pub cpus: Option<f64>,
    #[serde(rename = "memoryMB", default)]
    pub memory_mib: Option<u64>,
    #[serde(rename = "diskSizeMB", default)]
    pub disk_mib: Option<u64>,
}

/// One of a list.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) struct Listed {
    #[serde(rename = "sandboxID")]
    pub id: String,
    #[serde(default)]
    pub metadata: Option<std::collections::HashMap<String, String>>,
}

/// What one try to create came to.
#[derive(Debug)]
pub(super) enum Tried {
    Made(Box<Made>),
    /// It never will be.
    Refused(String),
    /// Nothing happened: there is no room now.
    Full {
        wait: Option<Duration>,
        why: String,
    },
    /// Nothing happened.
    Not(String),
    /// It may have happened.
    Unclear {
        wait: Option<Duration>,
        why: String,
    },
}

/// What a server answers that does not know a call.
const LACKING: [StatusCode; 2] = [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];

#[derive(Debug)]
pub(super) struct Control {
    transport: Arc<Transport>,
    address: Address,
    version: ApiVersion,
    request: Duration,
    create: Duration,
    /// What the server turned out to lack.
    old_create: AtomicBool,
    old_list: AtomicBool,
}

impl Control {
    pub fn new(config: &E2bConfig, transport: Arc<Transport>) -> Result<Self, BackendError> {
        let old = config.api_version == ApiVersion::V1;
        Ok(Self {
            transport,
            address: Address::control(config)?,
            version: config.api_version,
            request: config.request,
            create: config.create,
            old_create: AtomicBool::new(old),
            old_list: AtomicBool::new(old),
        })
    }

    /// One try of one call.
    async fn once(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
        wait: Duration,
    ) -> Result<Answer, Lost> {
        let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
        if body.is_some() {
            headers.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
        }
        if let Some(key) = key.and_then(|key| HeaderValue::from_str(key).ok()) {
            headers.push((HeaderName::from_static("idempotency-key"), key));
        }
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let call = Call { method, path: path.to_owned(), headers, body, wait };
        let reply = self.transport.send(&self.address, &call).await?;
        reply.whole(limits::ANSWER_BYTES, self.request).await
    }

    /// A call that may be made twice: retried where the server or the network had a bad moment.
    async fn repeat(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Lost> {
        let mut pauses = Pauses::new();
        for _ in 0..limits::CALL_RETRIES {
            let answer = self.once(method.clone(), path, body, None, self.request).await;
            let wait = match answer {
                Ok(answer) if !retried(&answer) => return Ok(answer),
                Ok(answer) => asked(&answer.headers),
                Err(_) => None,
            };
            tokio::time::sleep(wait.unwrap_or_else(|| pauses.next())).await;
        }
        self.once(method, path, body, None, self.request).await
    }

    /// Calls the new path, or the old one where the server has no new one, which is remembered.
    async fn either<C>(
        &self,
        old: &AtomicBool,
        mut call: impl FnMut(&'static str) -> C,
    ) -> Result<Answer, Lost>
    where
        C: Future<Output = Result<Answer, Lost>> + Send,
    {
        if old.load(Ordering::Acquire) {
            return call("").await;
        }
        let answer = call("/v2").await?;
        if self.version == ApiVersion::V2 || !LACKING.contains(&answer.status) {
            return Ok(answer);
        }
        let older = call("").await?;
        if LACKING.contains(&older.status) {
            // Both say so: what is not there is something else, such as the template.
            return Ok(older);
        }
        old.store(true, Ordering::Release);
        Ok(older)
    }

    /// One try to create; `key` is the same in all tries for one sandbox.
    pub async fn create(&self, body: &Value, key: &str) -> Tried {
        let create = |version: &'static str| async move {
            let path = format!("{version}/sandboxes");
            self.once(Method::POST, &path, Some(body), Some(key), self.create).await
        };
        let answer = match self.either(&self.old_create, create).await {
            Ok(answer) => answer,
            Err(Lost::NotSent(why)) => return Tried::Not(why),
            Err(Lost::Unknown(why)) => return Tried::Unclear { wait: None, why },
        };
        let wait = asked(&answer.headers);
        let why = format!("{}: {}", answer.status, message(&answer.body));
        match answer.status.as_u16() {
            200..=299 => match serde_json::from_slice(&answer.body) {
                Ok(made) => Tried::Made(Box::new(made)),
                Err(error) => {
                    let why = format!("the answer to a create cannot be read: {error}");
                    Tried::Unclear { wait, why }
                }
            },
            429 => Tried::Full { wait, why },
            408 | 500..=599 => Tried::Unclear { wait, why },
            401 | 403 => Tried::Refused(format!("{why} (check `api_key`)")),
            404 => Tried::Refused(format!(
                "{why} (is there a template of this name, and is `api_url` right?)"
            )),
            _ => Tried::Refused(why),
        }
    }

    /// Looks at a sandbox; `None` when there is none.
    pub async fn info(&self, id: &str) -> Result<Option<Made>, BackendError> {
        let path = format!("/sandboxes/{id}");
        let answer = self.repeat(Method::GET, &path, None).await;
        let answer = answer.map_err(|lost| failed("look at sandbox", id, &lost.to_string()))?;
        match answer.status.as_u16() {
            200 => serde_json::from_slice(&answer.body)
                .map(Some)
                .map_err(|error| failed("look at sandbox", id, &error.to_string())),
            404 => Ok(None),
            _ => Err(refused("look at sandbox", id, &answer)),
        }
    }

    /// Gives a sandbox this much time from now; whether it is there.
    pub async fn set_time(&self, id: &str, time: Duration) -> Result<bool, BackendError> {
        let seconds = time.as_secs().max(1);
        let answer = self.renew(id, "timeout", &json!({"timeout": seconds})).await?;
        if answer.status.is_success() {
            return Ok(true);
        }
        if !LACKING.contains(&answer.status) {
            return Err(refused("renew sandbox", id, &answer));
        }
        // There is no such sandbox, or the server knows no such call.
        if self.info(id).await?.is_none() {
            return Ok(false);
        }
        let answer = self.renew(id, "refreshes", &json!({"duration": seconds})).await?;
        match answer.status.is_success() {
            true => Ok(true),
            false => Err(refused("renew sandbox", id, &answer)),
        }
    }

    /// One try; renewals are tried again by their own clock.
    async fn renew(&self, id: &str, call: &str, body: &Value) -> Result<Answer, BackendError> {
        let path = format!("/sandboxes/{id}/{call}");
        let answer = self.once(Method::POST, &path, Some(body), None, self.request).await;
        answer.map_err(|lost| failed("renew sandbox", id, &lost.to_string()))
    }

    /// Ends a sandbox; one that is not there has ended.
    pub async fn kill(&self, id: &str) -> Result<(), BackendError> {
        let path = format!("/sandboxes/{id}");
        let begun = Instant::now();
        let mut pauses = Pauses::new();
        loop {
            let answer = self.repeat(Method::DELETE, &path, None).await;
            let error = match answer {
                Ok(answer) if answer.status.is_success() => return Ok(()),
                Ok(answer) if answer.status == StatusCode::NOT_FOUND => return Ok(()),
                Ok(answer) => refused("destroy sandbox", id, &answer),
                Err(lost) => failed("destroy sandbox", id, &lost.to_string()),
            };
            if begun.elapsed() >= limits::REMOVAL {
                return Err(error);
            }
            tokio::time::sleep(pauses.next()).await;
        }
    }

    /// Sandboxes, running or paused, whose metadata has this value.
    pub async fn list(&self, key: &str, value: &str) -> Result<Vec<Listed>, BackendError> {
        let filter = with_query("", &[(key, value)]);
        let filter = filter.trim_start_matches('?');
        let (mut all, mut next): (Vec<Listed>, Option<String>) = (Vec::new(), None);
        for _ in 0..limits::LIST_PAGES {
            let token = next.as_deref();
            let list = |version: &'static str| async move {
                let path = format!("{version}/sandboxes");
                let mut query = vec![("metadata", filter), ("state", "running,paused")];
                query.extend(token.map(|token| ("nextToken", token)));
                self.repeat(Method::GET, &with_query(&path, &query), None).await
            };
            let answer = self.either(&self.old_list, list).await;
            let answer = answer.map_err(|lost| failed("list", "sandboxes", &lost.to_string()))?;
            if !answer.status.is_success() {
                return Err(refused("list", "sandboxes", &answer));
            }
            let page: Vec<Listed> = serde_json::from_slice(&answer.body)
                .map_err(|error| failed("list", "sandboxes", &error.to_string()))?;
            // A server that knows no filter lists them all.
            let named = |listed: &Listed| {
                listed.metadata.as_ref().and_then(|map| map.get(key)).is_some_and(|v| v == value)
            };
            all.extend(page.into_iter().filter(named));
            let token = answer.headers.get("x-next-token").and_then(|token| token.to_str().ok());
            match token.filter(|token| !token.is_empty()) {
                Some(token) => next = Some(token.to_owned()),
                None => return Ok(all),
            }
        }
        Err(failed("list", "sandboxes", "there is no end to the pages"))
    }
}

/// Whether E2B's rules say to try again.
fn retried(answer: &Answer) -> bool {
    match should_retry(&answer.headers) {
        Some(said) => said,
        None => matches!(answer.status.as_u16(), 429 | 502 | 503 | 504),
    }
}

fn should_retry(headers: &HeaderMap) -> Option<bool> {
    headers.get("should-retry")?.to_str().ok()?.trim().to_ascii_lowercase().parse().ok()
}

/// What an error's body says, or the beginning of it.
pub(super) fn message(body: &[u8]) -> String {
    const SHOWN: usize = 300;
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let said = value.as_ref().and_then(|value| value["message"].as_str());
    let text = said.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    text.chars().take(SHOWN).collect()
}

fn failed(what: &str, id: &str, why: &str) -> BackendError {
    BackendError::Unusable(format!("cannot {what} {id}: {why}"))
}

fn refused(what: &str, id: &str, answer: &Answer) -> BackendError {
    failed(what, id, &format!("{}: {}", answer.status, message(&answer.body)))
}
