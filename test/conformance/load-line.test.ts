import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { runVectors } from './rows.js';
import { parseVectors, type VectorRow } from './vectors.js';
import { defaultVectorsPath } from './vectors-path.js';

const file = parseVectors(readFileSync(fileURLToPath(defaultVectorsPath()), 'utf8'));

t.test('every vector of the load line passes', async (t) => {
  const results = runVectors(file);
  t.ok(results.length >= 31, 'all rows are there');
  for (const { row, got, problems } of results) {
    t.same(problems, [], `${row.id} ${row.kind}: got ${JSON.stringify(got)}`);
  }
});

t.test('a wrong expectation is seen, and where', async (t) => {
  const row = file.rows.find((candidate) => candidate.id === 'S1') as VectorRow;
  const wrong = { ...row, expected: { ...(row.expected as object), pool: 2561 } };
  const [result] = runVectors({ rows: [wrong] });
  t.same(result.problems, ['pool']);
});

t.test('unknown kinds, unknown inputs and other constants fail loudly', async (t) => {
  const bad = (row: Partial<VectorRow>) =>
    runVectors({ rows: [{ id: 'x', kind: 'gate', inputs: {}, expected: 1, ...row }] })[0];
  t.match(bad({ kind: 'levitate' }).problems[0], /unknown kind levitate/);
  t.match(bad({ kind: 'toString' }).problems[0], /unknown kind/);
  t.match(bad({ inputs: { warp: 9 } }).problems[0], /unknown inputs warp/);
  t.match(bad({ kind: 'safe_chunk', inputs: { act: 1 } }).problems[0], /headroom must be a number/);
  const constants = runVectors({ constants: { min_chunk_tokens: 128 }, rows: [] });
  t.same(constants[0].problems, ['min_chunk_tokens']);
  t.throws(() => parseVectors('{"rows": []}'), /has a list "rows"/);
});
