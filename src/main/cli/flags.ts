/** The flags: which setting each one sets, how its text is read, and its line in the help. Names follow SGLang where it has one. */
import type { ConfigKey } from '../../shared/config.js';
import * as read from './flag-values.js';

export interface Flag {
  key: ConfigKey;
  /** Without the dashes. */
  name: string;
  /** What stands for the value in the help; null: a switch. */
  value: string | null;
  read: read.ReadValue;
  /** May be given several times; the values are joined. */
  repeatable?: boolean;
  /** What a switch sets; true where not said. */
  sets?: boolean;
  /** Other spellings that mean exactly the same. */
  aliases?: string[];
  group: FlagGroup;
  help: string;
}

export type FlagGroup = 'Model' | 'Server' | 'Scheduling' | 'Memory' | 'Device' | 'Logs';
export const FLAG_GROUPS: readonly FlagGroup[] = ['Model', 'Server', 'Scheduling', 'Memory', 'Device', 'Logs'];

export const FLAGS: readonly Flag[] = [
  {
    key: 'model',
    name: 'model',
    value: 'model',
    read: read.readText,
    aliases: ['-m', '--model-path'],
    group: 'Model',
    help: 'GGUF path, hf:owner/repo[:quant], or a built-in name',
  },
  {
    key: 'servedModelName',
    name: 'served-model-name',
    value: 'name',
    read: read.readText,
    aliases: ['-a', '--alias'],
    group: 'Model',
    help: 'the name that clients use',
  },

  { key: 'host', name: 'host', value: 'address', read: read.readText, group: 'Server', help: 'address to listen on' },
  {
    key: 'port',
    name: 'port',
    value: 'port',
    read: read.readNumber,
    group: 'Server',
    help: 'port; 0 takes any free one',
  },
  {
    key: 'apiKeys',
    name: 'api-key',
    value: 'key',
    read: read.readList,
    repeatable: true,
    group: 'Server',
    help: 'key that clients must send (repeatable)',
  },
  {
    key: 'apiKeyFile',
    name: 'api-key-file',
    value: 'path',
    read: read.readText,
    group: 'Server',
    help: 'file with one key a line',
  },
  {
    key: 'corsOrigins',
    name: 'cors',
    value: 'origins',
    read: read.readList,
    group: 'Server',
    help: 'origins browsers may call from: * or a list',
  },
  {
    key: 'shutdownTimeoutMs',
    name: 'shutdown-timeout',
    value: 'seconds',
    read: read.readTimeMs,
    group: 'Server',
    help: 'longest wait for running requests when stopping',
  },
  {
    key: 'warmup',
    name: 'no-warmup',
    value: null,
    read: read.readSwitch,
    sets: false,
    group: 'Server',
    help: 'be ready without a first trial run',
  },
  {
    key: 'probe',
    name: 'skip-probe',
    value: null,
    read: read.readSwitch,
    sets: false,
    group: 'Server',
    help: 'do not try the largest planned step first',
  },
  {
    key: 'supervisor',
    name: 'no-supervisor',
    value: null,
    read: read.readSwitch,
    sets: false,
    group: 'Server',
    help: 'serve in this process; nothing restarts it after a crash',
  },

  {
    key: 'maxRunningRequests',
    name: 'max-running-requests',
    value: 'auto|N',
    read: read.readNumber,
    aliases: ['-np', '--parallel'],
    group: 'Scheduling',
    help: 'requests that run at once',
  },
  {
    key: 'maxQueuedRequests',
    name: 'max-queued-requests',
    value: 'N',
    read: read.readNumber,
    group: 'Scheduling',
    help: 'requests that may wait; more get 429',
  },
  {
    key: 'queueTimeoutMs',
    name: 'queue-timeout',
    value: 'seconds',
    read: read.readTimeMs,
    group: 'Scheduling',
    help: 'longest wait for a slot or for memory',
  },
  {
    key: 'chunkTokens',
    name: 'chunked-prefill-size',
    value: 'auto|N',
    read: read.readTokens,
    group: 'Scheduling',
    help: 'prompt tokens of one step',
  },
  {
    key: 'targetItlMs',
    name: 'target-itl-ms',
    value: 'ms',
    read: read.readNumber,
    group: 'Scheduling',
    help: 'token gap that prompts leave to others',
  },
  {
    key: 'prefixCache',
    name: 'disable-radix-cache',
    value: null,
    read: read.readSwitch,
    sets: false,
    group: 'Scheduling',
    help: 'do not reuse prefixes of earlier requests',
  },
  {
    key: 'speculative',
    name: 'speculative',
    value: 'ngram|off',
    read: read.readText,
    aliases: ['--speculative-algorithm'],
    group: 'Scheduling',
    help: 'guess tokens ahead',
  },
  {
    key: 'overlapSchedule',
    name: 'disable-overlap-schedule',
    value: null,
    read: read.readSwitch,
    sets: false,
    group: 'Scheduling',
    help: 'plan and run in lock step (for debugging)',
  },

  {
    key: 'contextTokens',
    name: 'context-length',
    value: 'auto|N',
    read: read.readTokens,
    group: 'Memory',
    help: 'tokens of one request, prompt and output',
  },
  {
    key: 'maxTotalTokens',
    name: 'max-total-tokens',
    value: 'auto|N',
    read: read.readTokens,
    group: 'Memory',
    help: 'KV cache of all requests, tokens',
  },
  {
    key: 'hostPrefixCacheBytes',
    name: 'host-prefix-cache',
    value: 'size',
    read: read.readBytes,
    group: 'Memory',
    help: 'RAM for evicted prefixes, or auto',
  },
  {
    key: 'checkpointCacheBytes',
    name: 'checkpoint-cache',
    value: 'size',
    read: read.readBytes,
    group: 'Memory',
    help: "RAM for recurrent models' prefixes",
  },
  {
    key: 'prefixDir',
    name: 'prefix-dir',
    value: 'path',
    read: read.readText,
    group: 'Memory',
    help: 'folder for prefixes that survive a restart',
  },
  {
    key: 'prefixDirBytes',
    name: 'prefix-dir-size',
    value: 'auto|size',
    read: read.readBytes,
    group: 'Memory',
    help: 'what that folder may hold',
  },
  {
    key: 'memoryFraction',
    name: 'mem-fraction-static',
    value: 'auto|F',
    read: read.readNumber,
    group: 'Memory',
    help: 'share of the device for weights and KV cache',
  },
  {
    key: 'idleReleaseMs',
    name: 'idle-release',
    value: 'seconds',
    read: read.readTimeMs,
    group: 'Memory',
    help: 'idle time after which the KV cache is given back; 0 never',
  },
  {
    key: 'idleUnloadMs',
    name: 'idle-unload',
    value: 'seconds',
    read: read.readTimeMs,
    group: 'Memory',
    help: 'idle time after which the weights are given back too; 0 never',
  },
  {
    key: 'kvType',
    name: 'kv-cache-dtype',
    value: 'type',
    read: read.readText,
    group: 'Memory',
    help: 'f16, q8_0, q4_0, bf16 or f32',
  },
  {
    key: 'kvLayout',
    name: 'kv-layout',
    value: 'layout',
    read: read.readText,
    group: 'Memory',
    help: 'auto, shared or private',
  },

  {
    key: 'devices',
    name: 'device',
    value: 'names',
    read: read.readDevices,
    aliases: ['-dev'],
    group: 'Device',
    help: 'auto, cpu, or device names',
  },
  {
    key: 'gpuLayers',
    name: 'gpu-layers',
    value: 'all|N',
    read: read.readLayers,
    aliases: ['-ngl', '--n-gpu-layers'],
    group: 'Device',
    help: 'layers kept on the GPU',
  },
  {
    key: 'threads',
    name: 'threads',
    value: 'auto|N',
    read: read.readNumber,
    aliases: ['-t'],
    group: 'Device',
    help: 'threads of the engine',
  },
  {
    key: 'flashAttention',
    name: 'flash-attention',
    value: 'auto|on|off',
    read: read.readText,
    aliases: ['-fa', '--flash-attn'],
    group: 'Device',
    help: 'fused attention kernels',
  },

  {
    key: 'logLevel',
    name: 'log-level',
    value: 'level',
    read: read.readText,
    group: 'Logs',
    help: 'trace, debug, info, warn, error or silent',
  },
  {
    key: 'logFormat',
    name: 'log-format',
    value: 'format',
    read: read.readText,
    group: 'Logs',
    help: 'auto, pretty or json',
  },
];

