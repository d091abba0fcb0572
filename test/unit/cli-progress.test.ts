import t from 'tap';
import { progressReporter } from '../../src/main/cli/progress-reporter.js';
import { cacheFolder } from '../../src/main/models/cache-folder.js';
import { formatBytes } from '../../src/main/models/disk-space.js';

t.test('without a terminal: about ten lines a file, the first and the last among them', async (t) => {
  let text = '';
  const reporter = progressReporter({ write: (part) => (text += part) });
  reporter.onProgress({ kind: 'note', text: 'from somewhere' });
  for (let received = 0; received <= 1000; received++) {
    reporter.onProgress({ kind: 'bytes', file: 'm', receivedBytes: received * 1000, totalBytes: 1_000_000 });
  }
  reporter.onProgress({ kind: 'bytes', file: 'm', receivedBytes: 1_000_000, totalBytes: 1_000_000 });
  reporter.stop();
  const lines = text.trimEnd().split('\n');
  t.equal(lines[0], 'from somewhere');
  t.equal(lines[1], 'm: 0 B of 1.0 MB (0%)');
  t.equal(lines.at(-1), 'm: 1.0 MB of 1.0 MB (100%)');
  t.equal(lines.length, 12);
});

t.test('an unknown size is reported by what has come', async (t) => {
  let text = '';
  const reporter = progressReporter({ write: (part) => (text += part) });
  for (const receivedBytes of [0, 50_000_000, 120_000_000]) {
    reporter.onProgress({ kind: 'bytes', file: 'm', receivedBytes, totalBytes: null });
  }
  t.equal(text, 'm: 0 B\nm: 120.0 MB\n');
});

t.test('sizes are decimal', async (t) => {
  for (const [bytes, text] of [
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [98_362_432, '98.4 MB'],
    [4_200_000_000, '4.2 GB'],
    [2e15, '2000.0 TB'],
  ] as const) {
    t.equal(formatBytes(bytes), text);
  }
});

t.test('where the cache is', async (t) => {
  const home = { HOME: '/home/u' };
  t.equal(cacheFolder(home, 'linux'), '/home/u/.cache/plimsoll');
  t.equal(cacheFolder(home, 'darwin'), '/home/u/Library/Caches/plimsoll');
  t.equal(cacheFolder({ ...home, XDG_CACHE_HOME: '/xdg' }, 'linux'), '/xdg/plimsoll');
  t.equal(cacheFolder({ ...home, XDG_CACHE_HOME: '/xdg', PLIMSOLL_CACHE_DIR: '/own' }, 'darwin'), '/own');
});
