/**
 * A server process of which only its ways to end are real: `supervised-child.js [line=PATH] ACT…`, one act a start, the last one for all
 * further starts. An act is words joined by `+`, done in order.
 */
import { appendFileSync } from 'node:fs';
import { readLineFile } from '../../src/main/supervisor/line-file.js';
import { openSupervisorLink } from '../../src/main/supervisor/supervisor-link.js';

const link = openSupervisorLink(process.env);
const words = process.argv.slice(2);
const linePath = words[0]?.startsWith('line=') ? words.shift()?.slice('line='.length) : undefined;
const act = words[Math.min(link.birth.restarts, words.length - 1)];

/** Messages are on their way before the process ends. */
const sent = () => new Promise((resolve) => setImmediate(resolve));

function forever(): void {
  setInterval(() => {}, 1_000_000);
}

for (const word of act.split('+')) {
  const [name, value] = word.split('=');
  await sent();
  if (name === 'exit') process.exit(Number(value));
  else if (name === 'signal') {
    process.kill(process.pid, value as NodeJS.Signals);
    forever();
  } else if (name === 'hello') link.hello({ shutdownTimeoutMs: 0, logFormat: 'json', isSilent: false });
  else if (name === 'ready') link.ready();
  else if (name === 'stopping') link.stopping();
  else if (name === 'died') link.died();
  else if (name === 'hang') forever();
  else if (name === 'deaf') {
    process.on('SIGTERM', () => {});
    link.onStop(() => {});
    forever();
  } else if (name === 'serve') {
    // Ends when it is told to, as the server does. A second request from the same side would be one too many.
    let asked = 0;
    link.onStop((source) => {
      asked++;
      process.stdout.write(`stopped by ${source}\n`, () => process.exit(asked === 1 ? Number(value ?? 0) : 99));
    });
    forever();
  } else if (name === 'say') process.stdout.write(`${value} ${process.pid}\n`);
  else if (name === 'birth') appendFileSync(value, `${JSON.stringify(link.birth)}\n`);
  else if (name === 'line' && linePath !== undefined) {
    const fraction = link.birth.carried?.record.fraction ?? readLineFile(linePath)?.fraction ?? 1;
    link.line({ path: linePath, fraction, subject: { model: 'm.gguf', devices: 'auto', machine: 'here' } });
  } else throw new Error(`no act ${word}`);
}
