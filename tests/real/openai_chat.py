"""openai_chat.py BASE_URL KEY: one conversation through OpenAI's own SDK, printed as JSON.

Turn 1 streams, turn 2 does not, turn 3 streams; then calls that must fail, as the SDK names them.
"""

import json
import sys

from openai import APIStatusError, OpenAI

base_url, key = sys.argv[1:3]
client = OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=120)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command in a shell.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
        },
    }
]
messages = [{"role": "system", "content": "A shell."}, {"role": "user", "content": "Look around."}]


def streamed():
    text, calls, finish, usage, reasoning = "", {}, None, None, ""
    stream = client.chat.completions.create(
        model="any", messages=messages, tools=TOOLS, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        if chunk.usage:
            usage = chunk.usage.model_dump()
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            text += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            for part in choice.delta.tool_calls or []:
                call = calls.setdefault(part.index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
                call["id"] += part.id or ""
                call["function"]["name"] += part.function.name or ""
                call["function"]["arguments"] += part.function.arguments or ""
    message = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return message, finish, usage, reasoning


def whole():
    done = client.chat.completions.create(model="any", messages=messages, tools=TOOLS)
    choice = done.choices[0]
    message = {"role": "assistant", "content": choice.message.content}
    if choice.message.tool_calls:
        message["tool_calls"] = [call.model_dump() for call in choice.message.tool_calls]
    reasoning = getattr(choice.message, "reasoning_content", None) or ""
    return message, choice.finish_reason, done.usage.model_dump(), reasoning


turns = []
for ask in (streamed, whole, streamed):
    message, finish, usage, reasoning = ask()
    turns.append({"message": message, "finish": finish, "usage": usage, "reasoning": reasoning})
    messages.append(message)
    for call in message.get("tool_calls", []):
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "a b c"})


def failure(call):
    try:
        call()
    except APIStatusError as error:
        return {"class": type(error).__name__, "status": error.status_code, "code": error.code, "message": error.message}
    return None


stranger = OpenAI(base_url=base_url, api_key="rg-00000000000000000000000000000000", max_retries=0)
failures = [
    failure(lambda: stranger.chat.completions.create(model="any", messages=messages)),
    failure(lambda: client.embeddings.create(model="any", input="text")),
    failure(lambda: client.chat.completions.create(model="any", messages=[])),
]
models = [model.id for model in client.models.list()]
print(json.dumps({"turns": turns, "failures": failures, "models": models}))
