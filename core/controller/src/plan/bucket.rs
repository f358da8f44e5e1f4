//! The token bucket of creations: `burst` at once, `per_minute` in the long run, never more.

use super::chance::Chance;
use super::{Rate, Tick};

/// Part of the distance between two creations by which it may be longer, as a divisor.
const JITTER_PART: u64 = 4;
const MICROS_PER_MINUTE: u64 = 60_000_000;

/// Counts in microseconds, so that thousands a minute are still exact.
///
/// `full_at` is when the bucket would be full again; each creation moves it by one distance. Whoever
/// has to wait waits a random part longer: jitter only ever slows down, so the bound holds.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    distance: u64,
    room: u64,
    full_at: u64,
    jitter: u64,
}

impl Bucket {
    pub(super) fn new(rate: Rate) -> Self {
        let distance = MICROS_PER_MINUTE.div_ceil(u64::from(rate.per_minute.max(1)));
        let room = distance.saturating_mul(u64::from(rate.burst.max(1) - 1));
        Self { distance, room, full_at: 0, jitter: 0 }
    }

    /// When the next one may be taken.
    pub(super) fn next(&self) -> Tick {
        match self.full_at.saturating_sub(self.room) {
            0 => Tick(0),
            due => Tick(due.saturating_add(self.jitter).div_ceil(1_000)),
        }
    }

    /// Takes one, which must be due.
    pub(super) fn take(&mut self, now: Tick, chance: &mut Chance) {
        let now = now.0.saturating_mul(1_000);
        self.full_at = self.full_at.max(now).saturating_add(self.distance);
        let waits = self.full_at.saturating_sub(self.room) > now;
        self.jitter = if waits { chance.up_to(self.distance / JITTER_PART) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_window_sees_more_than_burst_and_rate() {
        for (per_minute, burst) in [(60, 1), (600, 8), (100_000, 3), (7, 2)] {
            let mut bucket = Bucket::new(Rate { per_minute, burst });
            let (mut chance, mut now, mut taken) = (Chance::new(1), Tick(0), Vec::new());
            for round in 0..400_u64 {
                now = now.max(bucket.next());
                if round % 50 == 49 {
                    now = now.after(100_000);
                }
                bucket.take(now, &mut chance);
                taken.push(now.0);
            }
            for (index, from) in taken.iter().enumerate() {
                for (more, to) in taken[index..].iter().enumerate() {
                    let most = u64::from(burst) + (to - from) * u64::from(per_minute) / 60_000;
                    assert!(more as u64 <= most, "{} within {}", more + 1, to - from);
                }
            }
        }
    }

    #[test]
    fn it_does_not_crawl() {
        let mut bucket = Bucket::new(Rate { per_minute: 600, burst: 5 });
        let (mut chance, mut now) = (Chance::new(3), Tick(0));
        for _ in 0..105 {
            now = now.max(bucket.next());
            bucket.take(now, &mut chance);
        }
        assert!((9_900..=10_200).contains(&now.0), "{now:?}");
    }
}
