// The processes whose HOME is `home`, other than this one. A client that has closed must leave none.
import { readFileSync, readdirSync } from 'node:fs';

export function processesIn(home) {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      try {
        const variables = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
        if (!variables.includes(`HOME=${home}`)) return [];
        return [`${pid} ${readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')}`];
      } catch {
        return []; // ended meanwhile, or not ours
      }
    });
}
