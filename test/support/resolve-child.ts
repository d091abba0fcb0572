/** A process of its own that resolves one model: argv is the cache folder, the Hub's address and the model. Prints the path. */
import { resolveModel } from '../../src/main/models/resolve-model.js';

const [cacheDir, endpoint, model] = process.argv.slice(2);
process.stdout.write(
  await resolveModel(model, {
    cacheDir,
    env: { HF_ENDPOINT: endpoint },
    onProgress: (progress) => process.stderr.write(`${JSON.stringify(progress)}\n`),
  }),
);
