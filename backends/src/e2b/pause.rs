//! How long to wait before the next try.

use std::time::Duration;

use hyper::header::{HeaderMap, RETRY_AFTER};

use super::limits;

/// Pauses that double, with jitter so that many clients do not come back together.
#[derive(Debug)]
pub(super) struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    pub fn new() -> Self {
        Self::up_to(limits::LONGEST_PAUSE)
    }

    pub fn up_to(longest: Duration) -> Self {
        Self { next: limits::FIRST_PAUSE, longest }
    }

    /// The next pause: between half of it and all of it.
    pub fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        jitter(pause)
    }
}

/// Between half of this and all of it.
pub(super) fn jitter(pause: Duration) -> Duration {
    let half = pause / 2;
    half + half.mul_f64(chance())
}

/// A number from 0 to 1.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        // Jitter is a kindness; without chance there is none.
        Err(_) => 0.5,
    }
}

/// What the server asks to wait.
pub(super) fn asked(headers: &HeaderMap) -> Option<Duration> {
    let seconds: f64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    let wait = Duration::try_from_secs_f64(seconds).ok()?;
    Some(wait.min(limits::LONGEST_RETRY_AFTER))
}

/// Random letters and digits, 128 bits of them.
pub(super) fn unique() -> Result<String, crate::BackendError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        crate::BackendError::Unusable(format!("the system gives no random bits: {error}"))
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound() {
        let mut pauses = Pauses::up_to(Duration::from_millis(350));
        let drawn: Vec<Duration> = (0..5).map(|_| pauses.next()).collect();
        for (pause, most) in drawn.iter().zip([100, 200, 350, 350, 350]) {
            let most = Duration::from_millis(most);
            assert!(*pause >= most / 2 && *pause <= most, "{drawn:?}");
        }
    }

    #[test]
    fn the_servers_wish_is_bounded() {
        let wish = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            asked(&headers)
        };
        assert_eq!(wish("2"), Some(Duration::from_secs(2)));
        assert_eq!(wish("1e9"), Some(limits::LONGEST_RETRY_AFTER));
        assert_eq!(wish("-1"), None);
        assert_eq!(wish("Wed, 21 Oct 2026 07:28:00 GMT"), None);
    }
}
