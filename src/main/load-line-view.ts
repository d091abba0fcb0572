import type { DeviceGauge, SchedulerGauge } from '../shared/gauges-layout.js';
import type { ContextRung } from '../shared/memory/context-ladder.js';
import { Ledger, type LedgerOwner } from '../shared/memory/ledger.js';
import type { ForwardReady } from '../workers/worker-messages.js';
import type { Residence } from './pipeline-types.js';

/** What stands, as JSON for /v1/load-line: the plan with its reasons, the probe, the ladder, and who has which bytes now. */
export interface LoadLineView {
  residence: Residence;
  plan: {
    layout: string;
    running_cap: number;
    context_tokens: number;
    pool_tokens: number;
    chunk_tokens: number;
    cost_source: string;
    margin_bytes: number;
    reasons: ReadonlyArray<{ cap: string; value: number | string; binds: string; sentence: string }>;
  };
  probe: { ran: boolean; chunk_tokens: number; runtime_extra_bytes: number; sentence: string };
  /** `cells`: of the pool, or of each of its private streams. */
  ladder: ReadonlyArray<{ layout: string; sequences: number; cells: number; bytes: number; stands: boolean }>;
  ledger: { owners: Record<string, number>; total_bytes: number; unexplained_bytes: number; alarm: boolean };
}

export function loadLineView(
  ready: ForwardReady,
  device: Readonly<Record<DeviceGauge, number>>,
  scheduler: Readonly<Record<SchedulerGauge, number>>,
): LoadLineView {
  const { plan, probe, ladder } = ready;
  const stands = ({ spec, cells }: ContextRung) =>
    device.kvTotalTokens === (spec.layout === 'shared' ? cells : cells * spec.sequences) &&
    scheduler.runningCap === Math.min(plan.runningCap, spec.sequences);
  const ledger = ledgerOf(device, scheduler);
  const usedBytes = ledger.total() + device.unexplainedBytes;
  return {
    residence: residenceOf(device),
    plan: {
      layout: plan.layout,
      running_cap: plan.runningCap,
      context_tokens: plan.contextTokens,
      pool_tokens: plan.poolTokens,
      chunk_tokens: probe.chunkTokens || plan.chunkTokens,
      cost_source: plan.costSource,
      margin_bytes: plan.arithmetic.marginBytes,
      reasons: plan.reasons,
    },
    probe: {
      ran: probe.ran,
      chunk_tokens: probe.chunkTokens,
      runtime_extra_bytes: probe.runtimeExtraBytes,
      sentence: probe.sentence,
    },
    ladder: ladder.map((rung) => ({
      layout: rung.spec.layout,
      sequences: rung.spec.sequences,
      cells: rung.cells,
      bytes: rung.bytes,
      stands: stands(rung),
    })),
    ledger: {
      owners: Object.fromEntries(ledger.lines().map(({ owner, bytes }) => [owner, bytes])),
      total_bytes: ledger.total(),
      unexplained_bytes: device.unexplainedBytes,
      alarm: ledger.alarms(usedBytes),
    },
  };
}

/** Of a model whose weights are there. */
export function residenceOf({ kvBytes, computeBytes }: Readonly<Record<DeviceGauge, number>>): Residence {
  return kvBytes === 0 && computeBytes === 0 ? 'released' : 'ready';
}

/** The standing pool is split by what is in its cells. */
function ledgerOf(
  device: Readonly<Record<DeviceGauge, number>>,
  scheduler: Readonly<Record<SchedulerGauge, number>>,
): Ledger {
  const ledger = new Ledger();
  const cellBytes = device.kvTotalTokens > 0 ? device.kvBytes / device.kvTotalTokens : 0;
  const share = (tokens: number) => Math.round(tokens * cellBytes);
  const active = share(scheduler.kvActiveTokens);
  const cached = share(scheduler.kvCachedTokens);
  const owners: Partial<Record<LedgerOwner, number>> = {
    processBaseline: device.baselineBytes,
    weights: device.weightsTakenBytes,
    kvActive: active,
    kvCached: cached,
    // Two blocks are read one after the other: between them a step may have ended.
    kvFree: Math.max(0, device.kvBytes - active - cached),
    compute: device.computeBytes,
    runtimeExtra: device.runtimeExtraBytes,
    hostPrefixTier: device.hostPrefixBytes,
  };
  for (const [owner, bytes] of Object.entries(owners)) ledger.set(owner as LedgerOwner, Math.round(bytes));
  return ledger;
}
