// The session with the TypeScript SDK of the first generation. Usage: sdk_v1.mjs EXECUTABLE
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { session } from './session.mjs';

const [command] = process.argv.slice(2);

await session({
  revision: '2025-11-25',
  async open(home) {
    const transport = new StdioClientTransport({ command, env: { HOME: home, PATH: process.env.PATH } });
    let negotiated;
    transport.setProtocolVersion = (revision) => (negotiated = revision);
    const client = new Client({ name: 'topup-sdk-v1', version: '1' });
    await client.connect(transport);
    return { client, negotiated: () => negotiated };
  },
  callTool: (client, params, options) => client.callTool(params, undefined, options),
});
