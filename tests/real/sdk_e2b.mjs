// sdk_e2b.mjs NODE_MODULES: E2B's own JavaScript SDK, what it saw printed as JSON.
import { createRequire } from 'node:module'

const require = createRequire(`${process.argv[2]}/`)
const { Sandbox, CommandExitError } = require('e2b')

const seen = {}
const result = (run) => [run.stdout, run.stderr, run.exitCode]
const sandbox = await Sandbox.create({ metadata: { task: '8' }, timeoutMs: 60_000 })
seen.run = result(await sandbox.commands.run('echo out; echo err >&2'))
try {
  await sandbox.commands.run('exit 3')
} catch (error) {
  seen.exit = [error instanceof CommandExitError, error.exitCode]
}
try {
  await sandbox.commands.run('sleep 30', { timeoutMs: 800 })
} catch (error) {
  seen.late = error.name
}
await sandbox.files.write('notes/a.txt', 'text')
seen.read = await sandbox.files.read('notes/a.txt')
seen.list = (await sandbox.files.list('notes')).map((entry) => [entry.name, entry.type])
seen.exists = [await sandbox.files.exists('notes/a.txt'), await sandbox.files.exists('notes/b')]
const cat = await sandbox.commands.run('cat', { background: true, stdin: true })
await sandbox.commands.sendStdin(cat.pid, 'typed\n')
seen.listed = (await sandbox.commands.list()).filter((process) => process.pid === cat.pid).length
await sandbox.commands.closeStdin(cat.pid)
seen.stdin = result(await cat.wait())
seen.info = (await sandbox.getInfo()).metadata
seen.running = [await sandbox.isRunning()]
seen.kill = [await sandbox.kill(), await sandbox.kill()]
seen.running.push(await sandbox.isRunning())
console.log(JSON.stringify(seen))
