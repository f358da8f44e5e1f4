"""sdk_anthropic.py BASE_URL KEY CLOSED_KEY: the Messages API through Anthropic's own SDK, printed as JSON.

Each case is one question, asked twice: streamed (what the SDK's own accumulation makes of the events) and whole.
"""

import json
import sys

from anthropic import Anthropic, APIError

base_url, key, closed_key = sys.argv[1:4]
client = Anthropic(base_url=base_url, api_key=key, max_retries=0, timeout=120)
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = [{"name": "bash", "description": "Run a command in a shell.", "input_schema": SCHEMA}]
CASES = ["case-plain", "case-tools", "case-cut", "case-unicode"]


def asked(case):
    messages = [{"role": "user", "content": case}]
    return {"model": "any", "system": "A shell.", "messages": messages, "tools": TOOLS}


def view(message):
    blocks, usage = message.content, message.usage
    return {
        "text": "".join(block.text for block in blocks if block.type == "text"),
        "reasoning": "".join(block.thinking for block in blocks if block.type == "thinking"),
        "calls": [[block.name, block.input] for block in blocks if block.type == "tool_use"],
        "usage": [usage.input_tokens + (usage.cache_read_input_tokens or 0), usage.output_tokens],
        "cut": message.stop_reason == "max_tokens",
    }


def whole(case, client=client):
    return view(client.messages.create(max_tokens=1_000, **asked(case)))


def streamed(case, client=client):
    with client.messages.stream(max_tokens=1_000, **asked(case)) as stream:
        return view(stream.get_final_message())


ASKS = {"messages whole": whole, "messages streamed": streamed}


def failure(call):
    try:
        call()
    except APIError as error:
        told = (error.body or {}).get("error", {})
        status = getattr(error, "status_code", None)
        return {"class": type(error).__name__, "status": status, "code": told.get("type"), "message": told.get("message")}
    return None


stranger = Anthropic(base_url=base_url, api_key="rg-00000000000000000000000000000000", max_retries=0)
closed = Anthropic(base_url=base_url, api_key=closed_key, max_retries=0)
failures = {}
for name, ask in ASKS.items():
    failures[name] = {
        "wrong key": failure(lambda: ask("case-plain", client=stranger)),
        "closed session": failure(lambda: ask("case-plain", client=closed)),
        "limited": failure(lambda: ask("case-limited")),
        "busy": failure(lambda: ask("case-busy")),
        "too long": failure(lambda: ask("long " * 40_000)),
    }
failures["messages streamed"]["after a sign of life"] = failure(lambda: streamed("case-broken"))
views = {case: {name: ask(case) for name, ask in ASKS.items()} for case in CASES}
counts = {case: client.messages.count_tokens(**asked(case)).input_tokens for case in CASES}
models = [model.id for model in client.models.list()]
print(json.dumps({"views": views, "failures": failures, "counts": counts, "models": models}))
