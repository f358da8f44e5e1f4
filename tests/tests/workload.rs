//! Twenty sessions of twenty turns in each dialect: a long system prompt, twelve tools, answers of some 300 ids that
//! think and call. The agent drops the thinking or sends it back; all, a fifth or none of the answers
//! are said in other tokens than the tokenizer makes of them. A gateway that renders each prompt anew
//! and compares ids gets 400 samples of these sessions, or trains a twentieth of the tokens. Here
//! every cell has 20 samples and all of its tokens. `ROLLGATE_WORKLOAD_TABLE` names a file for the table, and
//! `ROLLGATE_WORKLOAD_CELLS` the cells to play where not all are wanted (`messages-dropped-5`).

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rollgate_tests::corpus::agent::{Agent, message, tool};
use rollgate_tests::corpus::dialect::Dialect;
use rollgate_tests::corpus::ledger::Ledger;
use rollgate_tests::corpus::script::{Script, bash};
use rollgate_tests::corpus::vocabulary::Vocabulary;
use rollgate_tests::corpus::wire::Wire;
use rollgate_tests::corpus::{Way, check};
use rollgate_tests::gate::{Gate, Settings};
use rollgate_tests::scripted::Scripted;
use rollgate_tests::{program, samples};
use serde_json::{Value, json};

const SESSIONS: usize = 20;
const TURNS: usize = 20;
const TOOLS: usize = 12;
const AGENTS: usize = 4;
/// Paragraphs of the system prompt.
const PARAGRAPHS: usize = 12;

/// One cell of the table.
#[derive(Clone, Copy)]
struct Cell {
    /// What the agents speak. Every other session of a cell is streamed.
    dialect: Dialect,
    /// The agent leaves the thinking out when it sends an answer back.
    drops: bool,
    /// One answer of so many is not canonical; 0: none.
    every: usize,
}

impl Cell {
    /// All of them, or those that are wanted.
    fn all() -> Vec<Cell> {
        let of = |dialect| {
            let replays = [true, false].into_iter();
            replays.flat_map(move |drops| [1, 5, 0].map(|every| Cell { dialect, drops, every }))
        };
        let only = std::env::var("ROLLGATE_WORKLOAD_CELLS").ok();
        let wanted = |cell: &Cell| {
            only.as_deref().is_none_or(|only| only.split(',').any(|name| name == cell.name()))
        };
        Dialect::ALL.into_iter().flat_map(of).filter(wanted).collect()
    }

    fn name(self) -> String {
        let thinking = if self.drops { "dropped" } else { "replayed" };
        format!("{}-{thinking}-{}", self.dialect.name(), self.every)
    }

    fn script(self) -> Script {
        (1..=TURNS).fold(Script::empty(&self.name()), |script, turn| {
            let odd = self.every > 0 && turn % self.every == 0;
            script.with(&turn.to_string(), answer(turn, odd))
        })
    }
}

const SENTENCES: [&str; 6] = [
    "The function reads every order and keeps the ones that are open.",
    "Its caller expects them oldest first, which the comparison turns around.",
    "A second caller does not care, and a third one sorts them again by name.",
    "If I change the order here, the invoice and the report agree with each other.",
    "The test that fails builds three orders by hand and compares the numbers.",
    "I should look at the fixtures before I touch any of this code.",
];

/// Some 300 ids: thinking, text and a call.
fn answer(turn: usize, odd: bool) -> Value {
    let said = |from: usize, count: usize| {
        let sentence = |at: usize| SENTENCES[(turn + from + at) % SENTENCES.len()];
        (0..count).map(sentence).collect::<Vec<_>>().join(" ")
    };
    let mut reply = json!({
        "reasoning": format!("Step {turn}. {}", said(0, 8)),
        "content": said(3, 5),
        "tool_calls": [bash(&format!("sed -n '{turn},+40p' src/order_{turn}.py"), turn)],
    });
    if odd {
        reply["non_canonical"] = json!(4);
    }
    reply
}

/// The engine finds a reply by the number of turns first, which is quicker than by marks alone.
fn replies(cell: Cell) -> Vec<Value> {
    let last_first = cell.script().replies().collect::<Vec<_>>().into_iter().enumerate();
    let with_turn = last_first.map(|(at, mut reply)| {
        reply["match"]["turn"] = json!(TURNS - 1 - at);
        reply
    });
    with_turn.collect()
}

