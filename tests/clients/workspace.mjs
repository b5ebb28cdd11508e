// A whole session through the TypeScript SDK: a package, definitions, an error, a checkpoint,
// bindings that are wrecked and restored, and a program. Usage: workspace.mjs EXECUTABLE
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const [command] = process.argv.slice(2);
const home = mkdtempSync(join(tmpdir(), 'topup-client-'));
const transport = new StdioClientTransport({ command, env: { ...process.env, HOME: home } });
const client = new Client({ name: 'topup-workspace', version: '1' });

async function call(name, args = {}) {
  const { content, isError } = await client.callTool({ name, arguments: args });
  assert.equal(content.length, 1);
  return { ...JSON.parse(content[0].text), isError };
}

async function evaluate(source) {
  return call('eval', { source });
}

try {
  await client.connect(transport);
  const { tools } = await client.listTools();
  for (const name of ['eval', 'reset', 'checkpoint', 'restore', 'compile_to_binary']) {
    assert.ok(tools.some((tool) => tool.name === name), name);
  }

  assert.equal((await evaluate('#require "str"')).error, null);
  await evaluate('type word = { text : string; length : int }');
  await evaluate('let word text = { text; length = String.length text }');
  const defined = await evaluate(
    'let words s = List.map word (Str.split (Str.regexp "[ \\t]+") s);;\n' +
      'let main () = List.iter (fun w -> Printf.printf "%s:%d\\n" w.text w.length) (words "persistent  toplevel")',
  );
  assert.equal(defined.type, 'unit -> unit');
  const failed = await evaluate('words 3');
  assert.equal(failed.isError, true);
  assert.deepEqual([failed.diagnostics[0].line, failed.diagnostics[0].column], [1, 6]);
  assert.match((await evaluate('failwith "no"')).error, /^Exception: Failure "no"/);

  const kept = await call('checkpoint', { label: 'words' });
  assert.equal(kept.phrases, 5);
  await evaluate('type word = int;; let words _ = "wrecked";; let main = 0');
  assert.match((await call('compile_to_binary', { entry: 'main', out: join(home, 'app') })).error, /has type int/);

  const restored = await call('restore', { label: 'words' });
  assert.equal(restored.error, null, JSON.stringify(restored));
  assert.match(restored.notice, /5 phrases/);
  assert.deepEqual(
    (await call('env')).bindings.map(({ name }) => name),
    ['word', 'words', 'main'],
  );

  const built = await call('compile_to_binary', { entry: 'main', out: join(home, 'app') });
  assert.equal(built.ok, true, built.build_log);
  const printed = execFileSync(built.binary_path, { env: {} }).toString();
  assert.equal(printed, 'persistent:10\ntoplevel:8\n');
} finally {
  await client.close();
  rmSync(home, { recursive: true, force: true });
}
