import { Counter, Gauge, type Registry } from 'prom-client';
import type { DeviceGauge, SchedulerGauge } from '../shared/gauges-layout.js';
import type { Pipeline, Residence } from './pipeline-types.js';

type PipelineOf = () => Pipeline | null;

/** Readings of the device block, in its own words; the unit is in the name. */
const DEVICE: ReadonlyArray<readonly [name: string, field: DeviceGauge, help: string]> = [
  ['headroom_bytes', 'headroomBytes', 'Bytes that may still be allocated: the load line.'],
  ['device_total_bytes', 'deviceTotalBytes', 'Memory of the device, or its working-set limit.'],
  ['device_used_bytes', 'deviceUsedBytes', 'Device memory in use.'],
  ['device_free_bytes', 'deviceFreeBytes', 'Device memory that is free.'],
  ['system_total_bytes', 'systemTotalBytes', 'Memory of the machine.'],
  ['system_available_bytes', 'systemAvailableBytes', 'Memory of the machine that programs can still get.'],
  ['cgroup_limit_bytes', 'cgroupLimitBytes', 'Limit of the control group; 0: none.'],
  ['cgroup_used_bytes', 'cgroupUsedBytes', 'Use of the control group.'],
  [
    'cgroup_reclaimable_bytes',
    'cgroupReclaimableBytes',
    'File cache of the control group that the kernel can take back.',
  ],
  ['process_footprint_bytes', 'processFootprintBytes', 'Memory of this process.'],
  ['unexplained_bytes', 'unexplainedBytes', 'Bytes in use that nobody in the ledger owns.'],
  ['memory_pressure_level', 'pressureLevel', '0 none, 1 warning, 2 critical.'],
  ['kv_total_tokens', 'kvTotalTokens', 'KV cells of the context.'],
  ['kv_used_tokens', 'kvUsedTokens', 'KV cells in use, shared ones once.'],
  ['context_epoch', 'contextEpoch', 'Contexts made so far.'],
  ['engine_threads', 'engineThreads', 'Threads of the last step.'],
  ['last_error_code', 'lastErrorCode', 'Code of the last engine failure; 0: none.'],
];

const SCHEDULER: ReadonlyArray<readonly [name: string, field: SchedulerGauge, help: string]> = [
  ['kv_cached_tokens', 'kvCachedTokens', 'KV cells that only the prefix cache holds.'],
  ['kv_active_tokens', 'kvActiveTokens', 'KV cells of running requests.'],
  ['planned_chunk_tokens', 'plannedChunkTokens', 'Prompt tokens a step at most, as planned.'],
  ['live_chunk_tokens', 'liveChunkTokens', 'Prompt tokens a step at most, now.'],
  ['live_headroom_bytes', 'liveHeadroomBytes', 'Memory that is left, read while steps run.'],
  ['foreseen_headroom_bytes', 'foreseenHeadroomBytes', 'What will be left of it in two seconds if it goes on falling.'],
  ['host_prefix_budget_bytes', 'hostPrefixBudgetBytes', 'What saved prefixes may take of host memory now.'],
  ['disk_prefix_bytes', 'diskPrefixBytes', 'Files of saved prefixes.'],
  ['disk_prefix_bound_bytes', 'diskPrefixBoundBytes', 'What files of saved prefixes may take together.'],
  ['running_cap', 'runningCap', 'Requests that may run at once.'],
  ['running_requests', 'runningRequests', 'Requests that run.'],
  ['waiting_requests', 'waitingRequests', 'Requests that wait.'],
];

const MICROS: ReadonlyArray<readonly [name: string, field: DeviceGauge, help: string]> = [
  ['last_step_seconds', 'lastStepMicros', 'Time of the last engine step.'],
  ['last_decode_seconds', 'lastDecodeMicros', 'Time in the model in the last step.'],
  ['last_sample_seconds', 'lastSampleMicros', 'Time in the sampler in the last step.'],
  ['device_idle_seconds', 'deviceIdleMicros', 'Time between the last two steps in which the engine had nothing to do.'],
];

const DEVICE_COUNTERS: ReadonlyArray<readonly [name: string, field: DeviceGauge, help: string]> = [
  ['steps_total', 'steps', 'Engine steps.'],
  ['decoded_tokens_total', 'decodedTokens', 'Tokens that went through the model.'],
];

