"""A whole agent on Anthropic's SDK: one tool, `bash`, until the model calls it no more.

rollgate run tasks.jsonl --agent command --agent-arg python3 --agent-arg examples/anthropic_loop.py …
"""

import os
import subprocess
import sys

import anthropic

MOST_TURNS = 50
BASH = {
    "name": "bash",
    "description": "Run a command in a shell in the work directory.",
    "input_schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
}


def bash(command: str) -> dict:
    """Output and exit status of a command, as the content of a tool result."""
    try:
        done = subprocess.run(
            ["sh", "-c", command], stdin=subprocess.DEVNULL, text=True, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
        )
    except subprocess.TimeoutExpired:
        return {"content": "not done after 300 s: stopped", "is_error": True}
    text = f"{done.stdout[-20_000:]}\nexit status {done.returncode}"
    return {"content": text, "is_error": done.returncode != 0}


def main() -> int:
    # Base URL and key are in ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY.
    client = anthropic.Anthropic()
    with open(os.environ["ROLLGATE_INSTRUCTION_FILE"], encoding="utf-8") as file:
        messages = [{"role": "user", "content": file.read()}]
    for _ in range(MOST_TURNS):
        with client.messages.stream(
            model=os.environ["ROLLGATE_MODEL"],
            max_tokens=4096,
            system="You work in a shell. When the task is done, say so without calling a tool.",
            tools=[BASH],
            messages=messages,
        ) as stream:
            answer = stream.get_final_message()
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            print("".join(block.text for block in answer.content if block.type == "text"))
            return 0
        results = [
            {"type": "tool_result", "tool_use_id": call.id, **bash(str(call.input.get("command")))}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    print(f"not done after {MOST_TURNS} turns", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
