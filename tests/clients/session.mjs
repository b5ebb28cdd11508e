// What a host does with topup in one session, through a client of either generation.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { processesIn } from './processes.mjs';

const FOREVER = 'while true do () done';
const BUSY = 'let t = Sys.time () in while Sys.time () -. t < 1.4 do () done';

// `open(home)` connects; `callTool(client, params, options)` differs between the generations.
export async function session({ open, callTool, revision }) {
  const home = mkdtempSync(join(tmpdir(), 'topup-session-'));
  const { client, negotiated } = await open(home);
  assert.equal(negotiated(), revision);

  async function evaluate(source, options) {
    const params = { name: 'eval', arguments: { source } };
    const { content, isError } = await callTool(client, params, options);
    assert.equal(content.length, 1);
    return { ...JSON.parse(content[0].text), isError };
  }

  try {
    assert.match(client.getInstructions(), /toplevel/);
    assert.equal(client.getServerVersion().name, 'topup');
    const { tools } = await client.listTools();
    assert.ok(tools.some(({ name, inputSchema }) => name === 'eval' && inputSchema.type === 'object'));

    await evaluate('let x = 41');
    assert.equal((await evaluate('x + 1')).value_repr, '42');

    const wrong = await evaluate('x ^ "a"');
    assert.equal(wrong.isError, true);
    assert.deepEqual([wrong.diagnostics[0].kind, wrong.diagnostics[0].line], ['type', 1]);

    const withdrawal = new AbortController();
    const withdrawn = evaluate(FOREVER, { signal: withdrawal.signal });
    const rejected = assert.rejects(withdrawn);
    await pause(200);
    withdrawal.abort();
    await rejected;
    assert.equal((await evaluate('x', { timeout: 5000 })).value_repr, '41');

    const interrupted = evaluate(FOREVER);
    await pause(200);
    const cancel = await callTool(client, { name: 'cancel', arguments: {} });
    assert.deepEqual(JSON.parse(cancel.content[0].text), { cancelled: true });
    assert.match((await interrupted).error, /^evaluation timed out/);

    const told = [];
    const busy = await evaluate(BUSY, { onprogress: (progress) => told.push(progress) });
    assert.equal(busy.error, null);
    assert.ok(told.length > 0, 'no progress was told');
    assert.match(told[0].message, /^\d+\.\d s/);

    const begun = Date.now();
    await client.close();
    // The clients send SIGTERM after two seconds; the end of the input must be enough.
    assert.ok(Date.now() - begun < 1900, `close took ${Date.now() - begun} ms`);
    assert.deepEqual(processesIn(home), []);

    const again = await open(home);
    const abandoned = callTool(again.client, { name: 'eval', arguments: { source: FOREVER } });
    abandoned.catch(() => {});
    await pause(200);
    await again.client.close();
    assert.deepEqual(processesIn(home), []);
  } finally {
    await client.close();
    rmSync(home, { recursive: true, force: true });
  }
}
