/** Which files of a Hub repository are meant. Pure. */
import { ModelError } from './model-error.js';

export interface HubFile {
  /** Path inside the repository. */
  path: string;
  sizeBytes: number;
  /** Null for a file outside LFS. */
  sha256: string | null;
}

/**
 * Without a wish: the first of these that there is. Chosen: Q4_K_M is what most people run; then what the engine computes
 * fast on any machine; then larger ones, because small machines are guarded by the memory plan anyway.
 */
const PREFERENCE = [
  'Q4_K_M',
  'Q4_0',
  'Q4_K_S',
  'Q8_0',
  'Q5_K_M',
  'Q4_K_L',
  'Q4_1',
  'IQ4_XS',
  'IQ4_NL',
  'MXFP4',
  'Q6_K',
  'Q5_K_S',
  'Q3_K_M',
  'BF16',
  'F16',
];

const SPLIT = /-(\d{5})-of-(\d{5})\.gguf$/i;

/**
 * The files of one model, in order of their parts: one file, or all parts of a split one.
 * @param quant as in hf:owner/repo:quant; null: by preference. @throws ModelError not_found.
 */
export function chooseHubFiles(files: readonly HubFile[], repo: string, quant: string | null): HubFile[] {
  // Projectors, adapters, importance matrices and draft heads are GGUF files too, and no models by themselves.
  const models = files.filter(
    ({ path }) => /\.gguf$/i.test(path) && !/(^|[/._-])(mmproj|lora|imatrix|adapter|mtp)([/._-]|$)/i.test(path),
  );
  if (models.length === 0) throw new ModelError('not_found', `${repo} on the Hub has no GGUF model file`);
  const first = quant === null ? byPreference(models) : byQuant(models, quant);
  if (first === undefined) {
    const known = [...new Set(models.map(({ path }) => quantOf(path) ?? path))].join(', ');
    throw new ModelError('not_found', `${repo} on the Hub has no ${quant}; it has ${known}`);
  }
  return partsOf(first, models, repo);
}

/** The quantization in a file's name, upper case; null where it names none. */
export function quantOf(path: string): string | null {
  const name = path.replace(SPLIT, '').replace(/\.gguf$/i, '');
  const match = /(?:^|[/._-])((?:UD-)?(?:I?Q\d\w*|TQ\d\w*|BF16|F16|F32|MXFP4\w*|NVFP4))$/i.exec(name) ?? inFolder(path);
  return match ? match[1].toUpperCase() : null;
}

/** Large models are often kept one folder a quantization: Q4_K_M/model-00001-of-00003.gguf. */
function inFolder(path: string): RegExpExecArray | null {
  return /(?:^|\/)((?:UD-)?(?:I?Q\d\w*|TQ\d\w*|BF16|F16|F32|MXFP4\w*|NVFP4))\/[^/]+$/i.exec(path);
}

function byPreference(models: readonly HubFile[]): HubFile {
  for (const wanted of PREFERENCE) {
    const found = firstParts(models).find(({ path }) => quantOf(path) === wanted);
    if (found) return found;
  }
  return firstParts(models)[0] ?? models[0];
}

function byQuant(models: readonly HubFile[], quant: string): HubFile | undefined {
  const wanted = quant.toUpperCase();
  const candidates = firstParts(models);
  return (
    candidates.find(({ path }) => quantOf(path) === wanted) ??
    candidates.find(
      ({ path }) =>
        (path.split('/').at(-1) ?? '')
          .replace(SPLIT, '')
          .replace(/\.gguf$/i, '')
          .toUpperCase() === wanted,
    ) ??
    // hf:repo:Q4_K finds Q4_K_M, as people write it.
    candidates.find(({ path }) => quantOf(path)?.startsWith(`${wanted}_`))
  );
}

function firstParts(models: readonly HubFile[]): HubFile[] {
  return models.filter(({ path }) => (SPLIT.exec(path)?.[1] ?? '00001') === '00001');
}

function partsOf(first: HubFile, models: readonly HubFile[], repo: string): HubFile[] {
  const split = SPLIT.exec(first.path);
  if (!split) return [first];
  const stem = first.path.slice(0, split.index);
  const parts = models
    .filter(
      ({ path }) =>
        path.startsWith(`${stem}-`) && SPLIT.exec(path)?.[2] === split[2] && path.replace(SPLIT, '') === stem,
    )
    .sort((a, b) => a.path.localeCompare(b.path));
  if (parts.length === Number(split[2])) return parts;
  throw new ModelError(
    'not_found',
    `${repo} on the Hub has ${parts.length} of the ${Number(split[2])} parts of ${first.path}`,
  );
}
