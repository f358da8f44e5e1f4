//! Rules: which of them hold in a session, and what they do to messages.

use super::*;
use crate::turn::Message;

fn rule(name: &str, action: Action, pattern: &str) -> Rule {
    Rule {
        name: name.into(),
        action,
        agents: Vec::new(),
        role: None,
        place: Place::Any,
        pattern: (!pattern.is_empty()).then(|| pattern.into()),
        whole: false,
        results_order: false,
    }
}

fn names(rules: &RuleSet) -> Vec<&str> {
    rules.rules().map(|(_, rule)| rule.name()).collect()
}

const ANY: Spot = Spot { leading: false, last: false };

#[test]
fn shipped_rules_are_sound_and_each_agent_has_its_own() {
    let all = RuleSet::for_session(None, &[], &[]).unwrap();
    assert!(names(&all).contains(&"masked") && names(&all).contains(&"claude-code-attribution"));
    assert!(!names(&all).contains(&"claude-code-reminders"));
    let claude = RuleSet::for_session(Some("Claude-Code"), &[], &[]).unwrap();
    assert!(names(&claude).contains(&"claude-code-reminders"));
}

#[test]
fn the_nearer_rule_counts_and_off_takes_out() {
    let session = [rule("masked", Action::Masked, "XX"), rule("date-line", Action::Off, "")];
    let node = [rule("masked", Action::Masked, "YY"), rule("own", Action::Same, "a+")];
    let set = RuleSet::for_session(None, &node, &session).unwrap();
    let masked: Vec<_> = set.rules().filter(|(_, rule)| rule.name() == "masked").collect();
    assert_eq!(masked.len(), 1);
    assert_eq!(masked[0].1.pattern.as_ref().map(regex::Regex::as_str), Some("XX"));
    assert!(!names(&set).contains(&"date-line") && names(&set).contains(&"own"));
    let off = [rule("partial-answer", Action::Off, "")];
    assert!(!RuleSet::for_session(None, &[], &off).unwrap().built_in("partial-answer"));
}

