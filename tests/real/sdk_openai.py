"""sdk_openai.py BASE_URL KEY CLOSED_KEY: both of OpenAI's APIs through its own SDK, printed as JSON.

Each case is one question, asked four times: Chat and Responses, streamed (what the deltas add up to) and whole.
"""

import json
import sys

from openai import APIError, OpenAI

base_url, key, closed_key = sys.argv[1:4]
client = OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=120)
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
FUNCTION = {"name": "bash", "description": "Run a command in a shell.", "parameters": SCHEMA}
CHAT_TOOLS = [{"type": "function", "function": FUNCTION}]
TOOLS = [{"type": "function", **FUNCTION}]
CASES = ["case-plain", "case-tools", "case-cut", "case-unicode"]


def asked(case):
    return [{"role": "system", "content": "A shell."}, {"role": "user", "content": case}]


def view(text, reasoning, calls, usage, cut):
    calls = [[name, json.loads(arguments)] for name, arguments in calls]
    return {"text": text, "reasoning": reasoning, "calls": calls, "usage": usage, "cut": cut}


def chat_whole(case, client=client):
    done = client.chat.completions.create(model="any", messages=asked(case), tools=CHAT_TOOLS)
    choice, usage = done.choices[0], done.usage
    calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
    reasoning = getattr(choice.message, "reasoning_content", None) or ""
    cut = choice.finish_reason == "length"
    return view(choice.message.content or "", reasoning, calls, [usage.prompt_tokens, usage.completion_tokens], cut)


def chat_streamed(case, client=client):
    text, reasoning, calls, finish, usage = "", "", {}, None, None
    options = {"include_usage": True}
    for chunk in client.chat.completions.create(
        model="any", messages=asked(case), tools=CHAT_TOOLS, stream=True, stream_options=options
    ):
        if chunk.usage:
            usage = [chunk.usage.prompt_tokens, chunk.usage.completion_tokens]
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            text += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            for part in choice.delta.tool_calls or []:
                name, arguments = calls.get(part.index, ("", ""))
                calls[part.index] = (name + (part.function.name or ""), arguments + (part.function.arguments or ""))
    return view(text, reasoning, [calls[index] for index in sorted(calls)], usage, finish == "length")


def responses_whole(case, client=client):
    done = client.responses.create(model="any", input=asked(case), tools=TOOLS, store=False)
    calls = [(item.name, item.arguments) for item in done.output if item.type == "function_call"]
    thoughts = [part.text for item in done.output if item.type == "reasoning" for part in item.content or []]
    usage = [done.usage.input_tokens, done.usage.output_tokens]
    return view(done.output_text, "".join(thoughts), calls, usage, done.status == "incomplete")


def responses_streamed(case, client=client):
    text, reasoning, calls, done = "", "", {}, None
    for event in client.responses.create(model="any", input=asked(case), tools=TOOLS, store=False, stream=True):
        if event.type == "response.output_text.delta":
            text += event.delta
        elif event.type == "response.reasoning_text.delta":
            reasoning += event.delta
        elif event.type == "response.output_item.added" and event.item.type == "function_call":
            calls[event.output_index] = (event.item.name, "")
        elif event.type == "response.function_call_arguments.delta":
            name, arguments = calls[event.output_index]
            calls[event.output_index] = (name, arguments + event.delta)
        elif event.type in ("response.completed", "response.incomplete"):
            done = event.response
        elif event.type == "response.failed":
            raise APIError(event.response.error.message, request=None, body=event.response.error.model_dump())
    usage = [done.usage.input_tokens, done.usage.output_tokens]
    return view(text, reasoning, [calls[index] for index in sorted(calls)], usage, done.status == "incomplete")


ASKS = {
    "chat whole": chat_whole,
    "chat streamed": chat_streamed,
    "responses whole": responses_whole,
    "responses streamed": responses_streamed,
}


def failure(call):
    try:
        call()
    except APIError as error:
        status = getattr(error, "status_code", None)
        return {"class": type(error).__name__, "status": status, "code": error.code, "message": error.message}
    return None


stranger = OpenAI(base_url=base_url, api_key="rg-00000000000000000000000000000000", max_retries=0)
closed = OpenAI(base_url=base_url, api_key=closed_key, max_retries=0)
failures = {}
for name, ask in ASKS.items():
    failures[name] = {
        "wrong key": failure(lambda: ask("case-plain", client=stranger)),
        "closed session": failure(lambda: ask("case-plain", client=closed)),
        "limited": failure(lambda: ask("case-limited")),
        "busy": failure(lambda: ask("case-busy")),
        "too long": failure(lambda: ask("long " * 40_000)),
    }
for name in ("chat streamed", "responses streamed"):
    failures[name]["after a sign of life"] = failure(lambda: ASKS[name]("case-broken"))
views = {case: {name: ask(case) for name, ask in ASKS.items()} for case in CASES}
models = [model.id for model in client.models.list()]
print(json.dumps({"views": views, "failures": failures, "models": models}))
