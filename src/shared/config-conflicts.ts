/** Settings that are each allowed and together make no sense. Named here, so that the engine does not have to refuse them later. */
import type { Config, ConfigKey, ConfigProblem } from './config.js';

type Conflict = Extract<ConfigProblem, { kind: 'conflict' }>;
type NameOf = (key: ConfigKey) => string;

interface Rule {
  keys: ConfigKey[];
  broken: (config: Config) => boolean;
  reason: (config: Config, nameOf: NameOf) => string;
}

const RULES: readonly Rule[] = [
  {
    keys: ['contextTokens', 'maxTotalTokens'],
    broken: ({ contextTokens, maxTotalTokens }) =>
      contextTokens !== 'auto' && maxTotalTokens !== 'auto' && contextTokens > maxTotalTokens,
    reason: ({ contextTokens, maxTotalTokens }, nameOf) =>
      `${nameOf('contextTokens')} ${contextTokens} conflicts with ${nameOf('maxTotalTokens')} ${maxTotalTokens}: ` +
      'one request cannot have more tokens than all together',
  },
  {
    keys: ['devices', 'gpuLayers'],
    broken: ({ devices, gpuLayers }) => devices.length === 1 && devices[0].toLowerCase() === 'cpu' && gpuLayers > 0,
    reason: ({ gpuLayers }, nameOf) =>
      `${nameOf('gpuLayers')} ${gpuLayers} conflicts with ${nameOf('devices')} cpu: there is no GPU to keep layers on`,
  },
  {
    // The engine has no kernel for a quantized V cache without flash attention and refuses to make the context.
    keys: ['kvType', 'flashAttention'],
    broken: ({ kvType, flashAttention }) => kvType.startsWith('q') && flashAttention === 'off',
    reason: ({ kvType }, nameOf) =>
      `${nameOf('kvType')} ${kvType} conflicts with ${nameOf('flashAttention')} off: a quantized KV cache needs flash attention`,
  },
  {
    keys: ['prefixDir', 'prefixCache'],
    broken: ({ prefixDir, prefixCache }) => prefixDir !== null && !prefixCache,
    reason: ({ prefixDir }, nameOf) =>
      `${nameOf('prefixDir')} ${prefixDir} conflicts with ${nameOf('prefixCache')}: without a prefix cache there is nothing to keep`,
  },
  {
    keys: ['hostPrefixCacheBytes', 'prefixCache'],
    broken: ({ hostPrefixCacheBytes, prefixCache }) => hostPrefixCacheBytes !== 0 && !prefixCache,
    reason: (_, nameOf) =>
      `${nameOf('hostPrefixCacheBytes')} conflicts with ${nameOf('prefixCache')}: without a prefix cache there is nothing to keep`,
  },
  {
    keys: ['checkpointCacheBytes', 'prefixCache'],
    broken: ({ checkpointCacheBytes, prefixCache }) =>
      checkpointCacheBytes !== 'auto' && checkpointCacheBytes !== 0 && !prefixCache,
    reason: (_, nameOf) =>
      `${nameOf('checkpointCacheBytes')} conflicts with ${nameOf('prefixCache')}: without a prefix cache there is nothing to keep`,
  },
  {
    keys: ['prefixDirBytes', 'prefixDir'],
    broken: ({ prefixDirBytes, prefixDir }) => prefixDirBytes !== 'auto' && prefixDir === null,
    reason: (_, nameOf) =>
      `${nameOf('prefixDirBytes')} needs ${nameOf('prefixDir')}: without a folder there is nothing that it could bound`,
  },
];

/** The rules that `config` breaks. */
export function findConflicts(config: Config): Conflict[] {
  return RULES.filter((rule) => rule.broken(config)).map((rule) => ({
    kind: 'conflict',
    keys: rule.keys,
    reason: (nameOf) => rule.reason(config, nameOf),
  }));
}