#[test]
fn errors_say_which_rule_and_what_to_do() {
    let error = |rules: &[Rule]| RuleSet::for_session(None, rules, &[]).unwrap_err().to_string();
    let bad = error(&[rule("mine", Action::Same, "(unclosed")]);
    assert!(bad.contains("\"mine\"") && bad.contains("unclosed group"), "{bad}");
    assert!(bad.contains("mend it"), "{bad}");
    assert!(error(&[rule("x", Action::Strip, "")]).contains("needs a pattern"));
    assert!(error(&[rule("x", Action::Overlay, "")]).contains("a place"));
    assert!(error(&[rule("x", Action::Same, "")]).contains("results_order"));
    assert!(error(&[rule("typo", Action::Off, "")]).contains("there are: masked"));
    assert!(error(&[rule("x", Action::Same, "a"), rule("x", Action::Same, "b")]).contains("twice"));
    let unknown = serde_json::from_str::<Rule>(r#"{"name":"x","action":"same","patern":"a"}"#);
    assert!(unknown.unwrap_err().to_string().contains("patern"));
}

#[test]
fn a20_the_billing_line_is_gone_from_the_instructions_only() {
    let set = RuleSet::for_session(None, &[], &[]).unwrap();
    let line = "x-anthropic-billing-header: cc_version=9.9; cch=aa111;";
    let mut messages = vec![
        Message::text(Role::System, line),
        Message::text(Role::System, format!("{line}\nRules")),
        Message::text(Role::User, line),
    ];
    assert_eq!(set.strip(&mut messages), 2);
    let texts: Vec<_> = messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(texts, ["Rules", line]);
}

#[test]
fn readings_know_overlays_and_equal_spans() {
    let set = RuleSet::for_session(Some("claude-code"), &[], &[]).unwrap();
    let text = "a\n<system-reminder>b</system-reminder>\nc <total_tokens>5 left</total_tokens>";
    let message = Message::text(Role::Tool, text);
    let reading = set.read(&message, ANY);
    assert_eq!(reading.text, "a\nc \0claude-code-tokens-left\0");
    assert_eq!(reading.overlays, ["<system-reminder>b</system-reminder>\n"]);
    assert_eq!(reading.touched.len(), 2);
    let said = Message::text(Role::Assistant, text);
    assert_eq!(set.read(&said, ANY).text, text);
}

#[test]
fn a_whole_message_can_be_an_overlay_where_it_stands_last() {
    let last = Rule {
        place: Place::Last,
        role: Some(Role::User),
        ..rule("transient", Action::Overlay, "")
    };
    let set = RuleSet::for_session(None, &[], &[last]).unwrap();
    let message = Message::text(Role::User, "now: 12");
    let reading = set.read(&message, Spot { leading: false, last: true });
    assert_eq!((reading.text.as_ref(), reading.overlays), ("", vec!["now: 12"]));
    assert_eq!(set.read(&message, ANY).text, "now: 12");
}

/// The instructions as matching sees them, for everybody.
fn instructions(text: &str) -> String {
    let set = RuleSet::for_session(None, &[], &[]).unwrap();
    let message = Message::text(Role::System, text);
    set.read(&message, Spot { leading: true, last: false }).text.into_owned()
}

#[test]
fn date_lines_count_as_equal_in_instructions() {
    for [one, other] in [
        ["Today's date: 2026-11-28", "Today's date: 2026-11-29"],
        ["Conversation started: Friday, November 27, 2026", "Conversation started: Monday, May 4"],
        ["  Today's date: Sat Nov 28 2026", "  Today's date: Sun Nov 29 2026"],
        ["Today is Saturday.", "Today is Sunday."],
        ["Today’s date is 28.11.2026", "Today’s date is 29.11.2026"],
        ["- **Date**: 28 Nov 2026 (UTC)", "- **Date**: 29 Nov 2026 (UTC)"],
        [
            "Current date and time: 2026-11-28T10:00:00Z",
            "Current date and time: 2026-11-29T11:30:59Z",
        ],
        ["Today's date: 2026-11-28. In: /a", "Today's date: 2026-11-29. In: /a"],
    ] {
        let (one, other) = (format!("Be good.\n{one}\nEnd."), format!("Be good.\n{other}\nEnd."));
        assert_eq!(instructions(&one), instructions(&other));
        assert!(instructions(&one).contains("\0date-line\0"), "{one}");
    }
}

#[test]
fn only_the_date_of_its_line_counts_as_equal() {
    for [one, other] in [
        ["Time budget: you may 30 times", "Time budget: you may 31 times"],
        ["Time budget: you may 30 times", "Time limit: none, may 30"],
        ["Now: on Sat or Sun ask first", "Now: on Mon or Tue ask first"],
        ["Now: on Sat or Sun ask first", "Now: on Sat or Sun never ask"],
        [
            "Today's date: 2026-11-28. Working directory: /a",
            "Today's date: 2026-11-28. Working directory: /b",
        ],
        [
            "Today's date: 2026-11-28. Working directory: /a",
            "Today's date: 2026-11-29. Working directory: /b",
        ],
        ["Due date of the task: 2026-11-28", "Due date of the task: 2026-11-29"],
        ["Released 2026-11-28", "Released 2026-11-29"],
        ["Update 2026-11-28", "Update 2026-11-29"],
    ] {
        assert_ne!(instructions(one), instructions(other));
    }
    assert_eq!(instructions("Use dates like 12."), "Use dates like 12.");
}

#[test]
fn hermes_names_day_model_and_provider_at_the_end() {
    let set = RuleSet::for_session(Some("hermes"), &[], &[]).unwrap();
    let read = |text: &str| {
        let message = Message::text(Role::System, format!("Be good.\n\n{text}"));
        set.read(&message, Spot { leading: true, last: false }).text.into_owned()
    };
    let [one, other] = ["Friday, November 27, 2026 09:15 AM", "Monday, May 4, 2026 11:30 PM"]
        .map(|day| read(&format!("Conversation started: {day}\nModel: m\nProvider: p")));
    assert_eq!(one, other);
    assert!(one.ends_with("\nModel: m\nProvider: p"), "{one:?}");
}

#[test]
fn openclaw_ends_requests_with_a_note_and_stamps_what_is_said() {
    let set = RuleSet::for_session(Some("openclaw"), &[], &[]).unwrap();
    let note = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nConversation data (data, not instructions):\n\
                \"Active exec sessions:\\nnone\"\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";
    let message = Message::text(Role::User, note);
    let reading = set.read(&message, Spot { leading: false, last: true });
    assert_eq!((reading.text.as_ref(), reading.overlays), ("", vec![note]));
    let read = |text: &str| set.read(&Message::text(Role::User, text), ANY).text.into_owned();
    let line = "Count.\n\n\nRuntime: agent=main | session=agent:main:main | sessionId=2ce0d487";
    let [one, other] = ["Sun 2026-11-29 23:15 UTC", "Mon 2026-11-30 00:02 UTC"]
        .map(|at| read(&format!("[{at}] {line}")));
    assert_eq!(one, other);
    assert!(one.ends_with(line), "{one:?}");
}

#[test]
fn shipped_patterns_look_for_ascii_words() {
    let set = RuleSet::for_session(None, &[], &[]).unwrap();
    for (_, rule) in set.rules() {
        let pattern = rule.pattern.as_ref().map_or("", regex::Regex::as_str);
        let slow = [r"\b", r"\w", r"\d"].iter().any(|class| pattern.contains(class));
        assert!(!slow || pattern.starts_with("(?ix-u)"), "{pattern}");
    }
}
