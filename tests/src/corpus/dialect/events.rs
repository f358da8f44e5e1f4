//! Server-sent events, read as clients of typed streams do.

use serde_json::Value;

/// The events of a stream that names each one's type, in order. The name on the `event:` line must be
/// the one in the data.
pub(super) fn typed(text: &str) -> Result<Vec<Value>, String> {
    let mut events = Vec::new();
    let mut name = None;
    for line in text.lines() {
        if let Some(told) = line.strip_prefix("event:") {
            name = Some(told.trim());
        } else if let Some(data) = line.strip_prefix("data:") {
            let event: Value =
                serde_json::from_str(data.trim()).map_err(|e| format!("{e}: {data:.300}"))?;
            let kind = event["type"].as_str().unwrap_or_default();
            if name.take().is_some_and(|name| name != kind) {
                return Err(format!("an event of another name: {data:.300}"));
            }
            if kind == "error" || kind == "response.failed" {
                return Err(format!("error event: {data:.600}"));
            }
            events.push(event);
        }
    }
    Ok(events)
}