const SCHEDULER_COUNTERS: ReadonlyArray<readonly [name: string, field: SchedulerGauge, help: string]> = [
  ['evictions_total', 'evictions', 'Cached prefixes given up.'],
  ['evicted_tokens_total', 'evictedTokens', 'KV cells of the prefixes given up.'],
  ['preemptions_total', 'preemptions', 'Running requests that had to give up their KV cells.'],
  ['prefix_hit_tokens_total', 'prefixHitTokens', 'Prompt tokens found in the prefix cache.'],
  ['prefix_lookup_tokens_total', 'prefixLookupTokens', 'Prompt tokens looked up in the prefix cache.'],
  ['host_prefix_saves_total', 'hostPrefixSaves', 'Evicted prefixes and checkpoints that were saved in host memory.'],
  ['host_prefix_hits_total', 'hostPrefixHits', 'Prefixes that came back from host memory.'],
  ['host_prefix_hit_tokens_total', 'hostPrefixHitTokens', 'Prompt tokens that came back from host memory.'],
  ['host_prefix_evictions_total', 'hostPrefixEvictions', 'Saved prefixes given up for want of memory.'],
  ['disk_prefix_saves_total', 'diskPrefixSaves', 'Prefixes that were written to disk.'],
  ['disk_prefix_hits_total', 'diskPrefixHits', 'Prefixes that came back from disk.'],
  ['disk_prefix_hit_tokens_total', 'diskPrefixHitTokens', 'Prompt tokens that came back from disk.'],
  ['disk_prefix_evictions_total', 'diskPrefixEvictions', 'Prefixes on disk given up for others.'],
  ['disk_prefix_errors_total', 'diskPrefixErrors', 'Prefixes that could not be written to disk, or read from it.'],
  ['drafted_tokens_total', 'draftedTokens', 'Tokens guessed and computed ahead of their samples.'],
  ['accepted_draft_tokens_total', 'acceptedDraftTokens', 'Of these, tokens that were then sampled.'],
];

const LEDGER: ReadonlyArray<readonly [owner: string, field: DeviceGauge]> = [
  ['weights', 'weightsBytes'],
  ['kv', 'kvBytes'],
  ['compute', 'computeBytes'],
  ['runtime_extra', 'runtimeExtraBytes'],
  ['host_prefix_tier', 'hostPrefixBytes'],
];

const RESIDENCES: readonly Residence[] = ['ready', 'released', 'unloaded', 'loading'];

/** The load line: every gauge of the pipeline, read when someone scrapes. All are 0 while no model is loaded. */
export function gaugeMetrics(registry: Registry, pipeline: PipelineOf): void {
  const device = (field: DeviceGauge) => () => pipeline()?.deviceGauges()[field] ?? 0;
  const scheduler = (field: SchedulerGauge) => () => pipeline()?.schedulerGauges()[field] ?? 0;
  for (const [name, field, help] of DEVICE) gauge(registry, name, help, device(field));
  for (const [name, field, help] of SCHEDULER) gauge(registry, name, help, scheduler(field));
  for (const [name, field, help] of MICROS) gauge(registry, name, help, () => device(field)() / 1e6);
  for (const [name, field, help] of DEVICE_COUNTERS) counter(registry, name, help, device(field));
  for (const [name, field, help] of SCHEDULER_COUNTERS) counter(registry, name, help, scheduler(field));
  gauge(registry, 'kv_usage_ratio', 'Share of the KV cells in use.', () => {
    const total = device('kvTotalTokens')();
    return total > 0 ? device('kvUsedTokens')() / total : 0;
  });
  gauge(registry, 'model_loaded', '1 while the weights are in memory.', () =>
    pipeline()?.residence === 'ready' || pipeline()?.residence === 'released' ? 1 : 0,
  );
  new Gauge({
    name: 'plimsoll_model_residence',
    help: 'What of the model is in memory: 1 for the state it is in.',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      const now = pipeline()?.residence ?? 'loading';
      for (const state of RESIDENCES) this.set({ state }, state === now ? 1 : 0);
    },
  });
  new Gauge({
    name: 'plimsoll_ledger_bytes',
    help: 'Bytes by owner.',
    labelNames: ['owner'],
    registers: [registry],
    collect() {
      for (const [owner, field] of LEDGER) this.set({ owner }, device(field)());
    },
  });
}

function gauge(registry: Registry, name: string, help: string, read: () => number): void {
  new Gauge({
    name: `plimsoll_${name}`,
    help,
    registers: [registry],
    collect() {
      this.set(read());
    },
  });
}

/** A count that another thread keeps: set, not added to. */
function counter(registry: Registry, name: string, help: string, read: () => number): void {
  new Counter({
    name: `plimsoll_${name}`,
    help,
    registers: [registry],
    collect() {
      this.reset();
      this.inc(Math.max(0, read()));
    },
  });
}
