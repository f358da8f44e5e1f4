//! How trajectories become samples, case by case. The cases are those that another gateway's public
//! tests name for its own tree; where its rule loses sampled tokens or ours differs, the case says so.
//!
//! Requests are written as `S U A1 T`: instructions, a user, the first answer replayed, a tool result.
//! Samples are written as `1{2}`: turns in order, trained ones in braces.

mod talk;

use rollgate_tests::gate::{Gate, Settings};
use rollgate_tests::samples;
use rollgate_tests::scripted::Scripted;
use serde_json::json;
use talk::Talk;

struct Case {
    id: &'static str,
    requests: &'static [&'static str],
    samples: &'static [&'static str],
    /// How our rule differs; empty where it does not.
    differs: &'static str,
}

const fn case(
    id: &'static str,
    requests: &'static [&'static str],
    samples: &'static [&'static str],
    differs: &'static str,
) -> Case {
    Case { id, requests, samples, differs }
}

const SHARED: &str =
    "a shared span is trained in the last main branch that has it, not in the first";
const KEPT: &str = "no threshold: a changed answer is a branch, and both answers are trained";
const JOINED: &str = "white space is no change: nothing is masked, both answers are trained";

const CASES: &[Case] = &[
    case("1.1", &["S U"], &["{1}"], ""),
    case("1.2", &["S U", "S U A1 T"], &["{1}{2}"], ""),
    case("1.3", &["S U", "S2 U"], &["{1}", "{2}"], ""),
    case("1.4", &["S U", "S U2"], &["{1}", "{2}"], ""),
    case("1.5", &["S U", "S U"], &["{1}", "{2}"], ""),
    case("1.6", &["S U", "S U A1 Tx", "S U A1 Ty"], &["1{2}", "{1}{3}"], SHARED),
    case(
        "1.7",
        &["S U", "S_ U"],
        &["{1}", "{2}"],
        "prompt ids are the gateway's own; what differs can only be white space of the request",
    ),
    case("1.8", &["S Uw", "S Uw A1 Ta Tb"], &["{1}{2}"], ""),
    case("1.10", &["S Un"], &[], ""),
    case("2.1", &["S U"], &["{1}"], ""),
    case("2.2", &["S U", "S U A1 T"], &["{1}{2}"], ""),
    case("2.3", &["S U", "S U+ A1 T"], &["{1}", "{2}"], ""),
    case("2.4", &["S U", "S U A1! T"], &["{1}", "{2}"], KEPT),
    case("2.5", &["S U", "S U A1! T"], &["{1}", "{2}"], ""),
    case("2.6", &["S U", "S U A1! T"], &["{1}", "{2}"], ""),
    case("2.7", &["S U", "S U A1 T", "S U A1! T A2 T"], &["{1}{2}", "{3}"], ""),
    case("2.8", &["S U", "S U+ A1 T"], &["{1}", "{2}"], ""),
    case("2.9", &["S U", "S U2"], &["{1}", "{2}"], ""),
    case("2.10", &["S U", "S U A1 Tx", "S U A1 Ty"], &["1{2}", "{1}{3}"], SHARED),
    case("2.11", &["S U", "S U A1 T", "S U A1 T A2 F T"], &["{1}{2}{3}"], ""),
    case("3.1", &["S U", "S U A1_ T"], &["{1}{2}"], JOINED),
    case("3.2", &["S U", "S U A1_ T"], &["{1}{2}"], JOINED),
    case("3.3", &["S U", "S U A1_ T"], &["{1}{2}"], JOINED),
    case("3.4", &["S U", "S U", "S U A1! T"], &["{1}", "{2}", "{3}"], ""),
    case("3.5", &["S U", "S U A1_ T", "S U A1_ T A2 T"], &["{1}{2}{3}"], JOINED),
    case(
        "3.6",
        &["S U", "S U A1 Tx", "S U A1 Ty", "S U+ A1 Tx A2 T"],
        &["{1}{2}", "1{3}", "{4}"],
        "the changed first prompt is another branch from the start, whose context is rendered",
    ),
    case(
        "3.7",
        &["S U", "S U A1 T", "S U A1 T A2 Tx", "S U A1 T A2 Ty", "S U A1 T A2 Tz"],
        &["12{3}", "12{4}", "{1}{2}{5}"],
        SHARED,
    ),
    case(
        "3.8",
        &[
            "S U",
            "S U A1 T",
            "S U A1 T A2 T",
            "S U A1 T A2 T A3 T+",
            "S U A1 T A2 T A3 T A4 T",
            "S U+ A1 T A2 T A3 T A4 T A5 T",
        ],
        &["{1}{2}{3}{4}", "123{5}", "{6}"],
        "",
    ),
    case("4.6", &["S U", "S U A1! T"], &["{1}", "{2}"], KEPT),
];

