// The session with the TypeScript client of the second generation, which finds the era out
// by itself. Usage: client_v2.mjs EXECUTABLE
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { session } from './session.mjs';

const [command] = process.argv.slice(2);

await session({
  revision: '2026-07-28',
  async open(home) {
    const transport = new StdioClientTransport({ command, env: { HOME: home, PATH: process.env.PATH } });
    const client = new Client(
      { name: 'topup-client-v2', version: '1' },
      { versionNegotiation: { mode: 'auto' } },
    );
    await client.connect(transport);
    return { client, negotiated: () => client.getNegotiatedProtocolVersion() };
  },
  callTool: (client, params, options) => client.callTool(params, options),
});
