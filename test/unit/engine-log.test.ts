import t from 'tap';
import type { EngineLogs } from '../../src/shared/engine.js';
import { drainEngineLog } from '../../src/workers/engine-log.js';

function drained(logs: EngineLogs): string[] {
  const lines: string[] = [];
  drainEngineLog({ drainLogs: () => logs }, (level, message) => lines.push(`${level} ${message}`));
  return lines;
}

t.test('warnings and errors keep their level, all else is for debugging', async (t) => {
  const lines = [
    { level: 2, text: 'loaded' },
    { level: 3, text: ' odd tokenizer ' },
    { level: 4, text: 'no memory' },
  ];
  t.strictSame(drained({ lines, dropped: 0 }), [
    'debug engine: loaded',
    'warn engine: odd tokenizer',
    'error engine: no memory',
  ]);
  t.strictSame(drained({ lines: [], dropped: 0 }), []);
});

t.test('an engine that complains without end does not bury the log', async (t) => {
  const lines = Array.from({ length: 500 }, (_, i) => ({ level: 4, text: `tensor ${i}` }));
  const reported = drained({ lines, dropped: 7 });
  t.equal(reported.filter((line) => line.startsWith('error')).length, 20);
  t.equal(reported.filter((line) => line.startsWith('debug')).length, 481, 'the rest, and a word of what was lost');
  t.match(reported[0], /7 earlier lines were lost/);
  t.match(reported.at(-1), /^warn engine: 480 more/);
});
