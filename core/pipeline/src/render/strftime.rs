//! Dates for templates, from a time that is given.
//!
//! `strftime_now` in a template reads the clock; here the time is an input, pinned per session.

/// Writes `seconds` since the epoch, in UTC, by a format of C's `strftime`.
pub(super) fn format(seconds: i64, format: &str) -> Result<String, String> {
    let date = Date::of(seconds);
    let mut out = String::with_capacity(format.len() + 16);
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let (padded, code) = match chars.next() {
            Some('-') => (false, chars.next()),
            code => (true, code),
        };
        match code.and_then(|code| date.field(code, padded)) {
            Some(text) => out.push_str(&text),
            None => return Err(format!("strftime_now cannot write the format {format:?}")),
        }
    }
    Ok(out)
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

struct Date {
    year: i64,
    month: usize,
    day: i64,
    weekday: usize,
    day_of_year: i64,
    second_of_day: i64,
}

impl Date {
    /// Civil date of the proleptic Gregorian calendar, counted in eras of 400 years that begin in
    /// March, so that the leap day is the last of its year.
    fn of(seconds: i64) -> Self {
        let days = seconds.div_euclid(86_400);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let march_day = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * march_day + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let day_of_year =
            if month <= 2 { march_day - 305 } else { march_day + 60 + i64::from(leap) };
        Self {
            year,
            month: month as usize,
            day: march_day - (153 * march_month + 2) / 5 + 1,
            weekday: (days + 4).rem_euclid(7) as usize,
            day_of_year,
            second_of_day: seconds.rem_euclid(86_400),
        }
    }

    fn field(&self, code: char, padded: bool) -> Option<String> {
        let pad = |value: i64, width: usize| {
            if padded { format!("{value:0width$}") } else { value.to_string() }
        };
        let hour = self.second_of_day / 3_600;
        let month = MONTHS.get(self.month.checked_sub(1)?)?;
        let weekday = DAYS.get(self.weekday)?;
        Some(match code {
            'Y' => self.year.to_string(),
            'y' => pad(self.year.rem_euclid(100), 2),
            'm' => pad(self.month as i64, 2),
            'd' => pad(self.day, 2),
            'e' => format!("{:2}", self.day),
            'j' => pad(self.day_of_year, 3),
            'B' => (*month).to_owned(),
            'b' | 'h' => month.chars().take(3).collect(),
            'A' => (*weekday).to_owned(),
            'a' => weekday.chars().take(3).collect(),
            'H' => pad(hour, 2),
            'I' => pad((hour + 11) % 12 + 1, 2),
            'p' => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
            'M' => pad(self.second_of_day / 60 % 60, 2),
            'S' => pad(self.second_of_day % 60, 2),
            'Z' => "UTC".to_owned(),
            'z' => "+0000".to_owned(),
            'F' => format!("{}-{}-{}", self.year, pad(self.month as i64, 2), pad(self.day, 2)),
            'T' => format!(
                "{:02}:{:02}:{:02}",
                hour,
                self.second_of_day / 60 % 60,
                self.second_of_day % 60
            ),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::format;

    #[test]
    fn dates_are_written_as_python_does() {
        for (seconds, pattern, expected) in [
            (0, "%Y-%m-%d %H:%M:%S", "1970-01-01 00:00:00"),
            (1_709_210_096, "%d %b %Y", "29 Feb 2024"),
            (
                1_709_210_096,
                "%A, %B %-d, %Y %I:%M %p day %j",
                "Thursday, February 29, 2024 12:34 PM day 060",
            ),
            (1_735_689_599, "%a %F %T %y %j", "Tue 2024-12-31 23:59:59 24 366"),
            (-1, "%F", "1969-12-31"),
            (951_782_400, "100%% %j %e", "100% 060 29"),
        ] {
            assert_eq!(format(seconds, pattern).as_deref(), Ok(expected), "{pattern}");
        }
        assert!(format(0, "%Q").is_err());
        assert!(format(0, "%").is_err());
    }
}