/** Settings of serve that decide a plan. */
const PLAN_KEYS: ReadonlySet<ConfigKey> = new Set([
  'model',
  'maxRunningRequests',
  'chunkTokens',
  'prefixCache',
  'contextTokens',
  'maxTotalTokens',
  'memoryFraction',
  'kvType',
  'kvLayout',
  'gpuLayers',
  'threads',
  'flashAttention',
]);

/** As serve takes them, and machines that are not here beside the devices of this one. */
export const PLAN_FLAGS: readonly Flag[] = [
  ...FLAGS.filter(({ key }) => PLAN_KEYS.has(key)),
  {
    key: 'devices',
    name: 'device',
    value: 'names',
    read: read.readDevices,
    aliases: ['-dev'],
    group: 'Device',
    help: 'this (machine), all, or profiles such as m4-pro-24gb,rtx-4090',
  },
];

const DOCTOR_KEYS: ReadonlySet<ConfigKey> = new Set(['model', 'host', 'port', 'devices', 'gpuLayers']);
export const DOCTOR_FLAGS: readonly Flag[] = FLAGS.filter(({ key }) => DOCTOR_KEYS.has(key));

/** Flags of other servers that do nearly what one of ours does: refused, with ours named, because nearly is not the same. */
export const FOREIGN_FLAGS: Readonly<Record<string, string>> = {
  '-c': '--context-length (tokens of one request) or --max-total-tokens (of all)',
  '--ctx-size': '--context-length (tokens of one request) or --max-total-tokens (of all)',
  '--max-model-len': '--context-length',
  '-b': '--chunked-prefill-size',
  '--batch-size': '--chunked-prefill-size',
  '-ub': '--chunked-prefill-size',
  '--ubatch-size': '--chunked-prefill-size',
  '-ctk': '--kv-cache-dtype',
  '--cache-type-k': '--kv-cache-dtype',
  '-ctv': '--kv-cache-dtype',
  '--cache-type-v': '--kv-cache-dtype',
  '-hf': '--model hf:owner/repo[:quant]',
  '--hf-repo': '--model hf:owner/repo[:quant]',
  '-cram': '--host-prefix-cache',
  '--cache-ram': '--host-prefix-cache',
  '-ctxcp': '--checkpoint-cache (bytes)',
  '--ctx-checkpoints': '--checkpoint-cache (bytes)',
  '--hicache-size': '--host-prefix-cache',
  '--slot-save-path': '--prefix-dir',
  '--max-num-seqs': '--max-running-requests',
  '--gpu-memory-utilization': '--mem-fraction-static',
  '--no-kv-unified': '--kv-layout private',
  '--kv-unified': '--kv-layout shared',
};

/** The flag of each setting, as it is typed. */
export function flagOf(key: ConfigKey): string {
  const flag = FLAGS.find((entry) => entry.key === key);
  return flag ? `--${flag.name}` : key;
}

/** The environment variable of a flag. */
export function environmentName(flag: Flag): string {
  return `PLIMSOLL_${flag.name.replaceAll('-', '_').toUpperCase()}`;
}
