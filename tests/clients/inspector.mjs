// MCP Inspector's command line: the tools under its strict schema check in each era, a call,
// and its load mode. Usage: inspector.mjs EXECUTABLE
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const [executable] = process.argv.slice(2);
const launcher = fileURLToPath(new URL('node_modules/.bin/mcp-inspector', import.meta.url));

function inspect(...options) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [launcher, '--cli', executable, ...options],
    { encoding: 'utf8' },
  );
  assert.equal(status, 0, `${options.join(' ')}\n${stdout}${stderr}`);
  assert.doesNotMatch(stderr, /schema.*(problem|issue|warning)/i);
  return JSON.parse(stdout);
}

for (const era of ['legacy', 'modern', 'auto']) {
  const { tools } = inspect('--protocol-era', era, '--method', 'tools/list', '--strict');
  assert.ok(tools.some(({ name }) => name === 'eval'), era);
}

const evaluate = (source) => [
  ...['--method', 'tools/call', '--tool-name', 'eval'],
  ...['--tool-args-json', JSON.stringify({ source })],
];
const { content, isError } = inspect(...evaluate('let x = 1;; x + 1'));
assert.equal(isError, false);
assert.equal(JSON.parse(content[0].text).value_repr, '2');

// A native phrase takes the compiler and the assembler some ten milliseconds.
const calls = executable.endsWith('-opt') ? 40 : 200;
const pressure = ['--load', '--load-requests', String(calls), '--load-concurrency', '8'];
const load = inspect(...evaluate('1 + 1'), ...pressure);
assert.deepEqual([load.ok, load.errors, load.toolErrors], [calls, 0, 0]);
console.log(`${calls} calls, 8 at a time: p50 ${load.latencyMs.p50} ms, p99 ${load.latencyMs.p99} ms`);