fn system(session: &str) -> String {
    let rule = |at: usize| format!("{at}. {}", SENTENCES.join(" "));
    let rules: Vec<String> = (1..=PARAGRAPHS).map(rule).collect();
    format!("You work on a repository of orders. ({session})\n\n{}", rules.join("\n"))
}

fn play(gate: &Gate, cell: Cell, number: usize) -> (String, String) {
    let session = gate.create(&json!({}));
    let Cell { dialect, .. } = cell;
    let way = Way { dialect, stream: number % 2 == 1, faithful: false };
    let (agents, key, stream) = (gate.agents.clone(), session.key.clone(), way.stream);
    let wire = Wire { agents, key, dialect, stream, tells_scene: false };
    let words = format!("{} {number}", cell.name());
    let mut agent = Agent::new(way, cell.script(), wire, format!("session {words}"));
    agent.messages[0] = message("system", &system(&agent.session));
    agent.tools =
        (0..TOOLS).map(|n| tool(&format!("tool_{n}"), &["path", "text", "mode"])).collect();
    agent.tools[0] = tool("bash", &["command", "timeout"]);
    for turn in 1..=TURNS {
        agent.turn();
        if cell.drops {
            let answer = agent.messages.last_mut().and_then(Value::as_object_mut).unwrap();
            answer.remove("reasoning_content").expect("there was thinking");
        }
        agent.results(&(turn + 1).to_string(), "exit status 0\nsome lines of code");
    }
    gate.close(&session);
    (words, gate.samples(&session))
}

#[test]
fn twenty_sessions_of_twenty_turns_give_twenty_samples_and_every_token() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("calls.jsonl");
    let cells = Cell::all();
    let replies: Vec<Value> = cells.iter().flat_map(|cell| replies(*cell)).collect();
    let arguments = ["--record", record.to_str().unwrap()];
    let engine = Scripted::start_with(directory.path(), &json!({"replies": replies}), &arguments);
    let gate = Gate::start(directory.path(), &Settings::new(&engine.url));

    let next = AtomicUsize::new(0);
    let played = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AGENTS {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(at / SESSIONS) else { return };
                    let (words, samples) = play(&gate, *cell, at % SESSIONS);
                    played.lock().unwrap().push((at / SESSIONS, words, samples));
                }
            });
        }
    });
    let words = Vocabulary::read(&program::demo_model().join("tokenizer.json"));
    let ledger = Ledger::read(&record, &words);
    let mut table = String::from(
        "dialect    thinking  not canonical  sessions  samples  ids an answer  trained\n",
    );
    let mut problems = Vec::new();
    let played = played.into_inner().unwrap();
    for (at, cell) in cells.iter().enumerate() {
        let of_cell = played.iter().filter(|one| one.0 == at);
        let line = judge(*cell, of_cell, &ledger, &words, &mut problems);
        writeln!(table, "{line}").unwrap();
    }
    println!("{table}");
    if let Some(path) = std::env::var_os("ROLLGATE_WORKLOAD_TABLE") {
        std::fs::write(path, &table).unwrap();
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The cell's line of the table; what is wrong goes to `problems`.
fn judge<'a>(
    cell: Cell,
    sessions: impl Iterator<Item = &'a (usize, String, String)>,
    ledger: &Ledger,
    words: &Vocabulary,
    problems: &mut Vec<String>,
) -> String {
    let (mut count, mut made, mut sampled, mut trained) = (0, 0, 0, 0);
    for (_, session, text) in sessions {
        let samples = samples::parse(text);
        let all = ledger.generations(session, &cell.script(), words);
        let found = check::check(&samples, &all, words, |_| "main");
        count += 1;
        made += samples.len();
        sampled += found.sampled;
        trained += found.trained;
        problems.extend(found.problems.iter().map(|problem| format!("{session}: {problem}")));
        if all.len() != TURNS {
            problems.push(format!("{session}: {} generations", all.len()));
        }
    }
    let ids = sampled / (SESSIONS * TURNS);
    if (count, made, trained) != (SESSIONS, SESSIONS, sampled) || !(250..350).contains(&ids) {
        problems.push(format!("{}: {made} samples, {trained} of {sampled} ids", cell.name()));
    }
    let thinking = if cell.drops { "dropped" } else { "replayed" };
    let odd = ["none", "all", "", "", "", "a fifth"][cell.every];
    let share = trained as f64 * 100.0 / sampled.max(1) as f64;
    let dialect = cell.dialect.name();
    format!("{dialect:9}  {thinking:8}  {odd:13}  {count:>8}  {made:>7}  {ids:>13}  {share:>6.1}%")
}
