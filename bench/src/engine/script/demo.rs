//! The episode that `rollgate run --demo` plays: a coding agent writes a program, runs it and checks it.

use serde_json::{Map, Value};

use super::{SPLITS, Script, ScriptedCall, ScriptedReply};

const WRITE: &str = "cat > squares.py <<'END'\n\
    def squares(limit):\n    return [number * number for number in range(1, limit + 1)]\n\n\n\
    if __name__ == \"__main__\":\n    for square in squares(10):\n        print(square)\nEND\n\
    wc -l squares.py";
// A sandbox need not have Python: the shell computes the same list where it is missing.
const RUN: &str = "if command -v python3 > /dev/null; then python3 squares.py; \
    else for n in 1 2 3 4 5 6 7 8 9 10; do echo $((n * n)); done; fi | tee squares.txt";
const CHECK: &str = "total=0; while read -r n; do total=$((total + n)); done < squares.txt; \
    test \"$total\" -eq 385 && echo \"ok: the squares add up to $total\"";

impl Script {
    /// Four turns: write a file, run it, check the result, report. The tool is `bash` with one
    /// argument `command`; the commands work in an empty directory.
    pub fn demo() -> Script {
        Script {
            replies: vec![
                calls(
                    "The user wants a small program. The directory is empty, so I start by writing \
                     the file, and I count its lines to see that it was written.",
                    "I will write the script first.",
                    WRITE,
                ),
                calls(
                    "The file is there. Next I run it and keep the output in a file, so that I can \
                     check it afterwards.",
                    "",
                    RUN,
                ),
                calls(
                    "The output is a list of squares. The sum of the squares from one to ten is \
                     385, so adding up the lines is a good check.",
                    "Now I check the result.",
                    CHECK,
                ),
                ScriptedReply {
                    reasoning: Some("The check says ok. I can report in two sentences.".to_owned()),
                    content: Some(
                        "The script `squares.py` prints the squares from 1 to 10. I ran it and \
                         checked that they add up to 385 ✓."
                            .to_owned(),
                    ),
                    non_canonical: SPLITS,
                    ..ScriptedReply::default()
                },
            ],
            otherwise: Some(ScriptedReply {
                reasoning: Some("All of it was done before.".to_owned()),
                content: Some("Nothing is left to do.".to_owned()),
                non_canonical: SPLITS,
                ..ScriptedReply::default()
            }),
            version_bumps: Vec::new(),
            forgiving: false,
        }
    }
}

fn calls(reasoning: &str, content: &str, command: &str) -> ScriptedReply {
    let arguments = Map::from_iter([("command".to_owned(), Value::from(command))]);
    ScriptedReply {
        reasoning: Some(reasoning.to_owned()),
        content: (!content.is_empty()).then(|| content.to_owned()),
        tool_calls: vec![ScriptedCall { name: "bash".to_owned(), arguments }],
        non_canonical: SPLITS,
        ..ScriptedReply::default()
    }
}
