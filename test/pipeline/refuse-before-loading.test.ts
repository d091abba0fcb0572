import { mkdtempSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { startPipeline } from '../../src/main/start-pipeline.js';
import { parseConfig } from '../../src/shared/config.js';
import { tinyHeader } from '../support/gguf-header.js';

const MIB = 2 ** 20;
/** An engine that would fail to load says whether it was asked to. */
const FAKE = { deviceKind: 'cpu', loadError: 'model_invalid' } as const;

t.test('a start refuses weights that do not fit before it loads them, and loads what does', async (t) => {
  const modelPath = join(mkdtempSync(join(tmpdir(), 'plimsoll-start-')), 'm.gguf');
  // 40 MiB of F16 in the header's words, and as much behind it without taking disk.
  const header = tinyHeader({ tensorElements: 20 * MIB });
  writeFileSync(modelPath, header);
  truncateSync(modelPath, header.length + 40 * MIB);
  const start = (freeBytes: number) =>
    startPipeline({
      config: parseConfig({ probe: false }),
      modelPath,
      fake: { ...FAKE, readings: [{ systemAvailableBytes: freeBytes, systemTotalBytes: 600 * MIB }] },
    });
  await t.rejects(start(70 * MIB), {
    name: 'StartError',
    code: 'refused',
    refusal: { refused: true, binds: 'system', sentence: /40\.0 MiB of weights/ },
  });
  await t.rejects(start(500 * MIB), { name: 'StartError', code: 'model_invalid' });
});
