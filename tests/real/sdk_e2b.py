"""sdk_e2b.py VERSION: E2B's own SDK against the server of E2B_API_URL, what it saw printed as JSON.

The synchronous client does the long list; the asynchronous one the short.
"""

import asyncio
import importlib.metadata
import json
import sys

from e2b import AsyncSandbox, CommandExitException, Sandbox, SandboxQuery, TimeoutException

assert importlib.metadata.version("e2b") == sys.argv[1], "another SDK is installed"
seen = {}


def result(run):
    return [run.stdout, run.stderr, run.exit_code]


def raised(call, *errors):
    try:
        call()
    except errors as error:
        return type(error).__name__
    return None


def commands(sandbox):
    seen["run"] = result(sandbox.commands.run("echo out; echo err >&2"))
    seen["env"] = result(sandbox.commands.run("echo $GIVEN $MADE", envs={"GIVEN": "a b"}))
    try:
        sandbox.commands.run("echo half; exit 3")
    except CommandExitException as error:
        seen["exit 3"] = [error.stdout, error.stderr, error.exit_code]
    # The SDK also waits no longer than the time limit for each piece, and says so in another error:
    # a command that keeps printing is ended by the server.
    ticks = "while :; do echo tick; sleep 0.1; done"
    seen["late"] = raised(lambda: sandbox.commands.run(ticks, timeout=1), TimeoutException)
    seen["large"] = len(sandbox.commands.run("head -c 300000 /dev/zero | tr '\\0' x").stdout)
    pieces = []
    sandbox.commands.run("echo a; sleep 0.2; echo b", on_stdout=pieces.append)
    seen["pieces"] = "".join(pieces)

    closes = hasattr(sandbox.commands, "close_stdin")  # 2.21.1 cannot
    program = "cat" if closes else "head -n 1"
    cat = sandbox.commands.run(f"{program}; echo closed", background=True, stdin=True)
    running = [process for process in sandbox.commands.list() if process.pid == cat.pid]
    seen["listed"] = [[process.cmd, process.args] for process in running]
    sandbox.commands.send_stdin(cat.pid, "typed\n")
    if closes:
        sandbox.commands.close_stdin(cat.pid)
    seen["stdin"] = result(cat.wait())

    sleeper = sandbox.commands.run("sleep 60", background=True)
    again = sandbox.commands.connect(sleeper.pid)
    seen["killed"] = [sandbox.commands.kill(sleeper.pid), sandbox.commands.kill(4_000_000)]
    seen["wait for the killed"] = raised(again.wait, CommandExitException)


def files(sandbox):
    home = sandbox.commands.run("pwd").stdout.strip()
    seen["write"] = sandbox.files.write("notes/é.txt", "ünï\n").path == f"{home}/notes/é.txt"
    seen["read"] = sandbox.files.read("notes/é.txt")
    seen["bytes"] = list(sandbox.files.read("notes/é.txt", format="bytes"))
    seen["in a command"] = sandbox.commands.run("cat notes/é.txt").stdout
    many = [{"path": "many/a", "data": "1"}, {"path": "many/b", "data": b"\x00\xff"}]
    seen["many"] = [entry.name for entry in sandbox.files.write_files(many)]
    seen["list"] = [[entry.name, entry.type.value] for entry in sandbox.files.list("many")]
    seen["exists"] = [sandbox.files.exists("many/a"), sandbox.files.exists("many/c")]
    seen["make_dir"] = [sandbox.files.make_dir("made"), sandbox.files.make_dir("made")]
    seen["rename"] = sandbox.files.rename("many/a", "many/z").name
    sandbox.files.remove("many/b")
    seen["left"] = [entry.name for entry in sandbox.files.list("many")]
    seen["size"] = sandbox.files.get_info("many/z").size
    try:
        sandbox.files.read("nothing")
    except Exception as error:
        seen["no file"] = type(error).__name__


def life(sandbox):
    sandbox.set_timeout(500)
    info = sandbox.get_info()
    seen["info"] = [info.sandbox_id == sandbox.sandbox_id, info.template_id, info.metadata]
    seen["left"] = [seen["left"], round((info.end_at - info.started_at).total_seconds(), -1)]
    others = [Sandbox.create(metadata={"group": "others"}) for _ in range(3)]
    pages, paginator = [], Sandbox.list(query=SandboxQuery(metadata={"group": "others"}), limit=2)
    while paginator.has_next:
        pages.append(len(paginator.next_items()))
    seen["pages"] = pages
    for other in others:
        other.kill()
    again = Sandbox.connect(sandbox.sandbox_id)
    seen["connected"] = result(again.commands.run("echo here"))
    seen["running"] = [sandbox.is_running()]
    seen["kill"] = [sandbox.kill(), sandbox.kill()]
    seen["running"].append(sandbox.is_running())
    try:
        sandbox.commands.run("true")
    except Exception as error:
        seen["after"] = type(error).__name__


async def asynchronous():
    sandbox = await AsyncSandbox.create(timeout=100)
    runs = await asyncio.gather(*(sandbox.commands.run(f"sleep 0.2; echo {i}") for i in range(20)))
    seen["async"] = [run.stdout for run in runs] == [f"{i}\n" for i in range(20)]
    await sandbox.files.write("a", "b")
    seen["async read"] = await sandbox.files.read("a")
    seen["async kill"] = await sandbox.kill()


sandbox = Sandbox.create(metadata={"task": "7"}, envs={"MADE": "m"}, timeout=60)
commands(sandbox)
files(sandbox)
life(sandbox)
asyncio.run(asynchronous())
print(json.dumps(seen))
