import t from 'tap';
import { httpConfig } from '../../src/main/http/http-config.js';
import { rehearse } from '../../src/main/http/rehearsal.js';

const CONFIG = httpConfig({
  modelName: 'model',
  modelAliases: [],
  modelRoot: '',
  systemFingerprint: 'test',
  apiKeys: ['a key'],
  corsOrigins: [],
});

t.test('every request of a rehearsal is answered, keys or not', async (t) => {
  t.equal(await rehearse(CONFIG, () => false), 24);
});

t.test('a model that is there ends it', async (t) => {
  let asked = 0;
  t.equal(await rehearse(CONFIG, () => ++asked > 3), 3);
});