fn script() -> serde_json::Value {
    let step = |n: usize| {
        json!({
            "reasoning": format!("Step {n} comes next."),
            "content": format!("I take step {n}."),
            "tool_calls": [{"name": "bash", "arguments": {"command": format!("step {n}")}}],
            "non_canonical": n % 3,
        })
    };
    let two = json!([
        {"name": "bash", "arguments": {"command": "a"}},
        {"name": "bash", "arguments": {"command": "b"}},
    ]);
    let mut replies = vec![
        json!({"match": {"prompt_contains": "in two ways", "turn": 0}, "tool_calls": two}),
        json!({"match": {"prompt_contains": "Say nothing"}, "raw": "", "finish": "length"}),
        json!({"match": {"prompt_contains": "lose a number"}, "content": "x",
            "fault": {"wrong_lengths": true}}),
        json!({"match": {"prompt_contains": "without numbers"}, "content": "x",
            "fault": {"missing_logprobs": true}}),
    ];
    replies.extend((1..8).map(step));
    json!({"replies": replies})
}

fn start(directory: &std::path::Path) -> (Scripted, Gate) {
    let engine = Scripted::start(directory, &script());
    let gate = Gate::start(directory, &Settings::new(&engine.url));
    (engine, gate)
}

#[test]
fn branches_and_samples() {
    let directory = tempfile::tempdir().unwrap();
    let (_engine, gate) = start(directory.path());
    let mut wrong = Vec::new();
    for case in CASES {
        let session = gate.create(&json!({}));
        let mut talk = Talk::new(&session);
        case.requests.iter().for_each(|request| talk.ask(request));
        gate.ok(
            "POST",
            &format!("/v1/sessions/{}/reward", session.id),
            Some(&json!({"reward": 1.0})),
        );
        gate.close(&session);
        let samples = samples::parse(&gate.samples(&session));
        let found: Vec<_> = samples.iter().map(talk::spans).collect();
        let well = found == case.samples && samples.iter().all(|sample| talk.bears_out(sample));
        println!(
            "{:5} {:60} {:40} {}",
            case.id,
            case.requests.join(" | "),
            found.join(" "),
            case.differs
        );
        if !well {
            wrong.push(format!("{}: {found:?}, expected {:?}", case.id, case.samples));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn contracts() {
    let directory = tempfile::tempdir().unwrap();
    let (_engine, gate) = start(directory.path());
    // 1.9: two sessions never mix.
    let pair = [gate.create(&json!({})), gate.create(&json!({}))];
    for session in &pair {
        Talk::new(session).ask("S U");
        assert_eq!(samples::parse(&gate.samples(session)).len(), 1);
    }
    // 2.12: samples can be fetched again until the session is deleted (the peer forgets them at once).
    let (first, again) = (gate.samples(&pair[0]), gate.samples(&pair[0]));
    assert_eq!(first, again);
    gate.call("DELETE", &format!("/v1/sessions/{}", pair[0].id), None);
    // 4.4: a session that is not there is said to be so.
    let (status, text) =
        gate.call("GET", &format!("/v1/sessions/{}/samples?format=jsonl", pair[0].id), None);
    assert_eq!(status, 404, "{text}");
    // 4.2 and 4.5: an answer without a log-probability for each id is no turn, and the fault says
    // what is missing (the peer trains the second with zeros).
    for words in ["lose a number", "without numbers"] {
        let session = gate.create(&json!({}));
        let (status, text) = Talk::new(&session).refused(words);
        assert!(status == 502 && text.contains("log-prob"), "{status} {text}");
        assert_eq!(gate.samples(&session), "");
    }
    // 4.3: without messages there is nothing to do; the agent is told.
    let (status, _) = Talk::new(&pair[1]).empty();
    assert_eq!((status, gate.describe(&pair[1])["turns"].as_u64()), (400, Some(1)));
}
