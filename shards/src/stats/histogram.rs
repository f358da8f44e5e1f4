//! Times counted in buckets that double in width, by one writer.

use super::Counter;

/// Upper ends of the buckets, in microseconds: 64 µs, 128 µs and so on, a bit over two minutes the
/// last. What is longer is in the sum and the count only.
pub const BUCKETS_US: [u64; 22] = {
    let mut ends = [64; 22];
    let mut at = 1;
    while at < ends.len() {
        ends[at] = ends[at - 1] * 2;
        at += 1;
    }
    ends
};

/// Times of one kind. Written by the owning shard only.
#[derive(Default)]
pub(crate) struct Histogram {
    buckets: [Counter; BUCKETS_US.len()],
    count: Counter,
    sum_us: Counter,
}

/// What a histogram held when it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Per end in [`BUCKETS_US`] how many were in that bucket alone.
    pub buckets: [u64; BUCKETS_US.len()],
    /// How many there were.
    pub count: u64,
    /// Their sum, in microseconds.
    pub sum_us: u64,
}

impl Histogram {
    pub(crate) fn add(&self, us: u64) {
        if let Some(at) = BUCKETS_US.iter().position(|end| us <= *end) {
            self.buckets[at].add(1);
        }
        self.count.add(1);
        self.sum_us.add(us);
    }

    pub(crate) fn read(&self) -> Times {
        Times {
            buckets: self.buckets.each_ref().map(Counter::get),
            count: self.count.get(),
            sum_us: self.sum_us.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_the_first_bucket_that_holds_them() {
        let histogram = Histogram::default();
        for us in [0, 64, 65, 128, 129, 10_000_000_000] {
            histogram.add(us);
        }
        let times = histogram.read();
        assert_eq!(times.buckets[..4], [2, 2, 1, 0]);
        assert_eq!((times.count, times.sum_us), (6, 10_000_000_386));
        assert_eq!(BUCKETS_US[21], 134_217_728);
    }
}
